//! Tests of `bench_gateway`.

use super::*;

#[test]
fn a_name_that_is_none_is_refused_with_those_that_are() {
    let error = Options::parse(&["--only", "ngnix"]).unwrap_err();
    assert!(error.contains("ngnix") && error.contains("nginx"), "{error}");
    assert!(Options::parse(&["--fast"]).is_err());
}

#[test]
fn direct_is_always_measured() {
    let options = Options::parse(&["--quick", "--only", "nginx"]).unwrap();
    let names: Vec<_> =
        SUBJECTS.iter().filter(|subject| options.has(subject)).map(|s| s.name).collect();
    assert_eq!(names, ["direct", "nginx"]);
}
