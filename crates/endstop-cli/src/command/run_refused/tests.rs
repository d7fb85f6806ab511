//! Tests of `run_refused`.

use super::*;

#[test]
fn the_reason_and_what_works_instead_are_told() {
    let error = refuse("run").unwrap_err();
    assert_eq!(error.code, ExitMeaning::OwnFailure.code());
    assert!(error.message.starts_with("`endstop run` works on Linux and macOS only"));
    assert!(error.hint.is_some_and(|hint| hint.contains("endstop serve")));
}
