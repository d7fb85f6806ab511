//! Unit tests of `foo.rs` are in `foo/tests.rs`.
//!
//! A separate file because it is one check of the list.

use syn::visit::{self, Visit};

use super::Finding;
use super::modules::is_test;
use crate::project::tree::Tree;

/// No file has its unit tests inside.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    // As `cargo fmt` writes it; parsing every file takes seconds.
    let suspects = tree.ending_in(".rs").filter(|(_, text)| text.contains("mod tests {"));
    suspects.flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    // Another check reports files that do not parse.
    let Ok(file) = syn::parse_file(text) else { return Vec::new() };
    let mut inline = InlineTests { path, findings: Vec::new() };
    inline.visit_file(&file);
    inline.findings
}

struct InlineTests<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl<'ast> Visit<'ast> for InlineTests<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() && item.ident == "tests" && is_test(&item.attrs) {
            let what = "unit tests inside the file; move them to `tests.rs` in its directory";
            self.findings.push(Finding::new(self.path, item.ident.span().start().line, what));
        }
        visit::visit_item_mod(self, item);
    }
}

#[cfg(test)]
mod tests;
