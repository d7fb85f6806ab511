//! Texts for terminals: control characters made visible.
//!
//! A separate file because everything that prints uses it, and it needs nothing of observers.

use std::fmt::Write as _;

/// Returns `text` on one line and without anything that a terminal obeys: control characters, and those that change the
/// direction of writing or are invisible, become escapes (`\n`, `\t`, `\u{1b}`).
#[must_use]
pub fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars().for_each(|character| push_clean(&mut shown, character));
    shown
}

/// Returns `text` in its own lines, and without anything else that a terminal obeys: line feeds and tabs stay, other control
/// characters and those that change the direction of writing become escapes (`\u{1b}`). Joiners stay: scripts and emoji
/// need them. For what a model said, and for messages of others.
#[must_use]
pub fn clean_lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' | '\u{200c}' | '\u{200d}' | '\u{ad}' => shown.push(character),
            // The end of a line of Windows.
            '\r' if characters.peek() == Some(&'\n') => {}
            character => push_clean(&mut shown, character),
        }
    }
    shown
}

fn push_clean(shown: &mut String, character: char) {
    match character {
        '\n' => shown.push_str("\\n"),
        '\r' => shown.push_str("\\r"),
        '\t' => shown.push_str("\\t"),
        hidden if hidden.is_control() || is_invisible(hidden) => {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(hidden));
        }
        seen => shown.push(seen),
    }
}

/// Separators of lines, marks of direction, and characters without a shape: the text on the screen would differ from
/// the actual text.
const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests;
