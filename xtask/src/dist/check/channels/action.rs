//! The scripts of the GitHub Action.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::Outcome;
use super::Place;
use crate::dist::sandbox::exits;

/// A job that ends on its own takes less. One that Endstop waits for takes `--grace` or `--linger`, 10 s or 30 s.
const PROMPT: Duration = Duration::from_secs(5);

/// An agent that asks again as long as it is let.
const LOOP: &str = r#"
while curl -fsS "$OPENAI_BASE_URL/chat/completions" -H 'content-type: application/json' \
  -d '{"model":"gpt-4o","messages":[{"role":"user","content":"go"}]}' > answer.json
do
  if grep -q Endstop answer.json; then break; fi
done
"#;

/// A program with the name of a known one. It makes no call, and writes its arguments to a file.
const CODEX: &str = "#!/bin/sh\nprintf '%s\\n' \"$@\" >\"$HOME/codex.txt\"\n";

/// The name of the flag by which the adapter of `codex` leads its calls to the gateway.
const ADAPTED: &str = "model_provider=";

/// The page and the outputs of a job.
struct Job {
    page: String,
    outputs: String,
}

/// The two scripts: the newest version and a named one; a loop that is stopped; a known program, and the same one in a
/// shell.
pub(super) fn scripts(place: &Place<'_>) -> Result<Outcome, String> {
    install(place, "named", &place.release.version)?;
    let started = Instant::now();
    let directory = install(place, "newest", "latest")?;
    let stopped = run(place, &directory, LOOP, 124)?;
    let time = started.elapsed();
    for text in ["### Endstop: stopped (steps_limit)", "3 steps", "endstop: stopped (steps_limit)"]
    {
        if !stopped.page.contains(text) {
            return Err(format!("the job's page does not say `{text}`:\n{}", stopped.page));
        }
    }
    for text in ["exit-code=124", "stop-reason=steps_limit"] {
        if !stopped.outputs.contains(text) {
            return Err(format!("the outputs do not say `{text}`:\n{}", stopped.outputs));
        }
    }
    known_program(place, &directory)?;
    Ok(Outcome::Ran(time))
}

/// A known program gets its adapter, and its arguments as they were quoted. In a shell it gets no adapter.
fn known_program(place: &Place<'_>, directory: &Path) -> Result<(), String> {
    let program = directory.join("codex");
    let written = fs::write(&program, CODEX)
        .and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("`{}`: {error}", program.display()))?;
    for (command, is_adapted) in [
        ("codex exec \"$HOME; (it's one word)\"\n", true),
        ("true && codex exec \"$HOME; (it's one word)\"", false),
    ] {
        run(place, directory, command, 0)?;
        let arguments = read(&place.sandbox.path("home/codex.txt"));
        let task = format!("{}; (it's one word)", place.sandbox.path("home").display());
        if arguments.lines().next_back() != Some(task.as_str()) {
            return Err(format!("`{command}` gave its program other arguments:\n{arguments}"));
        }
        if arguments.contains(ADAPTED) != is_adapted {
            return Err(format!("`{command}`: adapted should be {is_adapted}:\n{arguments}"));
        }
    }
    Ok(())
}

/// Runs a job, which has to exit with this code and without a wait.
fn run(place: &Place<'_>, directory: &Path, command: &str, code: i32) -> Result<Job, String> {
    let (summary, outputs) = (place.sandbox.path("summary.md"), place.sandbox.path("outputs"));
    for file in [&summary, &outputs] {
        let _ = fs::remove_file(file);
    }
    let mut script = place.sandbox.command("bash");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = [directory.to_owned()].into_iter().chain(std::env::split_paths(&path));
    script.env("PATH", std::env::join_paths(directories).map_err(|error| error.to_string())?);
    script.env("ACTION_USD", "1").env("ACTION_STEPS", "3").env("ACTION_ARGS", "--upstream sim");
    script.env("ACTION_RUN", command).env("GITHUB_STEP_SUMMARY", &summary);
    script.env("GITHUB_OUTPUT", &outputs).env("RUNNER_TEMP", place.sandbox.path("home"));
    let started = Instant::now();
    exits(script.arg(place.root.join("packaging/action.sh")), code)?;
    let time = started.elapsed();
    if time > PROMPT {
        let (took, most) = (time.as_secs_f64(), PROMPT.as_secs());
        return Err(format!("the job took {took:.1} s, more than {most} s: `{command}`"));
    }
    Ok(Job { page: read(&summary), outputs: read(&outputs) })
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Installs as the action does, into a directory of this name. Returns the directory that goes before the others of PATH.
fn install(place: &Place<'_>, name: &str, version: &str) -> Result<PathBuf, String> {
    let prefix = place.sandbox.path(name);
    let paths = place.sandbox.path(&format!("{name}.path"));
    let mut script = place.sandbox.command("bash");
    script.env("VERSION", version).env("ENDSTOP_PREFIX", &prefix).env("GITHUB_PATH", &paths);
    script.env("ENDSTOP_RELEASES", place.shelf.url("releases"));
    script.env("ENDSTOP_DOWNLOAD", place.shelf.url("files"));
    exits(script.arg(place.root.join("packaging/action-install.sh")), 0)?;
    let added = fs::read_to_string(&paths).map_err(|error| error.to_string())?;
    let directory = PathBuf::from(added.trim_end());
    let said = exits(place.sandbox.command(directory.join("endstop")).arg("--version"), 0)?;
    match said.trim_end().ends_with(&place.release.version) {
        true => Ok(directory),
        false => Err(format!("the action installs `{}`", said.trim_end())),
    }
}
