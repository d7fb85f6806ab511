//! Tasks of the project: `cargo xtask TASK`.

mod prices;

use std::process::ExitCode;

/// What `cargo xtask` prints when it does not know the task.
const USAGE: &str = "usage: cargo xtask TASK

tasks:
  prices    take the price data from its published package into crates/endstop/data";

fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    let result = match task.as_deref() {
        Some("prices") => prices::run(),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain(&message);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a task speaks to the person who started it")]
fn complain(message: &str) {
    eprintln!("error: {message}");
}
