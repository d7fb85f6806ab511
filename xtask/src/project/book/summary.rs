//! The table of contents, as README orders the pages.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};

/// The first page.
const FRONT: &str = "README.md";
/// The section of [`FRONT`] that has the guides in a table, and below it the pages of reference.
const GUIDES: &str = "Guides";
/// How the pages of a guide begin.
const GUIDE: &str = "docs/guide/";
/// How the pages begin that are in neither list, and are background.
const DOCS: &str = "docs/";
/// The page that comes before all guides.
const INSTALL: &str = "docs/install.md";

/// mdBook's list of chapters. `pages` are the texts of the book by their paths.
///
/// # Errors
/// If README links to no guide, or a page has no title.
pub(super) fn of(pages: &BTreeMap<&str, &str>) -> Result<String, String> {
    let listed = linked(pages.get(FRONT).copied().unwrap_or_default());
    let has = |path: &String| pages.contains_key(path.as_str());
    let mut listed: Vec<String> = listed.into_iter().filter(has).collect();
    let mut seen = std::collections::BTreeSet::new();
    listed.retain(|path| path != INSTALL && seen.insert(path.clone()));
    let (mut guides, reference): (Vec<String>, Vec<String>) =
        listed.into_iter().partition(|path| path.starts_with(GUIDE));
    if guides.is_empty() {
        return Err(format!("`{FRONT}` has no guides under the heading \"{GUIDES}\""));
    }
    let is_left = |path: &str, listed: &[String]| {
        path != FRONT && path != INSTALL && !listed.iter().any(|other| other == path)
    };
    let rest: Vec<String> = pages
        .keys()
        .filter(|path| is_left(path, &guides) && is_left(path, &reference))
        .map(|path| (*path).to_owned())
        .collect();
    // A guide that README does not list is the last one.
    let (more, rest): (Vec<String>, Vec<String>) =
        rest.into_iter().partition(|path| path.starts_with(GUIDE));
    guides.extend(more);
    let (background, project): (Vec<String>, Vec<String>) =
        rest.into_iter().partition(|path| path.starts_with(DOCS));
    // The title of the first page is that of the book.
    let mut text = format!("# Summary\n\n[Introduction]({FRONT})\n");
    if pages.contains_key(INSTALL) {
        let _ = writeln!(text, "[{}]({INSTALL})", title(pages, INSTALL)?);
    }
    let parts = [
        (GUIDES, guides),
        ("Reference", reference),
        ("Background", background),
        ("Project", project),
    ];
    for (part, paths) in parts {
        let _ = write!(text, "\n# {part}\n\n");
        for path in paths {
            let _ = writeln!(text, "- [{}]({path})", title(pages, &path)?);
        }
    }
    Ok(text)
}

/// The pages that the section links to, in order.
fn linked(front: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut heading: Option<String> = None;
    let mut is_here = false;
    for event in Parser::new(front) {
        match event {
            Event::Start(Tag::Heading { level: HeadingLevel::H2, .. }) => {
                heading = Some(String::new());
            }
            Event::Text(part) => heading.iter_mut().for_each(|heading| heading.push_str(&part)),
            Event::End(TagEnd::Heading(HeadingLevel::H2)) => {
                is_here = heading.take().is_some_and(|heading| heading == GUIDES);
            }
            Event::Start(Tag::Link { dest_url, .. }) if is_here => {
                links.push(dest_url.split('#').next().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }
    links
}

/// The first heading of a page.
fn title(pages: &BTreeMap<&str, &str>, path: &str) -> Result<String, String> {
    let text = pages.get(path).copied().unwrap_or_default();
    let title = text.lines().find_map(|line| line.strip_prefix("# "));
    title.map(str::to_owned).ok_or_else(|| format!("`{path}` has no title"))
}

#[cfg(test)]
mod tests;
