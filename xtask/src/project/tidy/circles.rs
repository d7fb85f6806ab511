//! Imports inside a crate point one way.
//!
//! Modules of one parent, each with all that is in it, must not use each other in a circle. A module and its own parts may
//! use each other. An item that a module only exports again counts as the module's that it comes from. Pairs of plain files
//! that are one thing in two files are rows of [`PAIRS`].
//!
//! Paths in the tokens of a macro count too. Not counted are groups of imports among these tokens, and paths in strings, such
//! as those of `#[serde(with = "..")]`.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::TokenTree;
use syn::UseTree;
use syn::visit::{self, Visit};

use super::Finding;
use super::modules::{Module, is_test};
use super::tokens::{is_punct, line_of, walk, without_tests};

/// Two files of one directory that use each other, by the path of the directory.
struct Pair {
    within: &'static str,
    files: [&'static str; 2],
    /// Why they are not one file, and neither needs the other less.
    reason: &'static str,
}

/// The pairs of files that may use each other.
const PAIRS: &[Pair] = &[
    Pair {
        within: "endstop-runtime::run",
        files: ["chain", "node"],
        reason: "a node locks the chain of its ancestors, which are nodes",
    },
    Pair {
        within: "endstop-transcript",
        files: ["step", "timeline"],
        reason: "a step may begin a timeline, which consists of steps",
    },
];

/// Modules of one parent, by name: which of them uses which, and where.
type Uses<'m> = BTreeMap<String, BTreeMap<String, (&'m str, usize)>>;

