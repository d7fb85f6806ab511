//! The names that a wrong name may have meant.
//!
//! A separate file because tool sets, schemas and the built-in tools share it.

use std::collections::BTreeSet;

use endstop_core::edit_distance;

use crate::limits::{MAX_COMPARED_CHARS, MAX_NEAREST};

/// The names of `known` that `found` may have meant, the nearest first: those that differ by a third of their letters
/// at most, and those made of the same words.
pub(crate) fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let found = folded(found);
    let mut near: Vec<(usize, &str)> = Vec::new();
    for name in known {
        let folded = folded(name);
        let distance = edit_distance(&found, &folded);
        let is_near = distance <= folded.len().max(found.len()) / 3 || has_words(&found, &folded);
        if is_near {
            near.push((distance, name));
        }
    }
    // The sort is stable: equally near names stay in their order.
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().take(MAX_NEAREST).map(|(_, name)| name).collect()
}

/// Lower case, and every separator the same: `ReadFile` stays one word, `read-file` is `read_file`.
fn folded(name: &str) -> Vec<char> {
    let letters = name.chars().take(MAX_COMPARED_CHARS);
    letters.map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

/// Whether the words of one are all among the words of the other: `file_read` and `read_file`, `functions.read`
/// and `read`.
fn has_words(a: &[char], b: &[char]) -> bool {
    let words = |name: &[char]| -> BTreeSet<Vec<char>> {
        name.split(|c| *c == '_').filter(|word| !word.is_empty()).map(<[char]>::to_vec).collect()
    };
    let (a, b) = (words(a), words(b));
    !a.is_empty() && !b.is_empty() && (a.is_subset(&b) || b.is_subset(&a))
}

#[cfg(test)]
mod tests;
