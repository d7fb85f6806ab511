//! Links of the built site lead somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::API;

/// Checks every link of the pages of a site; gives their number. The documentation of the crates was checked when it was
/// made, so only links to it are.
///
/// # Errors
/// The links that lead nowhere.
pub(super) fn check(site: &Path) -> Result<usize, String> {
    let mut pages = BTreeMap::new();
    read(site, Path::new(""), &mut pages)?;
    let ids: BTreeMap<&Path, BTreeSet<&str>> = pages
        .iter()
        .map(|(path, text)| (path.as_path(), attributes(text, "id").collect()))
        .collect();
    let mut lost = Vec::new();
    for (path, text) in &pages {
        for link in attributes(text, "href").chain(attributes(text, "src")) {
            if !leads(site, &ids, path, link) {
                lost.push(format!("{}: `{link}`", path.display()));
            }
        }
    }
    if lost.is_empty() {
        return Ok(pages.len());
    }
    Err(format!("links of the site that lead nowhere:\n{}", lost.join("\n")))
}

/// Reads the pages below a directory of the site.
fn read(site: &Path, below: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<(), String> {
    let directory = site.join(below);
    let failed = |error| format!("`{}`: {error}", directory.display());
    for entry in fs::read_dir(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = below.join(entry.file_name());
        if entry.file_type().map_err(failed)?.is_dir() {
            if path != Path::new(API) {
                read(site, &path, pages)?;
            }
        } else if path.extension().is_some_and(|end| end == "html") {
            pages.insert(path, fs::read_to_string(entry.path()).map_err(failed)?);
        }
    }
    Ok(())
}

/// The values of an attribute in a page.
fn attributes<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let begin = format!(" {name}=\"");
    let values: Vec<&str> = text
        .match_indices(&begin)
        .filter_map(|(at, found)| text.get(at + found.len()..)?.split('"').next())
        .collect();
    values.into_iter()
}

/// Whether a link of the page at `path` leads to a file, and to a place that its page has.
fn leads(site: &Path, ids: &BTreeMap<&Path, BTreeSet<&str>>, path: &Path, link: &str) -> bool {
    if link.contains(':') || link.starts_with("//") {
        return true;
    }
    let (target, place) = link.split_once('#').unwrap_or((link, ""));
    let target = target.split('?').next().unwrap_or_default();
    let mut whole = PathBuf::new();
    if target.is_empty() {
        whole.push(path);
    } else {
        for part in path.parent().unwrap_or(path).join(target).components() {
            match part {
                Component::ParentDir => drop(whole.pop()),
                Component::Normal(name) => whole.push(name),
                _ => {}
            }
        }
    }
    let has_place = |ids: &BTreeSet<&str>| place.is_empty() || ids.contains(place);
    site.join(&whole).exists() && ids.get(whole.as_path()).is_none_or(has_place)
}

#[cfg(test)]
mod tests;
