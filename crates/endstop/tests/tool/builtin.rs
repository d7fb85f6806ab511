//! The built-in tools for files.

use endstop::tool::ToolSet;
use endstop::tool::builtin::{Builtin, tools};
use serde_json::json;

use crate::support::{Directories, names};

#[test]
fn names_are_parsed_with_help() {
    assert_eq!(Builtin::parse("read, list").unwrap(), [Builtin::Read, Builtin::List]);
    assert_eq!(Builtin::parse("bash,bash,write_file").unwrap(), [Builtin::Bash, Builtin::Write]);
    assert_eq!(Builtin::parse(" ").unwrap(), []);
    let error = |text| Builtin::parse(text).unwrap_err().to_string();
    let all = "the tools are `read`, `list`, `search`, `write`, `bash`";
    assert_eq!(error("weather,x"), format!("unknown tool `weather`; {all}"));
    assert_eq!(error("serch"), format!("unknown tool `serch`; did you mean `search`? {all}"));
    assert_eq!(
        error("read,,list"),
        format!("a tool's name is missing before or after a comma; {all}")
    );
}

#[test]
fn all_of_them_can_be_offered() {
    let directories = Directories::new();
    let set = ToolSet::new(tools(&directories.workspace(), &Builtin::ALL)).unwrap();
    for builtin in Builtin::ALL {
        let spec = set.get(builtin.tool_name()).unwrap().tool.spec().clone();
        assert!(!spec.description.is_empty());
        let fields = spec.parameters["properties"].as_object().unwrap().clone();
        for (name, field) in fields {
            assert!(field["description"].is_string(), "{builtin} {name} has no description");
        }
    }
    assert!(tools(&directories.workspace(), &[]).is_empty());
    let changing: Vec<Builtin> = Builtin::ALL.into_iter().filter(|tool| tool.changes()).collect();
    assert_eq!(changing, [Builtin::Write, Builtin::Bash]);
}

#[tokio::test]
async fn a_file_is_read_whole_or_by_lines() {
    let directories = Directories::new();
    directories.put("a.txt", "one\ntwo\nthree\nfour");
    let read = |arguments| directories.run(Builtin::Read, arguments);
    assert_eq!(read(json!({ "path": "a.txt" })).await.unwrap(), "one\ntwo\nthree\nfour");
    assert_eq!(
        read(json!({ "path": "a.txt", "offset": 2, "limit": 2 })).await.unwrap(),
        "two\nthree\n[4 bytes of the file are left; continue with offset 4]"
    );
    assert_eq!(read(json!({ "path": "a.txt", "offset": 4 })).await.unwrap(), "four");
    let beyond = directories.failure(Builtin::Read, json!({ "path": "a.txt", "offset": 6 })).await;
    assert_eq!(beyond, "`a.txt` has only 4 lines, there is no line 6");
    directories.put("empty", "");
    assert_eq!(read(json!({ "path": "empty" })).await.unwrap(), "[the file has nothing there]");
}

#[tokio::test]
async fn a_long_file_is_read_in_pages_that_join_to_the_file() {
    let directories = Directories::new();
    let lines: Vec<String> =
        (0..9000).map(|n| format!("line {n} ä{}\n", "x".repeat(n % 90))).collect();
    directories.put("long.txt", lines.concat());
    let (mut offset, mut whole) = (1_u64, String::new());
    for _ in 0..100 {
        let arguments = json!({ "path": "long.txt", "offset": offset, "limit": 100_000 });
        let page = directories.run(Builtin::Read, arguments).await.unwrap();
        assert!(page.len() < 66_000);
        match page.rsplit_once("\n[") {
            Some((text, left)) => {
                whole.push_str(text);
                whole.push('\n');
                let next = left.rsplit(' ').next().unwrap().trim_end_matches(']');
                offset = next.parse().unwrap();
            }
            None => {
                whole.push_str(&page);
                break;
            }
        }
    }
    assert!(whole == lines.concat(), "{} bytes of {}", whole.len(), lines.concat().len());
}

#[tokio::test]
async fn a_line_longer_than_a_page_is_cut_and_told() {
    let directories = Directories::new();
    directories.put("long.txt", format!("{}\nnext\n", "é".repeat(50_000)));
    let page = directories.run(Builtin::Read, json!({ "path": "long.txt" })).await.unwrap();
    assert!(!page.contains('\u{fffd}'));
    let (text, told) = page.rsplit_once('\n').unwrap();
    assert_eq!(text, "é".repeat(32_768));
    assert!(told.starts_with("[line 1 is longer than 65536 bytes"), "{told}");
    assert!(told.contains("34470 bytes of the file are left"), "{told}");
    let next = directories.run(Builtin::Read, json!({ "path": "long.txt", "offset": 2 })).await;
    assert_eq!(next.unwrap(), "next\n");
}

#[tokio::test]
async fn what_is_no_text_file_is_refused() {
    let directories = Directories::new();
    directories.put("directory/file", [0_u8, 159, 1]);
    let told = directories.failure(Builtin::Read, json!({ "path": "directory/file" })).await;
    assert_eq!(told, "`directory/file` is no text: it is a binary file of 3 bytes");
    let told = directories.failure(Builtin::Read, json!({ "path": "directory" })).await;
    assert_eq!(told, "`directory` is a directory; list it instead");
    let told = directories.failure(Builtin::Read, json!({ "path": "none" })).await;
    assert!(told.starts_with("cannot read `none`: "), "{told}");
    #[cfg(unix)]
    {
        let pipe = directories.inside().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let told = directories.failure(Builtin::Read, json!({ "path": "pipe" })).await;
        assert_eq!(told, "`pipe` is no regular file");
    }
}

