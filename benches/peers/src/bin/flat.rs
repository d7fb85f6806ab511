//! Takes so many steps and ends, of the core alone or, with `agent`, of the whole loop: under callgrind, the
//! difference of two runs is the cost of the steps between them. `cargo xtask bench` reads it.

use endstop_bench::{EIGHT, agents, run_under, step};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let steps: u64 = words.first().and_then(|n| n.parse().ok()).unwrap_or(10);
    let taken =
        if words.iter().any(|word| word == "agent") { of_agent(steps) } else { of_core(steps) };
    println!("{taken}");
}

fn of_core(steps: u64) -> u64 {
    let condition =
        format!("{EIGHT} or streak(no_tool_calls) >= 1_000_000 or count(errored, 10 steps) >= 9");
    let mut run = run_under(&condition);
    let mut result = String::with_capacity(64);
    for number in 0..steps {
        step(&mut run, number, &mut result);
    }
    run.step_count()
}

fn of_agent(steps: u64) -> u64 {
    // A limit far away has as many digits for a short run as for a long one.
    let agent = agents::agent_of(agents::model(steps), 1_000_000_000);
    agents::block_on(agents::run(&agent)).step_count()
}
