//! Names of types: one meaning a crate.

use std::collections::BTreeMap;

use syn::Item;

use super::Finding;
use super::modules::{Module, shared_type};

/// Types that other modules can name have unique names within a crate.
pub(super) fn check(modules: &[Module<'_>]) -> Vec<Finding> {
    let mut places: BTreeMap<(&str, String), Vec<(&str, usize)>> = BTreeMap::new();
    for module in modules {
        collect(module, &module.syntax.items, &mut places);
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

fn collect<'m>(
    module: &Module<'m>,
    items: &[Item],
    places: &mut BTreeMap<(&'m str, String), Vec<(&'m str, usize)>>,
) {
    for item in items {
        if let Some((name, _)) = shared_type(item) {
            let place = (module.file, name.span().start().line);
            places.entry((module.package, name.to_string())).or_default().push(place);
        }
        if let Item::Mod(inner) = item
            && let Some((_, items)) = &inner.content
        {
            collect(module, items, places);
        }
    }
}

#[cfg(test)]
mod tests;
