//! The distance to the next trip on each resource (docs/semantics.md, section 2).

use endstop_core::run::next_trip::Resource;
use endstop_core::units::Money;
use endstop_core::{Action, EventKind};

use crate::Driver;

fn left(driver: &Driver, resource: Resource) -> Option<u64> {
    driver.run.next_trip(resource, &[Action::Stop]).map(|trip| trip.distance)
}

fn rate(dollars: &str) -> Money {
    dollars.parse().unwrap()
}

#[test]
fn tokens_move_the_gauges_that_depend_on_them() {
    let (input, output) =
        (Resource::Input { rate: rate("2") }, Resource::Output { rate: rate("8") });
    for (rule, by_input, by_output) in [
        ("cost >= $1", Some(500_000), Some(125_000)),
        ("cost > $1", Some(500_001), Some(125_001)),
        ("tokens >= 10k", Some(10_000), Some(10_000)),
        ("input_tokens >= 10k", Some(10_000), None),
        ("output_tokens >= 10k", None, Some(10_000)),
        ("steps >= 1 or cached_tokens >= 1", None, None),
        ("tokens >= 10k and cost >= $1", Some(500_000), Some(125_000)),
        ("tokens >= 10k or cost >= $1", Some(10_000), Some(10_000)),
        ("cost >= $0", Some(0), Some(0)),
    ] {
        let driver = Driver::stop(rule);
        assert_eq!((left(&driver, input), left(&driver, output)), (by_input, by_output), "{rule}");
    }
}

#[test]
fn what_is_settled_is_no_longer_left() {
    let mut driver = Driver::stop("cost >= $1 or tokens >= 1M");
    driver.step_with("work", "x", "0.40");
    assert_eq!(left(&driver, Resource::Output { rate: rate("6") }), Some(100_000));
    assert_eq!(left(&driver, Resource::Output { rate: Money::ZERO }), Some(999_900));
}

#[test]
fn time_moves_the_clocks_and_leaves_windows() {
    for (rule, distance) in [
        ("elapsed >= 10s", Some(6_000)),
        ("active >= 10s", Some(6_000)),
        ("idle >= 10s", Some(10_000)),
        ("steps >= 9", None),
        ("not errored within 5s and steps >= 0", Some(0)),
    ] {
        let mut driver = Driver::stop(rule);
        driver.see(EventKind::RunBegin { agent: None, depth: 0 });
        driver.at = 4_000;
        driver.see(EventKind::UserMessage);
        assert_eq!(left(&driver, Resource::Time), distance, "{rule}");
    }
    let mut paused = Driver::stop("active >= 10s");
    paused.see(EventKind::RunBegin { agent: None, depth: 0 });
    paused.see(EventKind::Paused);
    assert_eq!(left(&paused, Resource::Time), None, "active stands still");
}

/// A count over time falls on its own: each stamp leaves the window a millisecond after its length.
#[test]
fn time_empties_the_window_of_a_count() {
    for (rule, distance) in [
        ("count(called(\"work\"), 5s) < 2 and steps >= 2", Some(4_001)),
        ("count(called(\"work\"), 5s) < 1 and steps >= 2", Some(5_001)),
        ("count(called(\"work\"), 0ms) < 1 and steps >= 2", Some(1)),
        ("count(called(\"work\"), 5s) >= 3", None),
    ] {
        let mut driver = Driver::stop(rule);
        driver.at = 1_000;
        driver.step_with("work", "x", "0.01");
        driver.at = 2_000;
        driver.step_with("work", "x", "0.01");
        assert_eq!(left(&driver, Resource::Time), distance, "{rule}");
    }
}

#[test]
fn steps_are_left_until_the_limit_and_only_wanted_actions_count() {
    let mut driver = Driver::toml("[stop]\ns = \"steps >= 5\"\n[warn]\nw = \"steps >= 3\"");
    driver.step();
    assert_eq!(left(&driver, Resource::Steps), Some(4));
    let warn = driver.run.next_trip(Resource::Steps, &[Action::Warn]).unwrap();
    assert_eq!((warn.distance, warn.rule.as_str(), warn.action), (2, "w", Action::Warn));
}

#[test]
fn a_pause_that_was_approved_for_good_is_not_the_next_trip() {
    use endstop_core::event::NewLimit;
    let trip = |driver: &Driver| {
        let trip = driver.run.next_trip(Resource::Steps, &[Action::Stop, Action::Pause])?;
        Some((trip.distance, trip.rule))
    };
    let mut driver = Driver::toml("[stop]\ns = \"steps >= 9\"\n[pause]\np = \"steps >= 2\"");
    assert_eq!(trip(&driver), Some((2, "p".to_owned())));
    driver.see(EventKind::Approved { rule: "p", limit: None, by: "", why: "" });
    assert_eq!(trip(&driver), Some((9, "s".to_owned())));
    let mut capped = Driver::toml("[stop]\ns = \"steps >= 9\"\n[pause]\np = \"steps >= 2\"");
    capped.see(EventKind::Approved {
        rule: "p",
        limit: Some(NewLimit { gauge: "steps", limit: 4 }),
        by: "",
        why: "",
    });
    assert_eq!(trip(&capped), Some((4, "p".to_owned())));
}
