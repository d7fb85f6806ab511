//! Errors of libraries are types, and limits of a crate stand together.

use syn::visit::{self, Visit};
use syn::{GenericArgument, Item, PathArguments, Type};

use super::Finding;
use super::modules::{Module, is_test};

/// The crate that may use texts as errors: only people read them.
const COMMAND: &str = "endstop-cli";

/// No function of a library fails with a text.
pub(super) fn check_errors(modules: &[Module<'_>]) -> Vec<Finding> {
    let libraries = modules.iter().filter(|module| module.package != COMMAND);
    libraries
        .flat_map(|module| {
            let mut texts = TextErrors { file: module.file, findings: Vec::new() };
            texts.visit_file(&module.syntax);
            texts.findings
        })
        .collect()
}

struct TextErrors<'a> {
    file: &'a str,
    findings: Vec<Finding>,
}

impl<'ast> Visit<'ast> for TextErrors<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Fn(item) if is_test(&item.attrs) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_return_type(&mut self, returned: &'ast syn::ReturnType) {
        if let syn::ReturnType::Type(_, returned) = returned
            && let Type::Path(path) = returned.as_ref()
            && let Some(last) = path.path.segments.last()
            && last.ident == "Result"
            && let PathArguments::AngleBracketed(arguments) = &last.arguments
            && let Some(GenericArgument::Type(Type::Path(error))) = arguments.args.get(1)
            && error.path.segments.last().is_some_and(|segment| segment.ident == "String")
        {
            let what = "a text as an error; make it an enum of what can go wrong";
            self.findings.push(Finding::new(self.file, last.ident.span().start().line, what));
        }
        visit::visit_return_type(self, returned);
    }
}

/// Constants that bound something are in `limits.rs`.
pub(super) fn check_limits(modules: &[Module<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for module in modules.iter().filter(|module| module.path != ["limits"]) {
        let mut limits = Limits { file: module.file, findings: Vec::new() };
        limits.visit_file(&module.syntax);
        findings.extend(limits.findings);
    }
    findings
}

struct Limits<'a> {
    file: &'a str,
    findings: Vec<Finding>,
}

impl Limits<'_> {
    fn look(&mut self, name: &syn::Ident) {
        if name.to_string().starts_with("MAX_") {
            let what = format!("limit `{name}`; put it into the `limits.rs` of its crate");
            self.findings.push(Finding::new(self.file, name.span().start().line, what));
        }
    }
}

impl<'ast> Visit<'ast> for Limits<'_> {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.look(&item.ident);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.look(&item.ident);
    }
}

#[cfg(test)]
mod tests;
