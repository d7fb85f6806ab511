//! How large keys may be: every gateway reads all of them after each change.

use std::collections::BTreeMap;

use super::{KeyFile, StoredKey};
use crate::error::CliError;
use crate::limits::{
    MAX_KEY_ACTOR_BYTES, MAX_KEY_BYTES, MAX_KEY_MODEL_BYTES, MAX_KEY_MODELS, MAX_KEY_REASON_BYTES,
    MAX_KEYS_BYTES, MAX_KEYS_BYTES_WITH_NEW,
};

/// Why keys are not written.
#[derive(Debug)]
pub(super) enum TooLarge {
    /// A key has too much, or a change of it.
    Key(CliError),
    /// All keys together.
    Together(CliError),
}

/// Checks that changed keys are not too large, each and together. Keys that become smaller are never too large together.
///
/// # Errors
/// Returns an error that says what is too large.
pub(super) fn check(before: &KeyFile, after: &KeyFile) -> Result<(), TooLarge> {
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
pub(super) fn full(error: String) -> TooLarge {
    let hint = "issue further keys in another file, or in another namespace of Redis";
    TooLarge::Together(CliError::new(error).with_hint(hint))
}

fn check_key(before: Option<&StoredKey>, key: &StoredKey) -> Result<(), TooLarge> {
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
            let error = CliError::new(error).with_hint("`*` stands for any text, as in `gpt-*`");
            return Err(TooLarge::Key(error));
        }
        key.models.iter().try_for_each(|it| check_bytes("a model", it, MAX_KEY_MODEL_BYTES))?;
    }
    let size = key.to_json().to_string().len();
    if size > MAX_KEY_BYTES {
        let error =
            format!("the key would have {size} bytes, and at most {MAX_KEY_BYTES} are possible");
        let error = CliError::new(error).with_hint("name fewer budgets, limits or models");
        return Err(TooLarge::Key(error));
    }
    Ok(())
}

fn check_bytes(what: &str, text: &str, most: usize) -> Result<(), TooLarge> {
    let size = text.len();
    if size > most {
        let error = format!("{what} has {size} bytes, and at most {most} are possible");
        return Err(TooLarge::Key(CliError::new(error)));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
