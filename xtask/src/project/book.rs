//! `cargo xtask book`: README, the pages of docs/ and the documentation of the crates as a site below `target/book`.
//!
//! mdBook makes the pages, with search. The same files are read on a code forge: links between pages work in both
//! places, and links to other files of the project lead to its repository. The site opens without a server.

mod links;
mod site;
mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::project::tree::Tree;

/// The version of mdBook, which is installed below `target/tools`.
const MDBOOK: &str = "0.5.4";
/// Where the sources of the book and the site are, from the root.
const SOURCES: &str = "target/book-sources";
const SITE: &str = "target/book";
/// Page of the book that lists the documentation of the crates, and its directory.
const API_PAGE: &str = "api.md";
const API: &str = "api";
/// The configuration of mdBook.
const CONFIG: &str = r#"
[book]
title = "Endstop"
language = "en"

[build]
build-dir = "../book"
create-missing = false

[rust]
edition = "2024"

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
git-repository-url = "{repository}"
no-section-label = true
additional-css = ["book.css"]
input-404 = ""

[output.html.print]
enable = false

[output.html.playground]
runnable = false
"#;
/// Tables and lines of code here are wider than mdBook's column.
const CSS: &str = "\
:root { --content-max-width: 88rem; }
.content main { font-size: 1.6rem; line-height: 1.55; }
.content td, .content th { vertical-align: top; text-align: left; padding: 3px 10px; }
.content img { max-width: 100%; }
@media (max-width: 620px) {
  .content td, .content th { padding: 3px 6px; }
  .content main { font-size: 1.5rem; }
}
";

/// Builds the site and checks its links. With `--no-api` the documentation of the crates is left out.
///
/// # Errors
/// If something cannot be built or written, or links of the site lead nowhere.
pub(super) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let has_api = match words {
        [] => true,
        ["--no-api"] => false,
        [unknown, ..] => return Err(format!("`{unknown}` is no option; there is --no-api")),
    };
    let tree = Tree::read(root).map_err(|error| error.to_string())?;
    let mdbook = installed(root)?;
    let crates = crates(&tree);
    write_sources(root, &tree, has_api.then_some(&crates))?;
    command(Command::new(mdbook).arg("build").arg("--").arg(root.join(SOURCES)))?;
    let site = root.join(SITE);
    if has_api {
        write_api(root, &site, &crates)?;
    }
    let pages = site::check(&site)?;
    println!("{pages} pages with links that lead somewhere: {SITE}/index.html");
    Ok(())
}

/// The pages of the book, by their paths: those at the root, and all below `docs`.
fn pages(tree: &Tree) -> BTreeMap<&str, &str> {
    let is_page = |path: &str| !path.contains('/') || path.starts_with("docs/");
    tree.ending_in(".md").filter(|(path, _)| is_page(path)).collect()
}

/// The libraries by name, so that `endstop` is the first.
fn crates(tree: &Tree) -> Vec<String> {
    let roots = tree.ending_in("/src/lib.rs").filter_map(|(path, _)| {
        path.strip_prefix("crates/")?.strip_suffix("/src/lib.rs").map(str::to_owned)
    });
    let mut names: Vec<String> = roots.collect();
    names.sort();
    names
}

/// Writes what mdBook reads.
fn write_sources(root: &Path, tree: &Tree, crates: Option<&Vec<String>>) -> Result<(), String> {
    let directory = root.join(SOURCES);
    // Pages that are gone do not stay. The directory is absent the first time.
    let _ = fs::remove_dir_all(&directory);
    let repository = repository(tree)?;
    let pages = pages(tree);
    let mut files = BTreeSet::new();
    for (path, text) in &pages {
        let page = links::Page { path, root, pages: &pages, repository: &repository };
        let (text, linked) = page.for_book(text);
        files.extend(linked);
        write(&directory.join("src").join(path), text.as_bytes())?;
    }
    for path in files {
        let bytes = fs::read(root.join(&path)).map_err(|error| format!("`{path}`: {error}"))?;
        write(&directory.join("src").join(path), &bytes)?;
    }
    let mut contents = summary::of(&pages)?;
    if let Some(crates) = crates {
        contents.push_str(&format!("- [The libraries]({API_PAGE})\n"));
        write(&directory.join("src").join(API_PAGE), api_page(tree, crates).as_bytes())?;
    }
    write(&directory.join("src/SUMMARY.md"), contents.as_bytes())?;
    write(&directory.join("book.css"), CSS.as_bytes())?;
    let config = CONFIG.replace("{repository}", &repository);
    write(&directory.join("book.toml"), config.as_bytes())
}

fn api_page(tree: &Tree, crates: &[String]) -> String {
    let mut page = "# The libraries\n\nThe documentation of each crate, for Rust:\n\n".to_owned();
    for name in crates {
        let text = tree.texts.get(format!("crates/{name}/src/lib.rs").as_str());
        let lines = text.map_or("", String::as_str).lines();
        let words = lines.map_while(|line| line.strip_prefix("//! ")).collect::<Vec<_>>().join(" ");
        let _ =
            writeln!(page, "- [`{name}`]({API}/{}/index.html): {words}", name.replace('-', "_"));
    }
    page
}

/// Where the project is published, as its manifest says.
fn repository(tree: &Tree) -> Result<String, String> {
    let manifest = tree.texts.get("Cargo.toml").map_or("", String::as_str);
    let found = manifest.lines().find_map(|line| line.strip_prefix("repository = \""));
    let found = found.and_then(|rest| rest.strip_suffix('"'));
    found.map(str::to_owned).ok_or_else(|| "`Cargo.toml` names no repository".to_owned())
}

/// Builds the documentation of the crates and copies it into the site.
fn write_api(root: &Path, site: &Path, crates: &[String]) -> Result<(), String> {
    // This program is in a directory of the profile, next to the documentation.
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let docs = own.ancestors().nth(2).unwrap_or(root).join("doc");
    // The crates are documented side by side. Links lead to another crate only if its directory is there already.
    let _ = fs::remove_dir_all(&docs);
    for name in crates {
        fs::create_dir_all(docs.join(name.replace('-', "_"))).map_err(|error| error.to_string())?;
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["doc", "--quiet", "--no-deps", "--features", "endstop/otel"]).current_dir(root);
    for name in crates {
        cargo.args(["--package", name]);
    }
    command(&mut cargo)?;
    copy(&docs, &site.join(API))
}

/// mdBook, installed if this version is missing. A debug build: it is built sooner, and has few pages to make.
fn installed(root: &Path) -> Result<PathBuf, String> {
    let place = root.join("target/tools");
    let program = place.join("bin/mdbook");
    let version = Command::new(&program).arg("--version").output();
    let is_there = version.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).trim() == format!("mdbook v{MDBOOK}")
    });
    if !is_there {
        println!("installs mdBook {MDBOOK} below target/tools");
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--quiet", "--locked", "--debug", "--force"]);
        cargo.args(["--no-default-features", "--features", "search", "--root"]).arg(&place);
        command(cargo.arg(format!("mdbook@{MDBOOK}")))?;
    }
    Ok(program)
}

fn command(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{name}`: {status}")),
        Err(error) => Err(format!("cannot run `{name}`: {error}")),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let failed = |error| format!("`{}`: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    fs::write(path, bytes).map_err(failed)
}

/// Copies a directory with everything in it.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error| format!("`{}`: {error}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let target = to.join(entry.file_name());
        if entry.file_type().map_err(failed)?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target).map_err(failed)?;
        }
    }
    Ok(())
}
