//! Tests of `doctor`.

use super::*;

fn says(is_limited: bool, way: &str, hint: &str) -> Diagnosis {
    Diagnosis { is_limited, way: way.to_owned(), hint: hint.to_owned() }
}

#[test]
fn each_disagreement_is_told() {
    let adapter = says(true, "adapter", "");
    assert_eq!(adapter.fault(Way::Adapter, true), None);
    assert!(adapter.fault(Way::Variables, true).is_some());
    assert!(adapter.fault(Way::Adapter, false).is_some());
    assert!(says(false, "unknown", "").fault(Way::Variables, true).is_some());
    let elsewhere = says(false, "none", "start it with `endstop run --intercept`");
    assert_eq!(elsewhere.fault(Way::InterceptOnly, true), None);
    assert!(elsewhere.fault(Way::InterceptOnly, false).is_some());
    assert!(elsewhere.fault(Way::Adapter, true).is_some());
    assert!(says(false, "none", "").fault(Way::InterceptOnly, true).is_some());
    let intercepted = says(true, "intercept", "");
    assert_eq!(intercepted.fault(Way::Intercept, true), None);
    assert!(elsewhere.fault(Way::Intercept, true).is_some());
    assert!(adapter.fault(Way::Intercept, true).is_some());
    assert_eq!(intercepted.in_words(), "intercept");
    assert_eq!(elsewhere.in_words(), "no, use --intercept");
}

#[test]
fn its_output_is_read() {
    let mut command = Command::new("echo");
    command.arg("{\"is_limited\":true,\"way\":\"adapter\",\"hint\":null}");
    assert_eq!(Diagnosis::of(&mut command), Ok(says(true, "adapter", "")));
    assert!(Diagnosis::of(&mut Command::new("true")).is_err());
}
