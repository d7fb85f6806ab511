//! One act: `endstop run` around the agent, and what it wrote of it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use endstop::core::units::Money;
use serde_json::Value;

use crate::defaults;
use crate::error::{CliError, ExitMeaning};

/// The common parts of both acts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// The limits.
    pub(super) usd: Money,
    pub(super) steps: u64,
    /// The planner's own limit.
    pub(super) iterations: u64,
    /// People watch: the second act takes its time.
    pub(super) is_watched: bool,
    /// Nothing but figures is wanted.
    pub(super) is_silent: bool,
}

/// The result of an act; figures as `endstop run --json-file` has them.
#[derive(Clone, Debug)]
pub(super) struct DemoAct {
    pub(super) whole: Value,
    pub(super) cost: Money,
    pub(super) calls: u64,
    pub(super) sub_agents: u64,
    pub(super) tokens: u64,
    pub(super) elapsed_ms: u64,
}

/// Plays an act; `None` if it was interrupted.
///
/// # Errors
/// Returns an error if a program cannot be run, or does not end as it has to.
pub(super) fn play(stage: &Stage, is_dry: bool) -> Result<Option<DemoAct>, CliError> {
    let failed = |problem: String| CliError::new(format!("the demo failed: {problem}"));
    let own = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let file = Draft::new();
    let mut command = Command::new(&own);
    // The demo is the same whatever the user's defaults are.
    defaults::clear(&mut command);
    if stage.is_silent {
        command.arg("--quiet").stdout(Stdio::null());
    }
    command.args(["run", "--upstream", "sim", "--usd"]).arg(stage.usd.to_decimal());
    command.arg("--steps").arg(stage.steps.to_string()).arg("--json-file").arg(&file.0);
    if is_dry {
        command.arg("--dry-run");
    }
    command.arg("--").arg(&own).args(["demo-agent", "--iterations"]);
    command.arg(stage.iterations.to_string());
    if stage.is_watched && !is_dry {
        command.args(["--pause", "150ms"]);
    }
    let status = command.status().map_err(|error| failed(error.to_string()))?;
    let code = status.code().unwrap_or_default();
    match u8::try_from(code).unwrap_or(u8::MAX) {
        code if code == ExitMeaning::Ok.code() || code == ExitMeaning::Stopped.code() => {}
        code if code == ExitMeaning::Interrupted.code() => return Ok(None),
        code => return Err(failed(format!("`endstop run` ended with {code}"))),
    }
    let text = std::fs::read_to_string(&file.0).map_err(|error| failed(error.to_string()))?;
    let whole: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    read(whole).map(Some).ok_or_else(|| failed("its figures are missing".to_owned()))
}

fn read(whole: Value) -> Option<DemoAct> {
    let totals = whole.pointer("/report/totals")?;
    let number = |key: &str| totals.get(key).and_then(Value::as_u64);
    Some(DemoAct {
        cost: whole.pointer("/report/spend/usd")?.as_str()?.parse().ok()?,
        calls: whole.get("upstream_calls")?.as_u64()?,
        sub_agents: number("sub_agents")?,
        tokens: number("tokens")?,
        elapsed_ms: number("elapsed_ms")?,
        whole,
    })
}

/// A file for the figures, which goes when they have been read.
struct Draft(PathBuf);

impl Draft {
    fn new() -> Self {
        let name = format!("endstop-demo-{}.json", endstop::store::RunId::new());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It is not there if the act was not played.
        let _ = std::fs::remove_file(&self.0);
    }
}
