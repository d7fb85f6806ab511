//! How large keys may be: every gateway reads all of them after each change.

use std::collections::BTreeMap;

use endstop_gateway::{KeyDeskError, KeyProblem};

use super::{KeyFile, StoredKey};
use crate::limits::{
    MAX_KEY_ACTOR_BYTES, MAX_KEY_BYTES, MAX_KEY_MODEL_BYTES, MAX_KEY_MODELS, MAX_KEY_REASON_BYTES,
    MAX_KEYS_BYTES, MAX_KEYS_BYTES_WITH_NEW,
};

/// Checks that changed keys are not too large, each and together. Keys that become smaller are never too large together.
///
/// # Errors
/// Returns an error that says what is too large.
pub(super) fn check(before: &KeyFile, after: &KeyFile) -> Result<(), KeyDeskError> {
    let known: BTreeMap<&str, &StoredKey> =
        before.stored().map(|key| (key.name.as_str(), key)).collect();
    for key in after.stored() {
        let before = known.get(key.name.as_str()).copied();
        if before != Some(key) {
            check_key(before, key)?;
        }
    }
    let is_new = after.lines.len() > before.lines.len();
    let most = if is_new { MAX_KEYS_BYTES_WITH_NEW } else { MAX_KEYS_BYTES };
    let size = after.to_text().len();
    if size > most && size > before.to_text().len() {
        let error = format!("all keys together would have {size} bytes, and {most} are the most");
        return Err(full(error));
    }
    Ok(())
}

/// The error for keys of which there are too many.
pub(super) fn full(error: String) -> KeyDeskError {
    KeyDeskError::new(KeyProblem::Conflict, error)
        .with_hint("issue further keys in another file, or in another namespace of Redis")
}

fn check_key(before: Option<&StoredKey>, key: &StoredKey) -> Result<(), KeyDeskError> {
    if let Some(act) = &key.changed {
        check_bytes("who acts", &act.by, MAX_KEY_ACTOR_BYTES)?;
        check_bytes("the reason", &act.why, MAX_KEY_REASON_BYTES)?;
    }
    // A key that is too large anyway can be revoked.
    if key.revoked.is_some() {
        return Ok(());
    }
    if before.is_none_or(|before| before.models != key.models) {
        let count = key.models.len();
        if count > MAX_KEY_MODELS {
            let error =
                format!("the key names {count} models, and at most {MAX_KEY_MODELS} are possible");
            return Err(invalid(error).with_hint("`*` stands for any text, as in `gpt-*`"));
        }
        key.models.iter().try_for_each(|it| check_bytes("a model", it, MAX_KEY_MODEL_BYTES))?;
    }
    let size = key.to_json().to_string().len();
    if size > MAX_KEY_BYTES {
        let error =
            format!("the key would have {size} bytes, and at most {MAX_KEY_BYTES} are possible");
        return Err(invalid(error).with_hint("name fewer budgets, limits or models"));
    }
    Ok(())
}

fn check_bytes(what: &str, text: &str, most: usize) -> Result<(), KeyDeskError> {
    let size = text.len();
    if size > most {
        return Err(invalid(format!("{what} has {size} bytes, and at most {most} are possible")));
    }
    Ok(())
}

fn invalid(error: String) -> KeyDeskError {
    KeyDeskError::new(KeyProblem::Invalid, error)
}

#[cfg(test)]
mod tests;
