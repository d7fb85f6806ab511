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

/// The words by which the documentation of a bound begins, after `The`.
const BOUNDS: [&str; 5] = ["most", "longest", "largest", "fewest", "shortest"];
/// The types of bounds that are numbers.
const NUMBERS: [&str; 3] = ["u32", "u64", "usize"];

/// Constants that bound something are in `limits.rs`: those that are called `MAX_..`, and of a module all times, and the numbers
/// whose documentation begins like that of a bound.
pub(super) fn check_limits(modules: &[Module<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for module in modules.iter().filter(|module| module.path != ["limits"]) {
        let mut limits = Limits { file: module.file, findings: Vec::new() };
        limits.visit_file(&module.syntax);
        for item in &module.syntax.items {
            if let Item::Const(item) = item
                && is_bound(item)
            {
                limits.add(&item.ident);
            }
        }
        findings.extend(limits.findings);
    }
    findings
}

/// Whether a constant is a time, or a number that is documented as a bound. Those that are called `MAX_..` are found anyway.
fn is_bound(item: &syn::ItemConst) -> bool {
    let Type::Path(path) = item.ty.as_ref() else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    let is_number = NUMBERS.iter().any(|number| last.ident == number);
    let is_kind = last.ident == "Duration" || (is_number && documents_bound(&item.attrs));
    is_kind && !is_named_as_limit(&item.ident)
}

/// Whether the first line of documentation begins with one of [`BOUNDS`].
fn documents_bound(attributes: &[syn::Attribute]) -> bool {
    let first = attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let text = first.unwrap_or_default().to_lowercase();
    let text = text.trim_start();
    let word = text.strip_prefix("the ").unwrap_or(text).split(' ').next();
    word.is_some_and(|word| BOUNDS.contains(&word))
}

fn is_named_as_limit(name: &syn::Ident) -> bool {
    name.to_string().starts_with("MAX_")
}

struct Limits<'a> {
    file: &'a str,
    findings: Vec<Finding>,
}

impl Limits<'_> {
    fn look(&mut self, name: &syn::Ident) {
        if is_named_as_limit(name) {
            self.add(name);
        }
    }

    fn add(&mut self, name: &syn::Ident) {
        let what = format!("limit `{name}`; put it into the `limits.rs` of its crate");
        self.findings.push(Finding::new(self.file, name.span().start().line, what));
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
