//! No path leads out of the directory: by hand, and over random trees, links and paths.

use std::os::unix::fs::symlink;
use std::path::Path;

use endstop::tool::builtin::{Builtin, Workspace, WorkspaceError};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Directories, names};

const SECRET: &str = "SECRET";

/// Links that lead out, and files that must stay as they are.
fn directories() -> Directories {
    let directories = Directories::new();
    std::fs::create_dir(directories.outside().join("a")).unwrap();
    for name in ["a/secret", "secret"] {
        std::fs::write(directories.outside().join(name), SECRET).unwrap();
    }
    directories.put("a/b/file", "inside");
    directories.put("file", "inside");
    for (target, link) in [
        (directories.outside().as_path(), "out"),
        (Path::new("../../outside"), "a/out"),
        (Path::new("../../../outside/a"), "a/b/out"),
        (directories.outside().join("secret").as_path(), "a/secret"),
        (directories.outside().join("new").as_path(), "a/new"),
        (Path::new("nowhere"), "dangling"),
        (Path::new("a/b"), "b"),
        (Path::new(".."), "a/up"),
        (Path::new("circle"), "circle"),
    ] {
        let _ = symlink_inside(&directories, target, link);
    }
    directories
}

fn symlink_inside(directories: &Directories, target: &Path, link: &str) -> std::io::Result<()> {
    symlink(target, directories.inside().join(link))
}

