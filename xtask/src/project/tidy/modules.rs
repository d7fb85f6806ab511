//! The Rust sources of the crates, parsed once, with the module that each file is.

use std::collections::BTreeSet;

use syn::{Attribute, Ident, Item, Visibility};

use crate::project::tree::Tree;

/// A source file of a crate that is not only for tests.
pub(super) struct Module<'t> {
    /// The crate, as its directory in `crates/` is called.
    pub(super) package: &'t str,
    /// Its path from the root of the project.
    pub(super) file: &'t str,
    /// The modules that lead to it; empty for the root of the crate.
    pub(super) path: Vec<String>,
    pub(super) syntax: syn::File,
}

/// Every module of every crate in `crates/`, without tests. Files that do not parse are left out: another
/// check reports them.
pub(super) fn modules(tree: &Tree) -> Vec<Module<'_>> {
    let mut modules = Vec::new();
    let mut only_for_tests = BTreeSet::new();
    for (file, text) in tree.ending_in(".rs") {
        let Some((package, path)) = place(file) else { continue };
        let Ok(mut syntax) = syn::parse_file(text) else { continue };
        for item in &syntax.items {
            if let Item::Mod(item) = item
                && item.content.is_none()
                && is_test(&item.attrs)
            {
                let mut path = path.clone();
                path.push(item.ident.to_string());
                only_for_tests.insert((package, path));
            }
        }
        if syntax.attrs.iter().any(|attribute| is_test(std::slice::from_ref(attribute))) {
            continue;
        }
        drop_tests(&mut syntax.items);
        modules.push(Module { package, file, path, syntax });
    }
    modules.retain(|module| {
        let mut ancestors = (1..=module.path.len()).filter_map(|n| module.path.get(..n));
        !ancestors.any(|path| only_for_tests.contains(&(module.package, path.to_vec())))
    });
    modules
}

/// The crate and the module path of a source file.
fn place(file: &str) -> Option<(&str, Vec<String>)> {
    let (package, inner) = file.strip_prefix("crates/")?.split_once("/src/")?;
    let inner = inner.strip_suffix(".rs")?;
    let mut path: Vec<String> = inner.split('/').map(str::to_owned).collect();
    if path.iter().any(|part| part == "tests") {
        return None;
    }
    if matches!(inner, "lib" | "main") {
        path.clear();
    }
    Some((package, path))
}

/// Whether an item is compiled for tests alone.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let text: String = list.tokens.to_string().split_whitespace().collect();
        list.path.is_ident("cfg") && (text == "test" || text.starts_with("all(test"))
    })
}

fn drop_tests(items: &mut Vec<Item>) {
    items.retain(|item| !is_test(attributes(item)));
    for item in items {
        if let Item::Mod(item) = item
            && let Some((_, items)) = &mut item.content
        {
            drop_tests(items);
        }
    }
}

/// The attributes of an item.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name of the type that an item defines, and who can name it.
pub(super) fn defined_type(item: &Item) -> Option<(&Ident, &Visibility)> {
    match item {
        Item::Enum(item) => Some((&item.ident, &item.vis)),
        Item::Struct(item) => Some((&item.ident, &item.vis)),
        Item::Trait(item) => Some((&item.ident, &item.vis)),
        Item::Type(item) => Some((&item.ident, &item.vis)),
        Item::Union(item) => Some((&item.ident, &item.vis)),
        _ => None,
    }
}

/// Whether an item defines a type that other modules can name.
pub(super) fn is_shared_type(item: &Item) -> bool {
    defined_type(item).is_some_and(|(_, visibility)| match visibility {
        Visibility::Public(_) => true,
        Visibility::Restricted(restricted) => !restricted.path.is_ident("self"),
        Visibility::Inherited => false,
    })
}

#[cfg(test)]
pub(super) mod samples {
    //! Small projects to check.

    use super::*;

    /// A project of these files.
    pub(in crate::project::tidy) fn tree(files: &[(&str, &str)]) -> Tree {
        let texts = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Tree { texts: texts.collect(), ..Tree::default() }
    }

    #[test]
    fn modules_are_found_and_tests_left_out() {
        let tree = tree(&[
            ("crates/a/src/lib.rs", "mod b; #[cfg(test)] mod c;"),
            ("crates/a/src/b.rs", "struct S; #[cfg(test)] mod tests { struct T; }"),
            ("crates/a/src/b/d.rs", ""),
            ("crates/a/src/b/tests.rs", ""),
            ("crates/a/src/c.rs", ""),
            ("crates/a/src/c/e.rs", ""),
            ("crates/a/tests/f.rs", ""),
        ]);
        let modules = modules(&tree);
        let paths: Vec<String> = modules.iter().map(|module| module.path.join("::")).collect();
        assert_eq!(paths, ["b", "b::d", ""]);
        assert_eq!(modules[0].syntax.items.len(), 1);
    }
}
