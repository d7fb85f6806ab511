//! Places within pages that are cited exist: `page.md#anchor`, in code and in pages, and in code `page.md`, "Heading"
//! and `page.md` section 2.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::Finding;
use crate::project::tree::Tree;

/// The headings of all pages of a name, such as `README.md`.
#[derive(Default)]
struct Headings {
    is_there: bool,
    texts: BTreeSet<String>,
}

impl Headings {
    fn of(tree: &Tree, name: &str) -> Self {
        let mut headings = Self::default();
        for (path, text) in tree.ending_in(name) {
            if path.rsplit('/').next() == Some(name) {
                headings.is_there = true;
                headings.add(text);
            }
        }
        headings
    }

    fn add(&mut self, text: &str) {
        let mut heading: Option<String> = None;
        for event in Parser::new(text) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => self.texts.extend(heading.take()),
                Event::Text(part) | Event::Code(part) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&part));
                }
                _ => {}
            }
        }
    }

    fn has(&self, place: &Place<'_>) -> bool {
        match place {
            Place::Anchor(anchor) => self.texts.iter().any(|heading| slug(heading) == *anchor),
            Place::Heading(text) => self.texts.contains(*text),
            Place::Section(number) => {
                let begin = format!("{number}. ");
                self.texts.iter().any(|heading| heading.starts_with(&begin))
            }
        }
    }
}

/// A place within a page.
enum Place<'t> {
    Anchor(&'t str),
    Heading(&'t str),
    Section(&'t str),
}

impl<'t> Place<'t> {
    /// The place that stands after the name of a page. A bare anchor is the only one that means something in a page too.
    fn after(text: &'t str, is_code: bool) -> Option<Self> {
        if let Some(rest) = text.strip_prefix('#') {
            let end = rest.find(|c: char| !c.is_alphanumeric() && !"-_".contains(c));
            return rest.get(..end.unwrap_or(rest.len())).map(Self::Anchor);
        }
        let text = text.strip_prefix('`').unwrap_or(text);
        let text = text.strip_prefix(',').unwrap_or(text).strip_prefix(' ')?;
        if !is_code {
            return None;
        }
        if let Some(rest) = text.strip_prefix('"') {
            return rest.split('"').next().map(Self::Heading);
        }
        let rest = text.strip_prefix("section ").or_else(|| text.strip_prefix("sections "))?;
        rest.split(|c: char| !c.is_ascii_digit()).next().map(Self::Section)
    }

    fn shown(&self) -> String {
        match self {
            Self::Anchor(anchor) => format!("anchor `#{anchor}`"),
            Self::Heading(heading) => format!("heading \"{heading}\""),
            Self::Section(number) => format!("section {number}"),
        }
    }
}

/// The anchor of a heading, as code forges make it.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending_in(".rs") {
        findings.extend(check_text(tree, path, &comments(text), true));
    }
    for (path, text) in tree.ending_in(".md") {
        findings.extend(check_text(tree, path, text, false));
    }
    findings
}

/// The comments of a source file, line by line: strings may cite pages of samples. Each begins with a blank, so that a
/// citation may go over a line break.
fn comments(text: &str) -> String {
    let comment = |line: &str| {
        let line = line.trim_start();
        let rest = ["//! ", "/// ", "// "].iter().find_map(|mark| line.strip_prefix(mark));
        format!(" {}\n", rest.unwrap_or_default())
    };
    text.lines().map(comment).collect()
}

fn check_text(tree: &Tree, path: &str, text: &str, is_code: bool) -> Vec<Finding> {
    const END: &str = ".md";
    let mut findings = Vec::new();
    for (at, _) in text.match_indices(END) {
        let (Some(before), Some(after)) = (text.get(..at), text.get(at + END.len()..)) else {
            continue;
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let begin = before.rfind(|c| !is_name(c)).map_or(0, |last| last + 1);
        let name = format!("{}{END}", before.get(begin..).unwrap_or_default());
        // Two lines hold the longest citation.
        let after: Vec<&str> = after.lines().take(2).collect();
        let after = after.concat();
        let Some(place) = Place::after(&after, is_code) else { continue };
        let headings = Headings::of(tree, &name);
        if headings.is_there && !headings.has(&place) {
            let line = before.matches('\n').count() + 1;
            let what = format!("`{name}` has no {}; cite one that it has", place.shown());
            findings.push(Finding::new(path, line, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
