//! Limits that a person raises (docs/semantics.md, section 9).

use endstop_core::condition::GaugeId;
use endstop_core::event::NewLimit;
use endstop_core::run::raise::RaiseError;
use endstop_core::{Directive, EventKind, Policy, Status};

use crate::Driver;

fn raise(driver: &mut Driver, gauge: GaugeId, by: u64) -> Result<(), RaiseError> {
    for raised in driver.run.raised(gauge, by)? {
        let limit = Some(NewLimit { gauge: raised.gauge, limit: raised.limit });
        driver.see(EventKind::Approved { rule: &raised.rule, limit, by: "ann", why: "later" });
    }
    driver.see(EventKind::Reopened { by: "ann", why: "" });
    Ok(())
}

#[test]
fn a_raised_limit_admits_exactly_what_was_added_and_never_more_than_the_overrides_grant() {
    let mut driver =
        Driver::toml("[stop]\na = \"steps >= 2\"\n[rule.a]\noverrides = 2\ngrant = { steps = 2 }");
    assert_eq!([driver.step(), driver.step()], [Directive::Proceed, Directive::Stop]);
    raise(&mut driver, GaugeId::Steps, 3).unwrap();
    assert_eq!(driver.run.status(), Status::InProgress);
    let steps: Vec<_> = (0..3).map(|_| driver.step()).collect();
    assert_eq!(steps, [Directive::Proceed, Directive::Proceed, Directive::Stop]);
    let beyond = raise(&mut driver, GaugeId::Steps, 2);
    let rule = "a".to_owned();
    assert_eq!(beyond, Err(RaiseError::Beyond { rule, gauge: "steps", most: 1 }));
    assert_eq!(driver.run.status(), Status::Stopped);
    raise(&mut driver, GaugeId::Steps, 1).unwrap();
    assert_eq!([driver.step(), driver.step()], [Directive::Stop, Directive::Stop]);
    assert_eq!(driver.run.step_count(), 6, "the bound with overrides");
    let record = driver.run.trip_record();
    let what: Vec<_> = record.overrides.iter().map(|it| (&*it.by, &*it.what)).collect();
    assert_eq!(what[0], ("ann", "approved up to steps 5: later"));
    assert_eq!(what[1], ("ann", "reopened"));
}

#[test]
fn hard_limits_and_those_of_finish_rules_are_not_raised() {
    let mut driver = Driver::toml(
        "[stop]\nusd = \"cost >= $1\"\nlong = \"steps >= 9 or tokens >= 500\"\n[finish]\nf = \"steps >= 4\"",
    );
    assert!(matches!(raise(&mut driver, GaugeId::Cost, 1), Err(RaiseError::Hard { .. })));
    assert!(matches!(raise(&mut driver, GaugeId::Tokens, 1), Err(RaiseError::Hard { .. })));
    assert_eq!(raise(&mut driver, GaugeId::Steps, 1), Err(RaiseError::Finish("f".to_owned())));
    let mut driver = Driver::stop("tool_calls >= 3");
    assert_eq!(raise(&mut driver, GaugeId::Cost, 1), Err(RaiseError::NoLimit("cost")));
}

#[test]
fn a_soft_limit_of_money_is_raised_within_its_grant_and_a_pause_before_it_too() {
    let mut driver = Driver::toml(
        "[stop]\nusd = \"cost >= $0.20\"\n[pause]\nask = \"cost >= $0.10\"\n\
         [rule.usd]\nhard = false\noverrides = 1\ngrant = { cost = \"$0.10\" }",
    );
    let cents = |n: u64| n * 10_000_000_000;
    assert_eq!([driver.step(), driver.begin()], [Directive::Proceed, Directive::Pause]);
    raise(&mut driver, GaugeId::Cost, cents(10)).unwrap();
    assert_eq!([driver.step(), driver.begin()], [Directive::Proceed, Directive::Stop]);
    assert!(matches!(
        raise(&mut driver, GaugeId::Cost, cents(11)),
        Err(RaiseError::Beyond { most, .. }) if most == cents(10)
    ));
    raise(&mut driver, GaugeId::Cost, cents(10)).unwrap();
    assert_eq!([driver.step(), driver.begin()], [Directive::Proceed, Directive::Stop]);
}

#[test]
fn a_rule_with_a_raised_limit_grants_no_further_override() {
    let text = "[stop]\na = \"steps >= 2\"\n[rule.a]\noverrides = 2\ngrant = { steps = 2 }";
    let mut driver = Driver::toml(text);
    assert_eq!([driver.step(), driver.step()], [Directive::Proceed, Directive::Stop]);
    raise(&mut driver, GaugeId::Steps, 4).unwrap();
    let steps: Vec<_> = (0..4).map(|_| driver.step()).collect();
    assert_eq!(steps.last(), Some(&Directive::Stop));
    assert_eq!(driver.ask_to_go_on(), Directive::Stop);
    let bound = Policy::from_toml(text).unwrap().bounds().steps.unwrap();
    assert_eq!((driver.run.step_count(), bound.with_overrides), (6, 6));
}

#[test]
fn a_cancelled_run_is_not_brought_back_by_a_limit() {
    let mut driver =
        Driver::toml("[stop]\na = \"steps >= 2\"\n[rule.a]\noverrides = 2\ngrant = { steps = 2 }");
    driver.step();
    driver.see(EventKind::Cancel { message: "enough" });
    assert_eq!(driver.begin(), Directive::Stop);
    let refused = raise(&mut driver, GaugeId::Steps, 1);
    assert_eq!(refused, Err(RaiseError::Cancelled("enough".to_owned())));
    assert_eq!(driver.run.status(), Status::Stopped);
}
