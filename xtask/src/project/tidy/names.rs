//! Names of types: one meaning a crate.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta};

use super::Finding;
use super::modules::{Module, attributes, defined_type, is_test};

/// Types have unique names within a crate, those included that only one module or function can name.
pub(super) fn check(modules: &[Module<'_>]) -> Vec<Finding> {
    let mut places: BTreeMap<(&str, String), Vec<(&str, usize)>> = BTreeMap::new();
    for module in modules {
        let mut types = Types::default();
        types.visit_file(&module.syntax);
        for (name, lines) in types.lines {
            let places = places.entry((module.package, name)).or_default();
            places.extend(lines.into_iter().map(|line| (module.file, line)));
        }
    }
    let mut findings = Vec::new();
    for ((_, name), places) in places {
        let Some(((file, line), others)) = places.split_first() else { continue };
        if !others.is_empty() {
            let others: Vec<String> =
                others.iter().map(|(file, line)| format!("{file}:{line}")).collect();
            let what = format!(
                "type `{name}` has the name of another in its crate: {}; rename all but one",
                others.join(", ")
            );
            findings.push(Finding::new(file, *line, what));
        }
    }
    findings
}

/// The types that a file defines, by name. Definitions for several targets, such as `#[cfg(unix)]` and `#[cfg(windows)]`,
/// are one type: they have one name so that the rest of the file works with each of them.
#[derive(Default)]
struct Types {
    lines: BTreeMap<String, Vec<usize>>,
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = attributes(item);
        if is_test(attributes) {
            return;
        }
        if let Some((name, _)) = defined_type(item) {
            let lines = self.lines.entry(name.to_string()).or_default();
            if lines.is_empty() || !has_condition(attributes) {
                lines.push(name.span().start().line);
            }
        }
        visit::visit_item(self, item);
    }
}

/// Whether an item is compiled for some targets only.
fn has_condition(attributes: &[Attribute]) -> bool {
    let is_cfg = |meta: &Meta| matches!(meta, Meta::List(list) if list.path.is_ident("cfg"));
    attributes.iter().any(|attribute| is_cfg(&attribute.meta))
}

#[cfg(test)]
mod tests;
