//! The subject of a refusal, from its text.

use crate::limits::MIN_RETRY_CAP;

/// Returns the letters of a text in lower case, so that all spellings of a name are equal.
fn letters(words: &str) -> String {
    let letters = words.chars().filter(char::is_ascii_alphabetic);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether a refusal is about usage in a stream.
pub(super) fn names_usage(words: &str) -> bool {
    let letters = letters(words);
    ["streamoptions", "includeusage"].iter().any(|name| letters.contains(name))
}

/// Whether a refusal is about the field of a cap, and not about its size.
pub(super) fn names_cap_field(words: &str) -> bool {
    let letters = letters(words);
    let is_named = ["maxtokens", "maxcompletiontokens"].iter().any(|name| letters.contains(name));
    let is_unknown = [
        "unsupported",
        "notsupported",
        "instead",
        "forbidden",
        "notpermitted",
        "notallowed",
        "unknown",
        "unrecognized",
        "unexpected",
        "extrainput",
        "extrafield",
        "additionalproperties",
    ];
    let is_too_large = ["toolarge", "atmost", "maximum", "exceed", "lessthan", "greaterthan"];
    is_named
        && is_unknown.iter().any(|it| letters.contains(it))
        && !is_too_large.iter().any(|it| letters.contains(it))
}

/// Returns the cap to try next, after `sent` was refused with these words for the `tries`th time, or `None` if they are
/// about something else.
///
/// Usually the model takes the largest number in the words that is below the cap. If that was refused too, the cap is
/// halved at most, because the number may be that of the tokens in the request.
pub(super) fn next_cap(words: &str, sent: u64, tries: u32) -> Option<u64> {
    if !words.to_ascii_lowercase().contains("token") {
        return None;
    }
    let numbers = words.split(|c: char| !c.is_ascii_digit()).filter_map(|it| it.parse().ok());
    let named = numbers.filter(|number| (MIN_RETRY_CAP..sent).contains(number)).max();
    let half = sent / 2;
    let next = match named {
        Some(named) if tries <= 1 => named,
        Some(named) => named.max(half),
        None => half,
    };
    (next >= MIN_RETRY_CAP).then_some(next)
}

/// Whether a refusal is about the choice of tools, by any API's name of it.
pub(super) fn names_tool_choice(words: &str) -> bool {
    let letters = letters(words);
    ["toolchoice", "toolconfig", "functioncall"].iter().any(|name| letters.contains(name))
}

/// Whether a refusal is about tools at all.
pub(super) fn names_tools(words: &str) -> bool {
    words.to_ascii_lowercase().contains("tool")
}

#[cfg(test)]
mod tests;
