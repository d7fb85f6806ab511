//! The `endstop` command.
fn main() {}