pub(super) fn check(modules: &[Module<'_>]) -> Vec<Finding> {
    let packages: BTreeSet<&str> = modules.iter().map(|module| module.package).collect();
    let mut findings = Vec::new();
    for package in packages {
        let modules: Vec<&Module<'_>> =
            modules.iter().filter(|module| module.package == package).collect();
        findings.extend(check_crate(package, &modules, PAIRS));
    }
    findings
}

fn check_crate(package: &str, modules: &[&Module<'_>], pairs: &[Pair]) -> Vec<Finding> {
    let map = Map::of(modules);
    let mut levels: BTreeMap<Vec<String>, Uses<'_>> = BTreeMap::new();
    for module in modules {
        let mut paths = Paths { module: &module.path, found: Vec::new() };
        paths.visit_file(&module.syntax);
        for (target, line) in paths.found {
            let target = map.resolve(target);
            let common = common(&module.path, &target);
            let parent = module.path.get(..common).unwrap_or_default();
            // A module and its own parts are one.
            let (Some(from), Some(to)) = (module.path.get(common), target.get(common)) else {
                continue;
            };
            let uses = levels.entry(parent.to_vec()).or_default();
            let uses = uses.entry(from.clone()).or_default();
            uses.entry(to.clone()).or_insert((module.file, line));
        }
    }
    let mut findings = Vec::new();
    let mut needed = BTreeSet::new();
    for (parent, uses) in &mut levels {
        let within = [&[package.to_owned()], parent.as_slice()].concat().join("::");
        for (place, pair) in pairs.iter().enumerate().filter(|(_, pair)| pair.within == within) {
            let [one, other] = pair.files;
            let there = uses.get_mut(one).and_then(|targets| targets.remove(other));
            let back = uses.get_mut(other).and_then(|targets| targets.remove(one));
            if there.is_some() && back.is_some() {
                needed.insert(place);
            }
        }
        for circle in circles(uses) {
            findings.extend(told(&within, &circle, uses));
        }
    }
    let is_of_crate = |pair: &Pair| pair.within.split("::").next() == Some(package);
    for (place, pair) in pairs.iter().enumerate().filter(|(_, pair)| is_of_crate(pair)) {
        let Some(first) = modules.first().filter(|_| !needed.contains(&place)) else { continue };
        let Pair { within, files: [one, other], reason } = pair;
        let text = format!(
            "`{one}` and `{other}` of `{within}` use each other no longer ({reason}): remove the pair"
        );
        findings.push(Finding::new(first.file, 1, text));
    }
    findings
}

/// How many names two paths have in common at the beginning.
fn common(a: &[String], b: &[String]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn told(within: &str, circle: &[String], uses: &Uses<'_>) -> Option<Finding> {
    let first = circle.first()?;
    let nexts = circle.iter().skip(1).chain([first]);
    let mut place = None;
    let mut text = first.clone();
    for (from, to) in circle.iter().zip(nexts) {
        let (file, line) = *uses.get(from)?.get(to)?;
        place.get_or_insert((file, line));
        text.push_str(&format!(" -> {to} ({file}:{line})"));
    }
    let (file, line) = place?;
    Some(Finding::new(file, line, format!("modules of `{within}` use each other: {text}")))
}

/// A circle, the shortest, for each use that lies on one. A use that is part of a circle found before has no other.
fn circles(uses: &Uses<'_>) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut covered: BTreeSet<(String, String)> = BTreeSet::new();
    for (from, targets) in uses {
        for to in targets.keys() {
            if covered.contains(&(from.clone(), to.clone())) {
                continue;
            }
            let Some(circle) = shortest(uses, from, to) else { continue };
            let nexts = circle.iter().cycle().skip(1).cloned();
            covered.extend(circle.iter().cloned().zip(nexts));
            found.push(circle);
        }
    }
    found
}

/// The shortest way from a module back to itself that begins with its use of another.
fn shortest(uses: &Uses<'_>, from: &String, to: &String) -> Option<Vec<String>> {
    let mut ways: Vec<Vec<&String>> = vec![vec![from, to]];
    let mut seen = BTreeSet::from([to]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = *way.last()?;
            for next in uses.get(last).into_iter().flat_map(BTreeMap::keys) {
                if next == from {
                    return Some(way.into_iter().cloned().collect());
                }
                if seen.insert(next) {
                    longer.push([way.as_slice(), &[next]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

/// The modules of a crate, and what they export of others.
struct Map {
    modules: BTreeSet<Vec<String>>,
    exports: BTreeMap<Vec<String>, Vec<String>>,
}

impl Map {
    fn of(modules: &[&Module<'_>]) -> Self {
        let known: BTreeSet<Vec<String>> =
            modules.iter().map(|module| module.path.clone()).collect();
        let mut exports = BTreeMap::new();
        for module in modules {
            for item in &module.syntax.items {
                let syn::Item::Use(item) = item else { continue };
                for (name, target) in leaves(&item.tree) {
                    let target = absolute(&module.path, &target).or_else(|| {
                        // A path that begins with a part of this module.
                        let path = [module.path.as_slice(), &target].concat();
                        let part = path.get(..=module.path.len())?;
                        known.contains(part).then(|| path.clone())
                    });
                    if let Some(target) = target {
                        exports.insert([module.path.as_slice(), &[name]].concat(), target);
                    }
                }
            }
        }
        Self { modules: known, exports }
    }

    /// The path by which an item is known where it is defined.
    fn resolve(&self, mut path: Vec<String>) -> Vec<String> {
        // Longer chains of exports are circles.
        for _ in 0..8 {
            let ends = (1..=path.len()).rev();
            let again = ends.filter_map(|end| {
                let (head, rest) = path.split_at_checked(end)?;
                // A module is not an export.
                let target = self.exports.get(head).filter(|_| !self.modules.contains(head))?;
                Some([target.as_slice(), rest].concat())
            });
            match again.into_iter().next() {
                Some(next) if next != path => path = next,
                _ => break,
            }
        }
        path
    }
}

/// The names that an import brings, each with its path.
fn leaves(tree: &UseTree) -> Vec<(String, Vec<String>)> {
    match tree {
        UseTree::Path(path) => leaves(&path.tree)
            .into_iter()
            .map(|(name, mut rest)| {
                let first = path.ident.to_string();
                let is_itself = name == "self";
                if is_itself {
                    rest.clear();
                }
                rest.insert(0, first.clone());
                (if is_itself { first } else { name }, rest)
            })
            .collect(),
        UseTree::Name(name) => vec![(name.ident.to_string(), vec![name.ident.to_string()])],
        UseTree::Rename(rename) => {
            vec![(rename.rename.to_string(), vec![rename.ident.to_string()])]
        }
        UseTree::Glob(_) => vec![("*".to_owned(), Vec::new())],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
    }
}

/// A path of `crate`, `self` or `super` from the root of the crate.
fn absolute(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let up = path.iter().take_while(|part| *part == "super").count();
            let parent = module.get(..module.len().checked_sub(up)?)?;
            Some([parent, path.get(up..)?].concat())
        }
        _ => None,
    }
}

/// The path of words that begins at a token; `None` for a single word, and within a path.
fn path_at(tokens: &[TokenTree], index: usize) -> Option<Vec<String>> {
    if index.checked_sub(2).is_some_and(|before| is_separator(tokens, before)) {
        return None;
    }
    let mut path = Vec::new();
    let mut next = index;
    while let Some(TokenTree::Ident(word)) = tokens.get(next) {
        path.push(word.to_string());
        if !is_separator(tokens, next + 1) {
            break;
        }
        next += 3;
    }
    (path.len() > 1).then_some(path)
}

/// Whether `::` begins at a token.
fn is_separator(tokens: &[TokenTree], index: usize) -> bool {
    is_punct(tokens.get(index), ':') && is_punct(tokens.get(index + 1), ':')
}

/// Collects the paths to other modules of the crate that a file names.
struct Paths<'m> {
    module: &'m [String],
    found: Vec<(Vec<String>, usize)>,
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if is_test(&item.attrs) {
            return;
        }
        let line = item.use_token.span.start().line;
        for (_, path) in leaves(&item.tree) {
            self.found.extend(absolute(self.module, &path).map(|path| (path, line)));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(first) = path.segments.first()
            && path.segments.len() > 1
        {
            let line = first.ident.span().start().line;
            let names: Vec<String> =
                path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.found.extend(absolute(self.module, &names).map(|path| (path, line)));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        let Self { module, found } = self;
        walk(without_tests(invocation.tokens.clone()), &mut |tokens, index| {
            let path = path_at(tokens, index).and_then(|path| absolute(module, &path));
            let line = tokens.get(index).map(line_of);
            found.extend(path.zip(line));
        });
        visit::visit_macro(self, invocation);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // In a module within the file `super` is another.
        if item.content.is_none() {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}

#[cfg(test)]
mod tests;
