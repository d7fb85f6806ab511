//! Links of a page, as the book has them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use pulldown_cmark::{Event, Parser, Tag};

/// Pages with this name are the index of their directory.
const README: &str = "README.md";

/// A page of the book, and what its links can lead to.
pub(super) struct Page<'a> {
    /// From the root, as all paths.
    pub(super) path: &'a str,
    pub(super) root: &'a Path,
    pub(super) pages: &'a BTreeMap<&'a str, &'a str>,
    /// Where other files of the project are read.
    pub(super) repository: &'a str,
}

impl Page<'_> {
    /// The text with links that work in the book, and the files besides pages that the book has to have.
    pub(super) fn for_book(&self, text: &str) -> (String, Vec<String>) {
        let mut files = Vec::new();
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        for (place, link) in places(text) {
            let Some(path) = self.local(&link) else { continue };
            if self.pages.contains_key(path.as_str()) {
                // mdBook makes the index of its directory from such a page.
                if link.contains(README) {
                    edits.push((place, link.replace(README, "index.html")));
                }
                continue;
            }
            let whole = self.root.join(&path);
            if path.starts_with("docs/") && whole.is_file() {
                files.push(path);
                continue;
            }
            let kind = if whole.is_dir() { "tree" } else { "blob" };
            let fragment = link.split_once('#').map(|(_, place)| format!("#{place}"));
            let fragment = fragment.unwrap_or_default();
            edits.push((place, format!("{}/{kind}/main/{path}{fragment}", self.repository)));
        }
        edits.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
        edits.dedup_by_key(|(place, _)| place.start);
        let mut text = text.to_owned();
        for (place, link) in edits {
            text.replace_range(place, &link);
        }
        (text, files)
    }

    /// The path from the root that a link names; nothing for addresses and places of the same page.
    fn local(&self, link: &str) -> Option<String> {
        let target = link.split('#').next().unwrap_or_default();
        if target.is_empty() || target.contains(':') {
            return None;
        }
        let mut parts: Vec<&str> = self.path.split('/').collect();
        parts.pop();
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        Some(parts.join("/"))
    }
}

/// Where the addresses of links are in a text, and what they are.
fn places(text: &str) -> Vec<(Range<usize>, String)> {
    let within = |range: &Range<usize>, link: &str| {
        let at = range.start + text.get(range.clone())?.rfind(link)?;
        Some((at..at + link.len(), link.to_owned()))
    };
    let parser = Parser::new(text);
    let definitions = parser.reference_definitions().iter();
    let mut places: Vec<_> = definitions
        .filter_map(|(_, definition)| within(&definition.span, &definition.dest))
        .collect();
    for (event, range) in Parser::new(text).into_offset_iter() {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            places.extend(within(&range, &dest_url));
        }
    }
    places
}

#[cfg(test)]
mod tests;
