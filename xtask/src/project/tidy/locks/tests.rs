//! Tests of `locks`.

use super::*;

const ROOT: &str = "[workspace]\nmembers = [\"crates/*\"]\n[workspace.package]\nversion = \"0.1.0\"\n\
                    [workspace.dependencies]\nb = { path = \"crates/b\", version = \"0.1.0\" }\n\
                    serde = { version = \"1.0.5\" }\nshown = { package = \"display\", version = \"2\" }\n";
const A: &str = "[package]\nname = \"a\"\nversion.workspace = true\n[dependencies]\nb.workspace = true\n\
                 serde = { workspace = true, optional = true }\n\
                 [target.'cfg(unix)'.dev-dependencies]\nshown.workspace = true\n";
const B: &str = "[package]\nname = \"b\"\nversion.workspace = true\n";
const LOCK: &str = "version = 4\n\
    [[package]]\nname = \"a\"\nversion = \"0.1.0\"\ndependencies = [\"b\", \"display\", \"serde 1.0.7\"]\n\
    [[package]]\nname = \"b\"\nversion = \"0.1.0\"\n\
    [[package]]\nname = \"display\"\nversion = \"2.3.4\"\nsource = \"registry\"\n\
    [[package]]\nname = \"serde\"\nversion = \"1.0.7\"\nsource = \"registry\"\n";

/// The findings in a workspace with these packages and this lock file.
fn found(a: &str, b: &str, lock: &str) -> Vec<String> {
    let files = [
        ("Cargo.toml", ROOT),
        ("Cargo.lock", lock),
        ("crates/a/Cargo.toml", a),
        ("crates/b/Cargo.toml", b),
    ];
    let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    check_texts(&BTreeMap::from(files)).iter().map(ToString::to_string).collect()
}

fn assert_one(found: &[String], problem: &str) {
    let wanted =
        format!("Cargo.lock:1: stale: {problem}; let `cargo metadata` fix it, and stage it");
    assert_eq!(found, [wanted]);
}

#[test]
fn a_lock_file_that_has_what_the_manifests_ask_for_is_not_found() {
    assert_eq!(found(A, B, LOCK), Vec::<String>::new());
}

#[test]
fn what_a_manifest_asks_for_and_the_lock_file_lacks_is_found() {
    let more = format!("{B}[dependencies]\nserde = \"1\"\n");
    assert_one(&found(A, &more, LOCK), "`b` lacks `serde`");
    let for_tests = format!("{B}[dev-dependencies]\nserde = \"1\"\n");
    assert_one(&found(A, &for_tests, LOCK), "`b` lacks `serde`");
    let newer = B.replace("version.workspace = true", "version = \"0.2.0\"");
    assert_one(&found(A, &newer, LOCK), "`b` is 0.1.0, and 0.2.0 in its manifest");
    let without = LOCK.replace("name = \"b\"", "name = \"c\"").replace("\"b\", ", "");
    let found = found(A, B, &without);
    assert!(found.iter().any(|it| it.contains("it lacks `b`")), "{found:?}");
    assert!(found.iter().any(|it| it.contains("no manifest is that of `c`")), "{found:?}");
}

#[test]
fn what_no_manifest_asks_for_any_longer_is_found() {
    let less = A.replace("b.workspace = true\n", "");
    assert_one(&found(&less, B, LOCK), "`a` has `b`, which its manifest lacks");
}

#[test]
fn a_version_that_a_manifest_does_not_admit_is_found() {
    let older = LOCK.replace("1.0.7", "1.0.4");
    assert_one(&found(A, B, &older), "`a` needs `serde` 1.0.5");
    for (requirement, version, is_admitted) in [
        ("1", "1.9.0", true),
        ("1.8", "1.7.9", false),
        ("1.8", "2.0.0", false),
        ("0.3", "0.3.9", true),
        ("0.3", "0.4.0", false),
        ("0.0.3", "0.0.4", false),
        ("=0.10.4", "0.10.4", true),
        ("=0.10.4", "0.10.5", false),
        ("0.9", "0.9.1+1.2", true),
        (">=1, <3", "9.0.0", true),
    ] {
        assert_eq!(admits(requirement, version), is_admitted, "{requirement} {version}");
    }
}

#[test]
fn the_lock_file_of_another_workspace_may_lack_what_its_features_do_not_use() {
    let fuzz = "[package]\nname = \"fuzz\"\nversion = \"0.0.0\"\n[dependencies]\n\
                a = { path = \"../crates/a\" }\n[workspace]\n";
    let lock = "version = 4\n\
        [[package]]\nname = \"a\"\nversion = \"0.1.0\"\ndependencies = [\"b\"]\n\
        [[package]]\nname = \"b\"\nversion = \"0.1.0\"\n\
        [[package]]\nname = \"fuzz\"\nversion = \"0.0.0\"\ndependencies = [\"a\"]\n";
    let all = |lock: &str| {
        let files = [
            ("Cargo.toml", ROOT),
            ("Cargo.lock", LOCK),
            ("crates/a/Cargo.toml", A),
            ("crates/b/Cargo.toml", B),
            ("fuzz/Cargo.toml", fuzz),
            ("fuzz/Cargo.lock", lock),
        ];
        check_texts(&BTreeMap::from(files.map(|(path, text)| (path.to_owned(), text.to_owned()))))
    };
    assert!(all(lock).is_empty());
    // But not what `a` always uses.
    let found = all(&lock.replace("dependencies = [\"b\"]", "dependencies = []"));
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.len() == 1 && found[0].starts_with("fuzz/Cargo.lock:1: stale: `a` lacks `b`"));
}
