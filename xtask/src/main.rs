//! Tasks of the project: `cargo xtask <task>`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command whose output is read by people at a terminal"
)]

mod bench;
mod bench_gateway;
mod clients;
mod detection;
mod docs;
mod prices;
mod real_model;
mod test;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <task>

Tasks:
  test     everything that a change has to pass: format, lints, tests, licences
  nightly  the same, and what takes longer
  tidy     house rules: sizes, docs, purity of the core, links, generated pages
  docs     write the generated pages again
  prices   take the price data from its published package
  bench    measure beside peers, and print ratios: conditions, replay, the ledger, the agent loop
  bench gateway [--quick] [--release | --binary FILE] [--only NAME..]
           measure the gateway beside nginx, LiteLLM and Portkey (docs/gateway-benchmark.md)
  real-model
           run the agent loop on a small real model, which is fetched below target/ first
  clients [--ci | --all [--write] | NAME..]
           run real clients under `endstop run`, which are installed below target/ first, and print how
           they ended; with --write put that into docs/clients.md
  detection [--write | FORM..]
           replay the recorded runs under each form of loop detection, and print the tables of
           docs/detection.md, or write them there; with conditions, print theirs";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let passed = match words.as_slice() {
        ["test"] => test::run(test::Depth::Push),
        ["nightly"] => test::run(test::Depth::Nightly),
        ["tidy"] => tidy_and_report(),
        ["docs"] => write_docs_and_report(),
        ["prices"] => report(prices::run()),
        ["clients", words @ ..] => report(clients::run(&tree::root(), words)),
        ["detection", "--write"] => report(detection::write(&tree::root())),
        ["detection", forms @ ..] => report(detection::print(&tree::root(), forms)),
        ["bench"] => report(bench::run(&tree::root())),
        ["bench", "gateway", rest @ ..] => report(bench_gateway::run(&tree::root(), rest)),
        ["real-model"] => report(real_model::run(&tree::root())),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tidy_and_report() -> bool {
    match tidy::run(&tree::root()) {
        Ok(findings) => {
            for finding in &findings {
                println!("{finding}");
            }
            findings.is_empty()
        }
        Err(error) => {
            eprintln!("error: {error}");
            false
        }
    }
}

fn write_docs_and_report() -> bool {
    match docs::write(&tree::root()) {
        Ok(written) => {
            for path in written {
                println!("wrote {path}");
            }
            true
        }
        Err(error) => {
            eprintln!("error: {error}");
            false
        }
    }
}

fn report(result: Result<(), String>) -> bool {
    match result {
        Ok(()) => true,
        Err(error) => {
            eprintln!("error: {error}");
            false
        }
    }
}
