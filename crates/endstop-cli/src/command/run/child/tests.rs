//! Tests of `child`.

use super::*;

#[test]
fn codes_are_those_of_a_shell() {
    assert_eq!(Ended::Code(3).code(), 3);
    assert_eq!(Ended::Signal(Signal::SIGKILL).code(), 137);
    assert_eq!(Ended::Unknown.code(), 125);
}

#[test]
fn a_command_that_cannot_be_begun_has_a_code_of_its_own() {
    let begin = |name: &str| begin(&[OsString::from(name)], &BTreeMap::new()).unwrap_err().code;
    assert_eq!(begin("/nowhere/at/all"), 127);
    assert_eq!(begin("/"), 126);
}