#[tokio::test]
async fn a_directory_is_listed_in_order_and_within_bounds() {
    let directories = Directories::new();
    let list = |arguments| directories.run(Builtin::List, arguments);
    assert_eq!(list(json!({})).await.unwrap(), "[the directory is empty]");
    directories.put("b.txt", "12345");
    directories.put("sub/c", "");
    directories.put("a", "1");
    #[cfg(unix)]
    std::os::unix::fs::symlink(directories.outside(), directories.inside().join("link")).unwrap();
    let expected = if cfg!(unix) { "a  1\nb.txt  5\nlink@\nsub/" } else { "a  1\nb.txt  5\nsub/" };
    assert_eq!(list(json!({})).await.unwrap(), expected);
    assert_eq!(list(json!({ "path": "sub/" })).await.unwrap(), "c  0");
    (0..600).for_each(|n| directories.put(&format!("many/{n:03}"), ""));
    let many = list(json!({ "path": "many" })).await.unwrap();
    assert_eq!(many.lines().count(), 501);
    assert!(many.starts_with("000  0\n001  0\n") && many.ends_with("\n[100 more]"), "{many}");
}

#[tokio::test]
async fn a_search_finds_lines_and_skips_what_nobody_wrote() {
    let directories = Directories::new();
    directories.put("src/a.rs", "fn main() {}\n// needle here\r\n");
    directories.put("src/b.txt", "no\nNEEDLE");
    for skipped in [".git/x", "target/x", "sub/node_modules/x"] {
        directories.put(skipped, "needle");
    }
    directories.put("binary", b"needle\0needle");
    directories.put("target.rs", "needle");
    let search = |arguments| directories.run(Builtin::Search, arguments);
    assert_eq!(
        search(json!({ "pattern": "(?i)needle" })).await.unwrap(),
        "src/a.rs:2: // needle here\nsrc/b.txt:2: NEEDLE\ntarget.rs:1: needle"
    );
    assert_eq!(
        search(json!({ "pattern": "^no$", "path": "src" })).await.unwrap(),
        "src/b.txt:1: no"
    );
    assert_eq!(
        search(json!({ "pattern": "needle", "path": "src/b.txt" })).await.unwrap(),
        "[no match in 1 file]"
    );
    assert_eq!(
        search(json!({ "pattern": "main|needle", "suffix": ".rs", "path": "src" })).await.unwrap(),
        "src/a.rs:1: fn main() {}\nsrc/a.rs:2: // needle here"
    );
    let told = directories.failure(Builtin::Search, json!({ "pattern": "(" })).await;
    assert!(told.contains("unclosed group"), "{told}");
}

#[tokio::test]
async fn a_search_is_bounded_and_says_so() {
    let directories = Directories::new();
    directories.put("many", "needle\n".repeat(1000));
    directories.put("wide", format!("{}needle", "ä".repeat(1000)));
    let text = directories.run(Builtin::Search, json!({ "pattern": "needle" })).await.unwrap();
    assert_eq!(text.lines().count(), 201);
    assert!(text.ends_with(
        "[stopped after 200 lines in 1 file; narrow the pattern or the path to see more]"
    ));
    let wide =
        directories.run(Builtin::Search, json!({ "pattern": "needle", "path": "wide" })).await;
    assert_eq!(wide.unwrap(), format!("wide:1: {} …", "ä".repeat(150)));
    directories.put("data", vec![b'x'; (8 << 20) + 1]);
    let data = directories.run(Builtin::Search, json!({ "pattern": "x", "path": "data" })).await;
    assert_eq!(data.unwrap(), "[no match in 1 file]\n[larger than 8 MiB and skipped: 1]");
    let large = directories.failure(Builtin::Search, json!({ "pattern": r"(\w{200}){200}" })).await;
    assert!(large.contains("size limit"), "{large}");
}

#[tokio::test]
async fn a_file_is_created_with_its_folders_or_replaced() {
    let directories = Directories::new();
    let write = |path: &str, content: &str| {
        directories.run(Builtin::Write, json!({ "path": path, "content": content }))
    };
    assert_eq!(write("a/b/c.txt", "one").await.unwrap(), "created `a/b/c.txt`: 3 bytes");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let path = directories.inside().join("a/b/c.txt");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o750)).unwrap();
    }
    assert_eq!(
        write("a/b/c.txt", "four").await.unwrap(),
        "replaced `a/b/c.txt`: 4 bytes, before 3"
    );
    let path = directories.inside().join("a/b/c.txt");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "four");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o750);
    }
    assert_eq!(names(&directories.inside().join("a/b")), ["c.txt"], "a draft was left behind");
    let directory =
        directories.failure(Builtin::Write, json!({ "path": "a", "content": "" })).await;
    assert_eq!(directory, "`a` is there and is no regular file");
    let below = json!({ "path": "a/b/c.txt/d", "content": "" });
    assert!(directories.failure(Builtin::Write, below).await.contains("a/b/c.txt/d"));
    assert_eq!(names(&directories.inside().join("a/b")), ["c.txt"], "a draft was left behind");
}
