//! Tests of `keys`.

use super::*;

#[test]
fn keys_are_read_line_by_line_and_no_error_shows_one() {
    let lines = "# of the team\nsk-one build-1\n\n  sk-two\tbuild-2\nsk-three ci-*\nsk-four *\n";
    let read = keys(lines).unwrap();
    let runs: Vec<String> = read.iter().map(|(_, runs)| runs.to_string()).collect();
    assert_eq!(runs, ["build-1", "build-2", "ci-*", "*"]);
    for wrong in [
        "sk-secret",
        "sk-secret a b",
        "sk-secret ../x",
        "sk-secret a*b",
        "sk-secret a**",
        "sk-secret a\nsk-secret b",
    ] {
        let error = keys(wrong).unwrap_err();
        assert!(error.starts_with("line ") && !error.contains("secret"), "{error}");
    }
}
