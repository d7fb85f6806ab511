//! The two ends that a gateway is measured between: `upstream`, a model provider that answers immediately, and
//! `load`, the clients. `hold` keeps connections open and reads how much memory a gateway takes.
//!
//! Both ends are written on plain sockets, so that they cost little compared with the gateway. Each takes one
//! thread; results are one line of JSON on standard output.

mod bodies;
mod clients;
mod hold;
mod http;
mod load;
mod numbers;
mod options;
mod process;
mod upstream;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: gateway-load upstream --listen ADDR
       gateway-load load --target ADDR --upstream ADDR --process PID [--path PATH] [--header 'NAME: VALUE']..
                         [--kind json|stream] [--gap-us N] [--connections N] [--warmup-ms N] [--window-ms N]
       gateway-load hold --target ADDR --upstream ADDR --process PID [--path PATH] [--header ..]..
                         [--connections N] [--no-streams]

`{connection}` in PATH is the number of the connection.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}\n\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<String, String> {
    let (command, rest) = words.split_first().ok_or("no command")?;
    let options = options::Options::parse(rest)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let local = tokio::task::LocalSet::new();
    match command.as_str() {
        "upstream" => local.block_on(&runtime, upstream::serve(options.listen()?)),
        "load" => local.block_on(&runtime, load::run(&options)),
        "hold" => local.block_on(&runtime, hold::run(&options)),
        other => Err(format!("no command `{other}`")),
    }
}
