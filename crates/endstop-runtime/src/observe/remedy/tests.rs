//! Remedies by the source of a stop.

use super::*;

#[test]
fn a_limit_that_a_new_run_has_too_suggests_no_new_run() {
    let of = |source: &str, context: &[(&str, serde_json::Value)]| {
        let signal = StopSignal::new(StopReason::CostLimitReached).with_source(source);
        let signal = context
            .iter()
            .fold(signal, |signal, (key, value)| signal.with_context(*key, value.clone()));
        Remedy::of(&signal).unwrap()
    };
    assert_eq!(of("policy:usd", &[]), Remedy::RaiseLimit);
    assert_eq!(of("budget", &[(OWNER_KEY, "run".into())]), Remedy::RaiseLimit);
    assert_eq!(of("budget", &[(OWNER_KEY, ALL_RUNS.into())]), Remedy::RaiseTotal);
    assert_eq!(of("budget:me", &[(RESET_KEY, 1_790_000_000_000_u64.into())]), Remedy::AwaitReset);
    assert_eq!(of("budget:me", &[(RESET_KEY, serde_json::Value::Null)]), Remedy::RaiseBudget);
}

#[test]
fn a_missing_price_is_no_matter_of_the_limit() {
    for message in ["cost >= $5.00 needs a price, and a call has none", "`m` has no price: set one"]
    {
        let signal = StopSignal::new(StopReason::CostLimitReached).with_message(message);
        assert_eq!(Remedy::of(&signal), Some(Remedy::SetPrice));
    }
}
