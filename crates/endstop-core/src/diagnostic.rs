//! The error of a reader for a text it cannot accept: where, why in one line, and what to do.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::limits::COMPARED_CHARS;

/// An error in an expression or a policy file.
///
/// ```
/// use endstop_core::expr::parse;
///
/// let text = "stesp >= 25";
/// let error = parse(text).unwrap_err();
/// assert_eq!(error.span, 0..5);
/// assert_eq!(error.help.as_deref(), Some("did you mean `steps`?"));
/// println!("{}", error.render(text, "--stop", false));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The cause, in one line without a final stop.
    pub message: String,
    /// The byte range of the text that it is about.
    pub span: Range<usize>,
    /// The remedy, if one is known.
    pub help: Option<String>,
}

impl Diagnostic {
    pub(crate) fn new(message: impl Into<String>, span: Range<usize>) -> Self {
        Self { message: message.into(), span, help: None }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same diagnostic for a text in which this one's text begins at `offset`.
    pub(crate) fn shifted(mut self, offset: usize) -> Self {
        self.span = self.span.start + offset..self.span.end + offset;
        self
    }

    /// Returns the message with the line of `source` it is about, a caret under the span, and the help.
    /// `origin` names the text, for example the file's path; `styled` adds terminal colors.
    #[must_use]
    pub fn render(&self, source: &str, origin: &str, styled: bool) -> String {
        let span = clamped(source, &self.span);
        let snippet =
            Snippet::source(source).path(origin).annotation(AnnotationKind::Primary.span(span));
        let mut group: Group<'_> =
            Level::ERROR.primary_title(self.message.as_str()).element(snippet);
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        renderer.decor_style(DecorStyle::Ascii).render(&[group]).to_string()
    }
}

/// The span inside the source and on character boundaries: a caret must never make an error worse.
fn clamped(source: &str, span: &Range<usize>) -> Range<usize> {
    let floor = |mut at: usize| {
        at = at.min(source.len());
        while !source.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(span.start);
    start..floor(span.end).max(start)
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, " (help: {help})"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Diagnostic {}

/// Returns "did you mean `x`?" for the nearest of `known`, or `None` if none is near enough.
#[must_use]
pub fn did_you_mean<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let allowed = match found.chars().count() {
        0..=3 => 1,
        4..=7 => 2,
        _ => 3,
    };
    let found = compared(found);
    known
        .into_iter()
        .map(|name| (edit_distance(&found, &compared(name)), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| format!("did you mean `{name}`?"))
}

/// The beginning of a name, in lower case.
fn compared(name: &str) -> alloc::vec::Vec<char> {
    name.chars().take(COMPARED_CHARS).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns how many characters have to be inserted, deleted, replaced, or swapped with the next one, to make one text the other.
/// O(n·m).
#[doc(hidden)]
#[must_use]
pub fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: alloc::vec::Vec<usize> = alloc::vec![0; b.len() + 1];
    let mut last: alloc::vec::Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut row = alloc::vec![i + 1];
        for (j, &to) in b.iter().enumerate() {
            let at =
                |cells: &[usize], index: usize| cells.get(index).copied().unwrap_or(usize::MAX);
            let substituted = at(&last, j) + usize::from(from != to);
            let mut best = substituted.min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped =
                i > 0 && j > 0 && a.get(i - 1) == Some(&to) && b.get(j - 1) == Some(&from);
            if swapped {
                best = best.min(at(&before_last, j - 1) + 1);
            }
            row.push(best);
        }
        before_last = core::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
