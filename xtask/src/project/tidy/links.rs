//! Markdown links to files of the project lead somewhere.

use std::path::Path;

use pulldown_cmark::{Event, Parser, Tag};

use super::Finding;
use crate::project::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending_in(".md").flat_map(|(path, text)| check_file(&tree.root, path, text)).collect()
}

fn check_file(root: &Path, path: &str, text: &str) -> Vec<Finding> {
    let directory = root.join(path).parent().map_or_else(|| root.to_path_buf(), Path::to_path_buf);
    let mut findings = Vec::new();
    for (event, range) in Parser::new(text).into_offset_iter() {
        let (Event::Start(Tag::Link { dest_url, .. }) | Event::Start(Tag::Image { dest_url, .. })) =
            event
        else {
            continue;
        };
        let Some(target) = local_target(&dest_url) else { continue };
        if !directory.join(target).exists() {
            let line = text.get(..range.start).unwrap_or("").matches('\n').count() + 1;
            let what = format!("link to `{target}`, which does not exist; fix or remove it");
            findings.push(Finding::new(path, line, what));
        }
    }
    findings
}

/// The file that a link names, without its `#fragment`; nothing for addresses and same-page links.
fn local_target(link: &str) -> Option<&str> {
    let target = link.split('#').next().unwrap_or("");
    let has_scheme = target.contains("://") || target.starts_with("mailto:");
    (!target.is_empty() && !has_scheme).then_some(target)
}

#[cfg(test)]
mod tests;
