//! What a replay reads: transcripts, outcomes, prices; and what the readers had to say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use endstop::core::policy::Policy;
use endstop_price::{PriceTable, with_unpriced_model};
use endstop_transcript::Transcript;
use serde_json::Value;

use crate::error::{CliError, causes};
use crate::input::read_text;
use crate::limits::MAX_JSON_BYTES;
use crate::output;

/// Says each kind of warning once: with hundreds of files, the same line for each would hide the others.
pub(crate) fn warn_folded(warnings: &[endstop_transcript::Warning]) {
    let mut folded: BTreeMap<(&str, &str), (&endstop_transcript::Warning, u64)> = BTreeMap::new();
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

/// The transcripts to read, what their discovery had to say, and whether they are the sample.
pub(crate) fn transcripts(
    paths: &[PathBuf],
) -> Result<(Vec<Transcript>, Vec<endstop_transcript::Warning>, bool), CliError> {
    let homes;
    let (paths, is_default) = if paths.is_empty() {
        homes = endstop_transcript::default_homes();
        (homes.as_slice(), true)
    } else {
        (paths, false)
    };
    let found = endstop_transcript::walk(paths).map_err(|error| CliError::new(causes(&error)))?;
    if is_default && found.transcripts.is_empty() {
        return Ok((endstop_transcript::sample(), found.warnings, true));
    }
    Ok((found.transcripts, found.warnings, false))
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
            // Nothing is said of this run.
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
/// If the table does not have that model.
pub(crate) fn with_prices(policy: Policy, table: &PriceTable) -> Result<Policy, CliError> {
    with_unpriced_model(policy, table).map_err(|error| {
        CliError::new(causes(&error))
            .with_hint("`endstop price` lists models; --prices FILE adds one")
    })
}