#[test]
fn paths_inside_are_resolved() {
    let directories = directories();
    let workspace = directories.workspace();
    let absolute = directories.inside().join("a/../file").display().to_string();
    for (path, real) in [
        (".", ""),
        ("file", "file"),
        ("./a//b/", "a/b"),
        ("a/../file", "file"),
        ("b/file", "a/b/file"),
        ("a/up/file", "file"),
        ("b/../b/file", "a/b/file"),
        ("new", "new"),
        ("a/new2/x/y", "a/new2/x/y"),
        ("b/new", "a/b/new"),
        (absolute.as_str(), "file"),
        ("../inside/file", "file"),
    ] {
        let resolved = workspace.resolve(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        // An empty name would add a slash at the end.
        let expected = directories.inside().join(real);
        assert_eq!(
            resolved.components().collect::<Vec<_>>(),
            expected.components().collect::<Vec<_>>()
        );
    }
}

#[test]
fn paths_that_lead_out_are_refused_with_the_reason() {
    let directories = directories();
    let workspace = directories.workspace();
    let absolute = directories.outside().join("secret").display().to_string();
    // Directories whose name begins with the directory's name are not inside it.
    std::fs::create_dir(directories.inside().with_file_name("inside2")).unwrap();
    for path in [
        "..",
        "../outside/secret",
        "/",
        "/etc/passwd",
        "/etc/passwd/x",
        "/nowhere/x",
        "out",
        "out/secret",
        "out/new",
        "a/out/a",
        "a/b/out/secret",
        "a/secret",
        "a/../../outside",
        "../inside2",
        "../nowhere",
        absolute.as_str(),
    ] {
        let error = workspace.resolve(path).unwrap_err();
        assert!(matches!(error, WorkspaceError::Outside { .. }), "{path}: {error:?}");
        assert!(error.to_string().contains("leads out of the directory"), "{error}");
    }
    for path in ["dangling", "dangling//", "dangling/.", "dangling/x", "a/../dangling/"] {
        assert!(matches!(workspace.resolve(path), Err(WorkspaceError::Dangling { .. })), "{path}");
    }
    assert!(matches!(workspace.resolve("a/new"), Err(WorkspaceError::Dangling { .. })));
    assert!(matches!(workspace.resolve("circle"), Err(WorkspaceError::Unreachable { .. })));
    assert!(matches!(workspace.resolve("file/x"), Err(WorkspaceError::Unreachable { .. })));
    assert!(matches!(workspace.resolve("none/../file"), Err(WorkspaceError::Backwards { .. })));
    assert!(matches!(workspace.resolve("none/../../x"), Err(WorkspaceError::Backwards { .. })));
    for path in ["", "a\0b", "x/".repeat(3000).as_str()] {
        assert!(matches!(workspace.resolve(path), Err(WorkspaceError::NoPath)));
    }
}

#[test]
fn the_directory_itself_must_be_one() {
    let directories = directories();
    for directory in ["none", "file"] {
        let error = Workspace::new(directories.inside().join(directory)).unwrap_err();
        assert!(matches!(error, WorkspaceError::Directory { .. }), "{error:?}");
    }
    assert_eq!(
        Workspace::new(directories.inside().join("b")).unwrap().root(),
        directories.inside().join("a/b")
    );
}

#[tokio::test]
async fn a_search_follows_no_link() {
    let directories = directories();
    let text =
        directories.run(Builtin::Search, json!({ "pattern": "SECRET|inside" })).await.unwrap();
    assert_eq!(text, "a/b/file:1: inside\nfile:1: inside");
}

#[tokio::test]
async fn a_write_through_a_link_inside_keeps_the_link() {
    let directories = directories();
    symlink_inside(&directories, Path::new("a/b/file"), "alias").unwrap();
    directories.run(Builtin::Write, json!({ "path": "alias", "content": "new" })).await.unwrap();
    assert!(directories.inside().join("alias").is_symlink());
    assert_eq!(std::fs::read_to_string(directories.inside().join("a/b/file")).unwrap(), "new");
}

fn part() -> impl Strategy<Value = String> {
    let names = [
        "..", ".", "a", "b", "out", "up", "new", "file", "secret", "dangling", "circle", "", "x",
        "outside", "inside", "link0", "link1", "link2",
    ];
    prop::sample::select(Vec::from(names)).prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    (any::<bool>(), prop::collection::vec(part(), 1..7)).prop_map(|(is_absolute, parts)| {
        let path = parts.join("/");
        if is_absolute { format!("/{path}") } else { path }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_outside_is_read_or_written(
        links in prop::collection::vec((part(), path()), 0..3),
        paths in prop::collection::vec(path(), 1..12),
    ) {
        let directories = directories();
        for (number, (place, target)) in links.iter().enumerate() {
            // Where the place is no directory there is no link.
            let link = directories.inside().join(place).join(format!("link{number}"));
            if link.parent().is_some_and(|parent| {
                parent.canonicalize().is_ok_and(|real| real.starts_with(directories.inside()))
            }) {
                let _ = symlink(target.trim_start_matches('/'), link);
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for path in &paths {
            // The same path, and as an absolute one over the directory.
            for path in [path.clone(), format!("{}/{path}", directories.inside().display())] {
                runtime.block_on(attempt(&directories, &path));
            }
        }
    }
}

async fn attempt(directories: &Directories, path: &str) {
    if let Ok(resolved) = directories.workspace().resolve(path) {
        let mut existing = resolved.as_path();
        while !existing.exists() {
            assert!(!existing.is_symlink(), "{path} ends in a link that leads nowhere");
            existing = existing.parent().unwrap();
        }
        let real = existing.canonicalize().unwrap();
        assert!(real.starts_with(directories.inside()), "{path} leads to {}", real.display());
    }
    let arguments = json!({ "path": path, "pattern": SECRET, "content": "overwritten" });
    for tool in [Builtin::Read, Builtin::List, Builtin::Search, Builtin::Write] {
        if let Ok(text) = directories.run(tool, arguments.clone()).await {
            assert!(!text.contains(SECRET), "{tool} {path}: {text}");
            assert!(!text.contains("secret  6"), "{tool} {path}: {text}");
        }
    }
    assert_eq!(names(&directories.outside()), ["a", "secret"], "{path}");
    assert_eq!(names(&directories.outside().join("a")), ["secret"], "{path}");
    for name in ["secret", "a/secret"] {
        assert_eq!(
            std::fs::read_to_string(directories.outside().join(name)).unwrap(),
            SECRET,
            "{path}"
        );
    }
}
