//! Length of functions.

use proc_macro2::Span;
use syn::visit::{self, Visit};

use super::Finding;
use crate::project::tree::Tree;

/// A function of this many lines, from its signature to its closing brace, fits on one screen.
const MAX_LINES: usize = 70;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    // A shorter file has no such function, and parsing takes the most time.
    let long = tree.ending_in(".rs").filter(|(_, text)| text.lines().count() > MAX_LINES);
    long.flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    match syn::parse_file(text) {
        Ok(file) => {
            let mut visitor = FunctionLengths { path, findings: Vec::new() };
            visitor.visit_file(&file);
            visitor.findings
        }
        Err(error) => {
            let what = format!("cannot be parsed: {error}");
            vec![Finding::new(path, error.span().start().line, what)]
        }
    }
}

struct FunctionLengths<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl FunctionLengths<'_> {
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = start_of(signature).start().line;
        let last = block.brace_token.span.close().end().line;
        let lines = last.saturating_sub(first) + 1;
        if lines > MAX_LINES {
            let what = format!(
                "function `{}` has {lines} lines, and {MAX_LINES} is the limit; split it",
                signature.ident
            );
            self.findings.push(Finding::new(self.path, first, what));
        }
    }
}

/// The `fn` keyword: what may stand before it never makes a function longer by a line.
fn start_of(signature: &syn::Signature) -> Span {
    signature.fn_token.span
}

impl<'ast> Visit<'ast> for FunctionLengths<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests;
