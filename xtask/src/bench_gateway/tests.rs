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
    assert_eq!(measured(&["--quick", "--only", "nginx"]), ["direct", "nginx"]);
}

#[test]
fn an_earlier_gateway_is_measured_beside_todays_and_without_the_peers() {
    let ours = ["direct", "endstop", "endstop-before", "endstop-shared", "endstop-shared-before"];
    assert_eq!(measured(&["--against", "HEAD~1"]), ours);
    assert_eq!(measured(&["--binary-before", "endstop"]), ours);
    let with_nginx = measured(&["--against", "HEAD~1", "--only", "nginx"]);
    assert!(with_nginx.contains(&"nginx") && with_nginx.contains(&"endstop-before"));
}

#[test]
fn without_an_earlier_revision_no_gateway_of_one_is_measured() {
    let names = measured(&[]);
    assert!(names.contains(&"endstop") && names.contains(&"litellm"), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with("-before")), "{names:?}");
}

#[test]
fn options_without_their_value_are_refused() {
    for option in ["--binary", "--against", "--binary-before"] {
        let error = Options::parse(&[option]).unwrap_err();
        assert!(error.starts_with(option), "{error}");
    }
}

/// The names of what these words measure.
fn measured(words: &[&str]) -> Vec<&'static str> {
    let options = Options::parse(words).unwrap();
    SUBJECTS.iter().filter(|subject| options.has(subject)).map(|subject| subject.name).collect()
}
