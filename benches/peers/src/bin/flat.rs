//! Runs so many steps and ends: under callgrind, the difference of two runs is the cost of the steps
//! between them. `cargo xtask bench` reads it.

use endstop_bench::{EIGHT, run_under, step};

fn main() {
    let steps: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10);
    let condition = format!("{EIGHT} or streak(no_tool_calls) >= 1_000_000 or count(errored, 10 steps) >= 9");
    let mut run = run_under(&condition);
    let mut result = String::with_capacity(64);
    for number in 0..steps {
        step(&mut run, number, &mut result);
    }
    println!("{}", run.step_count());
}
