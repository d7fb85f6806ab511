//! Texts for terminals: cut by columns, and times.

use std::time::Duration;

use endstop_core::human;
use endstop_core::units::{Millis, WallTime};
use endstop_runtime::clock::millis;
use unicode_width::UnicodeWidthChar;

use super::clean;

/// The mark at the end of a truncated text.
const CUT: char = '\u{2026}';

/// Like [`clean`], cut to at most `columns`. It reads no more of a long text than that needs.
pub(super) fn clean_to(text: &str, columns: usize) -> String {
    // Every character but a combining one takes a column; of those there are few in a text that is one.
    let ahead = columns.saturating_mul(4).saturating_add(8);
    let end = text.char_indices().nth(ahead).map_or(text.len(), |(at, _)| at);
    let mut shown = truncate(&clean(text.get(..end).unwrap_or(text)), columns);
    if end < text.len() && columns > 0 && !shown.ends_with(CUT) {
        shown.push(CUT);
    }
    shown
}

fn columns_of(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// How many columns a text takes on a terminal; escape sequences are not known.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Returns `text` cut to at most `columns`, with an ellipsis where something is missing. A character that takes two
/// columns is not halved.
#[must_use]
pub fn truncate(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut taken = 0;
    let mut cut = String::new();
    for character in text.chars() {
        taken += columns_of(character);
        if taken >= columns {
            break;
        }
        cut.push(character);
    }
    if columns > 0 {
        cut.push(CUT);
    }
    cut
}

/// The last characters of a run's name: those of a time-ordered id that differ.
pub(super) fn short_id(id: &str) -> String {
    const SHOWN: usize = 6;
    let skipped = id.chars().count().saturating_sub(SHOWN);
    clean(&id.chars().skip(skipped).collect::<String>())
}

/// `14:05:10.123`, so many minutes east of UTC.
pub(super) fn clock(wall: WallTime, minutes_east: i32) -> String {
    const DAY: i128 = 86_400_000;
    let local = (i128::from(wall.0) + i128::from(minutes_east) * 60_000).rem_euclid(DAY);
    let (ms, s) = (local % 1_000, local / 1_000);
    format!("{:02}:{:02}:{:02}.{ms:03}", s / 3_600, s / 60 % 60, s % 60)
}

/// A measured time as people read it: `877ms`, `1.9s`, `2m 5s`.
pub(super) fn took(duration: Duration) -> String {
    human::duration(Millis(millis(duration)))
}

#[cfg(test)]
mod tests;
