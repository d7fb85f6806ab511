//! `endstop sim`: the scripted model alone, as an upstream for anything that speaks to a model over HTTP.

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

use endstop_sim::{Script, Sim};

use super::gateway::{hear_the_end, script};
use crate::error::CliError;

const HELP: &str = "\
Examples:
  endstop sim
  endstop sim --script loop:3 --listen 127.0.0.1:9000
  endstop serve --upstream http://127.0.0.1:9000

It serves OpenAI chat completions and responses, Anthropic messages and Gemini,
as JSON and as streams, and calls the tools in the request. Scripts: loop,
loop:N, answer, delegate, slow, fail, cut, repeat, long. A request may choose
another one by its model's name, `sim/SCRIPT`. GET /sim/stats returns the calls
and their tokens.";

/// Arguments of `endstop sim`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct SimArgs {
    /// What the model does
    #[arg(long, value_name = "SCRIPT", default_value = "loop", value_parser = script)]
    script: Script,
    /// Listen address [default: 127.0.0.1:0]
    ///
    /// Port 0 takes a free one.
    #[arg(hide_default_value = true, long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the address cannot be listened on.
pub fn run(args: &SimArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let sim = Sim::start_at(args.listen, args.script)
            .await
            .map_err(|error| CliError::new(format!("cannot listen on {}: {error}", args.listen)))?;
        let addr = sim.addr();
        writeln!(out, "listening on http://{addr}, script {}", args.script)?;
        writeln!(out, "  OPENAI_BASE_URL=http://{addr}/v1")?;
        writeln!(out, "  ANTHROPIC_BASE_URL=http://{addr}")?;
        writeln!(out, "  GOOGLE_GEMINI_BASE_URL=http://{addr}")?;
        out.flush()?;
        Ok(hear_the_end(async { drop(sim) }).await)
    })
}
