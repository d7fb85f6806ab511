//! Reports of usage: the last call's tokens and the totals so far.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::lines::JsonLines;
use super::super::warning::{WarningKind, Warnings};

/// The `info` of a `token_count`.
#[derive(Deserialize)]
struct Info {
    total_token_usage: Option<Value>,
    last_token_usage: Option<Value>,
}

/// The fields of a usage object that are counts.
const COUNTS: [&str; 5] = [
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
];

/// Follows the totals through a file.
#[derive(Debug, Default)]
pub(super) struct Totals {
    last: Option<Value>,
}

impl Totals {
    /// The usage of the call that this report is about; `None` where it is about none.
    pub(super) fn usage(
        &mut self,
        info: Option<&RawValue>,
        lines: &JsonLines<'_>,
        warnings: &mut Warnings,
    ) -> Option<Value> {
        // Without `info` the report is about rate limits only.
        let info = info.filter(|info| info.get() != "null")?;
        let info: Info = match serde_json::from_str(info.get()) {
            Ok(info) => info,
            Err(error) => {
                lines.warn_of(&error, warnings);
                return None;
            }
        };
        let before = match &info.total_token_usage {
            Some(total) if self.last.as_ref() == Some(total) => return None,
            Some(total) => self.last.replace(total.clone()),
            None => None,
        };
        if let Some(last) = info.last_token_usage.filter(|last| !last.is_null()) {
            return Some(last);
        }
        let total = info.total_token_usage?;
        let used = difference(&total, before.as_ref());
        if used.is_none() {
            lines.warn(WarningKind::BadNumber, warnings, || {
                format!("totals of tokens are no counts: `{total}`")
            });
        }
        used
    }
}

/// What was used since the totals were `before`. Totals that fell have started afresh.
fn difference(total: &Value, before: Option<&Value>) -> Option<Value> {
    let count = |usage: &Value, key: &str| match usage.get(key) {
        None | Some(Value::Null) => Some(0),
        Some(value) => value.as_u64(),
    };
    let fell = before
        .is_some_and(|before| COUNTS.iter().any(|key| count(total, key) < count(before, key)));
    let mut used = json!({});
    for key in COUNTS {
        let now = count(total, key)?;
        let then = before.filter(|_| !fell).and_then(|before| count(before, key)).unwrap_or(0);
        if total.get(key).is_some() {
            used.as_object_mut()?.insert(key.to_owned(), json!(now - then));
        }
    }
    Some(used)
}
