//! The `endstop` command. Everything is in the library, so that the reference pages can be generated.

use std::process::ExitCode;

fn main() -> ExitCode {
    endstop_cli::main(std::env::args_os().collect())
}
