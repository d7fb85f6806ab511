//! Tasks of the project: `cargo xtask <task>`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command whose output is read by people at a terminal"
)]

mod against;
mod bench;
mod bench_budgets;
mod bench_gateway;
mod bench_spend;
mod clients;
mod dist;
mod page;
mod prices;
#[cfg(feature = "project")]
mod project;
mod real_model;
mod redis_server;
mod root;
mod test;

use std::process::ExitCode;

use root::root;

const USAGE: &str = "\
Usage: cargo xtask <task>

Tasks:
  test     everything that a change has to pass: format, lints, tests, licenses
  nightly  the same, and what takes longer
  tidy     house rules: sizes, docs, purity of the core, links, generated pages
  docs     write the generated pages again
  picture  draw README's picture again, from a real run in a terminal
  book [--no-api]
           make README, docs/ and the documentation of the crates into a site, target/book/index.html
  prices   take the price data from its published package
  bench    measure against peers, and print ratios: conditions, replay, the ledger, the agent loop
  bench --against REV [--only NAME..]
           measure an earlier revision and this one in turns, and mark what is slower by more than a tenth
  bench budgets [--quick] [--write] [--binary FILE] [--only PART..]
           show that budgets hold over processes, gateways and kills, and what they cost; with --write put the
           rows of each part into docs/budgets-benchmark.md as it ends
  bench gateway [--quick] [--binary FILE] [--against REV | --binary-before FILE] [--only NAME..]
           measure the gateway against nginx, LiteLLM and Portkey (docs/gateway-benchmark.md), or against an
           earlier one
  bench spend [--size MB] [--binary FILE]
           measure how quickly `endstop spend` reads generated sessions, by default a gigabyte
  dist [--check] [--debug | --binary FILE.. | --target TARGET] [--channel NAME..]
           make what people install into target/dist: archive, wheel, npm, image; with --check install each
           from loopback in a clean environment, and time it
  real-model
           run the agent loop on a small real model, which is fetched below target/ first
  clients [--all | --programs | --intercept | NAME..] [--sweep] [--write]
           run real clients under `endstop run`, which are installed below target/ first, and print how
           they ended; --programs are agent programs such as Codex, --intercept HTTP clients, README the lines of
           README word for word, README:claude, README:codex and README:python those of one program; with --sweep
           remove what was installed after its runs, with --write put the rows into docs/clients.md as they end
  attack [--json] [--write | NAME..]
           put a misbehaving upstream behind the gateway, and print what it bills and what the ledger says;
           with --write put that into SECURITY.md
  shares [--write]
           measure what reservations cost: the time of parallel calls under a small limit, and how much more
           a call holds than it spends; with --write put that into docs/reservations.md
  detection [--write | FORM..]
           replay the recorded runs under each form of loop detection, and print the tables of
           docs/detection.md, or write them there; with conditions, print theirs";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let passed = match words.as_slice() {
        ["test"] => test::run(test::Depth::Push),
        ["nightly"] => test::run(test::Depth::Nightly),
        ["attack" | "book" | "detection" | "docs" | "picture" | "shares" | "tidy", ..] => {
            with_the_project(&words)
        }
        ["prices"] => report(prices::run()),
        ["clients", words @ ..] => report(clients::run(&root(), words)),
        ["dist", words @ ..] => report(dist::run(&root(), words)),
        ["bench", "budgets", rest @ ..] => report(bench_budgets::run(&root(), rest)),
        ["bench", "gateway", rest @ ..] => report(bench_gateway::run(&root(), rest)),
        ["bench", "spend", rest @ ..] => report(bench_spend::run(&root(), rest)),
        ["bench", rest @ ..] => report(bench::run(&root(), rest)),
        ["real-model"] => report(real_model::run(&root())),
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

/// Tasks that need the project to be built.
#[cfg(feature = "project")]
fn with_the_project(words: &[&str]) -> bool {
    project::run(words)
}

/// The same, by a build of this program that has them.
#[cfg(not(feature = "project"))]
fn with_the_project(words: &[&str]) -> bool {
    let cargo = ["run", "--quiet", "--package", "xtask", "--"];
    let task = std::process::Command::new("cargo").args(cargo).args(words).status();
    report(task.map_err(|error| format!("cannot run `cargo`: {error}")).and_then(|status| {
        if status.success() { Ok(()) } else { Err(format!("`{}`: {status}", words.join(" "))) }
    }))
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
