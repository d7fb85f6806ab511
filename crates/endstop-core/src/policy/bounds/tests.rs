//! Tests of `bounds`.

use super::*;
use crate::expr::parse;
use crate::units::Money;

fn bounds(text: &str) -> [Option<u64>; 4] {
    let policy = Policy::stop(parse(text).unwrap());
    let found = policy.bounds();
    [found.steps, found.cost, found.tokens, found.time].map(|bound| bound.map(|b| b.limit))
}

#[test]
fn only_lower_bounds_on_gauges_that_never_fall_bound() {
    let usd = |n: u64| n * crate::units::PICOS_PER_DOLLAR;
    for (text, expected) in [
        ("steps >= 25", [Some(25), None, None, None]),
        ("steps > 25", [Some(26), None, None, None]),
        ("not steps < 25", [Some(25), None, None, None]),
        ("steps >= 25 or cost >= $2", [Some(25), Some(usd(2)), None, None]),
        ("steps >= 25 and cost >= $2", [None; 4]),
        ("steps >= 25 and (steps >= 30 or errored)", [Some(30), None, None, None]),
        ("not (steps < 25 and tokens < 5k)", [Some(25), None, Some(5_000), None]),
        ("active >= 1m or elapsed > 2m", [None, None, None, Some(60_000)]),
        ("ever(tokens >= 10)", [None, None, Some(10), None]),
        ("streak(steps >= 5) >= 3", [Some(7), None, None, None]),
        ("count(attempts >= 5) > 2", [Some(7), None, None, None]),
        ("steps == 25 or steps != 3 or steps <= 5", [None; 4]),
        ("idle >= 1m or repeats >= 4 or context_tokens >= 10", [None; 4]),
        ("said(\"x\") or signal(\"y\") or fact(\"z\") >= 1", [None; 4]),
        ("own.steps >= 5 or tool_calls >= 5", [None; 4]),
        ("streak(errored) >= 3", [None; 4]),
    ] {
        assert_eq!(bounds(text), expected, "{text}");
    }
}

#[test]
fn own_steps_bound_no_steps_below() {
    for (text, expected) in [
        ("streak(steps >= 5) >= 3", None),
        ("count(attempts >= 5) > 2", None),
        ("streak(steps >= 2) >= 3 or steps >= 9", Some(9)),
        ("ever(steps >= 4)", Some(4)),
    ] {
        let found = Policy::stop(parse(text).unwrap()).bounds_of_tree();
        assert_eq!(found.steps.map(|bound| bound.limit), expected, "{text}");
    }
}

#[test]
fn one_bounded_dimension_is_enough() {
    for text in [
        "steps >= 1",
        "cost >= $1",
        "tokens >= 1",
        "active >= 1s",
        "deadline(\"2026-11-30T12:00Z\")",
    ] {
        assert!(Policy::stop(parse(text).unwrap()).bounds().is_bounded(), "{text}");
    }
    assert!(!Policy::stop(parse("errored").unwrap()).bounds().is_bounded());
}

#[test]
fn actions_overrides_and_prices_count() {
    let steps = parse("steps >= 10").unwrap();
    let mut policy = Policy::default();
    for action in [Action::Pause, Action::Warn, Action::Retry] {
        policy.rules = alloc::vec![Rule::new("r", action, steps.clone())];
        assert!(!policy.bounds().is_bounded(), "{action:?}");
    }
    policy.rules =
        alloc::vec![Rule::new("r", Action::Finish, parse("steps >= 10 or cost >= $1").unwrap())];
    let found = policy.bounds();
    assert_eq!((found.steps.map(|b| b.limit), found.cost), (Some(11), None));

    let mut soft = Rule::new("r", Action::Stop, parse("steps >= 10 or cost >= $1").unwrap());
    soft.hard = Some(false);
    soft.grant = Some(Grant { steps: 2, cost: Money::from_picos(5), ..Grant::default() });
    policy.rules = alloc::vec![soft];
    let found = policy.bounds();
    assert_eq!(found.steps.map(|b| (b.limit, b.with_overrides)), Some((10, 16)));
    let dollar = crate::units::PICOS_PER_DOLLAR;
    assert_eq!(found.cost.map(|b| (b.limit, b.with_overrides)), Some((dollar, dollar + 15)));

    let mut patient = Rule::new("r", Action::Stop, parse("tokens >= 100 or active >= 1s").unwrap());
    patient.hard = Some(false);
    patient.grant = Some(Grant { tokens: 10, time: crate::units::Millis(500), ..Grant::default() });
    let waits = Policy { rules: alloc::vec![patient], ..Policy::default() }.bounds();
    let both = |bound: Option<Bound>| bound.map(|b| (b.limit, b.with_overrides));
    assert_eq!((both(waits.tokens), both(waits.time)), (Some((100, 130)), Some((1_000, 2_500))));

    policy.on_unpriced = Some(OnUnpriced::Ignore);
    assert_eq!(policy.bounds().cost, None);
    assert!(Policy::stop(parse("deadline(\"2026-11-30T12:00Z\")").unwrap()).bounds().is_bounded());
}
