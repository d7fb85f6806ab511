//! The input of a replay: transcripts, outcomes, prices; and the warnings of the readers.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use endstop::core::policy::Policy;
use endstop_price::{PriceTable, with_unpriced_model};
use endstop_transcript::{Part, Transcript, Warning, WarningKind};
use serde_json::Value;

use crate::error::{CliError, causes};
use crate::input::read_text;
use crate::limits::{MAX_JSON_BYTES, MAX_NAMED_PATHS, MAX_PIPED_BYTES};
use crate::output;

/// The name of standard input in warnings.
const PIPE: &str = "stdin";

/// Prints each kind of warning once: with hundreds of files, the same line for each would hide the others.
pub(crate) fn warn_folded(warnings: &[Warning]) {
    let mut folded: BTreeMap<(&str, &str), (&Warning, u64)> = BTreeMap::new();
    for warning in warnings {
        let key = (warning.kind.value(), warning.message.as_str());
        folded.entry(key).or_insert((warning, 0)).1 += 1;
    }
    for (warning, files) in folded.values() {
        let more = match files - 1 {
            0 => String::new(),
            others => format!(" (and {} like it)", output::count(others)),
        };
        output::warn(&format!("{warning}{more}"));
    }
}

/// The input of a command.
#[derive(Debug, Default)]
pub(crate) struct Recordings {
    pub(crate) transcripts: Vec<Transcript>,
    /// Paths and files that could not be read.
    pub(crate) warnings: Vec<Warning>,
    /// Whether it is the sample, because this machine has no transcripts.
    pub(crate) is_sample: bool,
}

/// The transcripts in these paths, `-` for standard input; without paths, those that the known tools keep. An
/// unreadable path is a warning: [`nothing_read`] is for the caller that finds no run.
pub(crate) fn recordings(paths: &[PathBuf]) -> Recordings {
    if paths.is_empty() {
        let mut found = walked(&endstop_transcript::default_homes());
        if found.transcripts.is_empty() {
            found.transcripts = endstop_transcript::sample();
            found.is_sample = true;
        }
        return found;
    }
    let (pipes, files): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.iter().cloned().partition(|path| path == Path::new("-"));
    let mut found = if files.is_empty() { Recordings::default() } else { walked(&files) };
    if !pipes.is_empty() {
        match piped(io::stdin().lock()) {
            Ok(transcript) => found.transcripts.push(transcript),
            Err(warning) => found.warnings.push(warning),
        }
    }
    found
}

fn walked(paths: &[PathBuf]) -> Recordings {
    let (transcripts, warnings) = match endstop_transcript::walk(paths) {
        Ok(found) => (found.transcripts, found.warnings),
        Err(error) => (Vec::new(), error.warnings),
    };
    Recordings { transcripts, warnings, is_sample: false }
}

/// The transcript that comes through a pipe.
fn piped(stream: impl Read) -> Result<Transcript, Warning> {
    let unreadable = |message: String| Warning {
        kind: WarningKind::Unreadable,
        file: PIPE.to_owned(),
        line: None,
        count: 1,
        message,
    };
    let most = u64::try_from(MAX_PIPED_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read = stream.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(format!("cannot be read: {error}")))?;
    if bytes.len() > MAX_PIPED_BYTES {
        return Err(unreadable(format!("more than {} MiB: name the file", MAX_PIPED_BYTES >> 20)));
    }
    let main = Part::bytes(PIPE, bytes);
    let format = endstop_transcript::detect(&main).ok().flatten();
    let format = format.ok_or_else(|| Warning::unknown_format(PIPE))?;
    Ok(Transcript { format, main, children: Vec::new() })
}

/// The error of a command that was given paths and found no run in them.
pub(crate) fn nothing_read(paths: &[PathBuf]) -> CliError {
    let name = |path: &PathBuf| match path {
        path if path == Path::new("-") => "standard input".to_owned(),
        path => format!("`{}`", path.display()),
    };
    let names: Vec<String> = paths.iter().take(MAX_NAMED_PATHS).map(name).collect();
    let more = match paths.len().saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = format!("{}{more}", names.join(", "));
    let is_missing =
        |path: &PathBuf| path != Path::new("-") && matches!(path.try_exists(), Ok(false));
    if paths.iter().all(is_missing) {
        let verb = if paths.len() == 1 { "does" } else { "do" };
        return CliError::new(format!("{names} {verb} not exist"))
            .with_hint("check the path, or name a directory with transcripts");
    }
    // Its tables change with the version of OpenCode; what it exports does not.
    let is_opencode = |path: &PathBuf| path.file_name().is_some_and(|name| name == "opencode.db");
    CliError::new(format!("no run in {names}")).with_hint(match paths.iter().any(is_opencode) {
        true => "`opencode export SESSION > session.json` writes a session that Endstop reads",
        false => "`endstop replay --formats` lists the formats",
    })
}

/// `{id: bool}` or `{id: {"resolved": bool, ..}}`; other keys are ignored.
pub(super) fn outcomes(path: &Path) -> Result<BTreeMap<String, bool>, CliError> {
    let shown = path.display();
    let text = read_text(path, "outcomes", MAX_JSON_BYTES)?;
    let form = "outcomes are JSON: {\"id\": true} or {\"id\": {\"resolved\": true}}";
    let bad = |message: String| CliError::new(message).with_hint(form);
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| bad(format!("`{shown}` is not JSON: {error}")))?;
    let Value::Object(entries) = value else {
        return Err(bad(format!("`{shown}` is not an object of outcomes")));
    };
    let mut outcomes = BTreeMap::new();
    for (id, entry) in entries {
        let known = match &entry {
            Value::Object(fields) => fields.get("resolved").unwrap_or(&Value::Null),
            other => other,
        };
        match known {
            Value::Bool(succeeded) => {
                outcomes.insert(id, *succeeded);
            }
            // This run has no outcome.
            Value::Null => {}
            _ => {
                return Err(bad(format!(
                    "`{shown}`: the outcome of `{id}` is neither true nor false"
                )));
            }
        }
    }
    Ok(outcomes)
}

/// The price table of a file, if one is named.
pub(crate) fn prices(path: Option<&Path>) -> Result<Option<PriceTable>, CliError> {
    let Some(path) = path else { return Ok(None) };
    let shown = path.display();
    let text = read_text(path, "prices", MAX_JSON_BYTES)?;
    let table = PriceTable::from_json(&text);
    table.map(Some).map_err(|error| CliError::new(format!("`{shown}`: {error}")))
}

/// The policy with the rates of the model that it names for calls without a price.
///
/// # Errors
/// Returns an error if the table does not have that model.
pub(crate) fn with_prices(policy: Policy, table: &PriceTable) -> Result<Policy, CliError> {
    with_unpriced_model(policy, table).map_err(|error| {
        CliError::new(causes(&error))
            .with_hint("`endstop price` lists models; --prices FILE adds one")
    })
}
