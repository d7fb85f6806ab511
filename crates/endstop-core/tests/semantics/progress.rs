//! Loops are judged by results: new ones are progress.

use std::sync::Arc;

use endstop_core::expr::parse;
use endstop_core::probe::Probes;
use endstop_core::signal::StopReason;
use endstop_core::{Directive, EventKind, Policy, Program, Run};

use super::Driver;

/// The default for loops: the rule of the policy that `endstop replay` uses, and of docs/detection.md.
const DEFAULT: &str = "no_progress()";
/// Recognized whatever was asked, if the call failed.
const ERROR: &str = "error: this version of the database cannot limit what a subquery gives back";
const SAYING: &str =
    "I will ask for the state of the build once more, to see whether it is done by now.";

/// A step with one call.
fn ask(driver: &mut Driver, tool: &str, arguments: &str, result: &str) -> Directive {
    say(driver, "", tool, arguments, result)
}

/// The same, after some words.
fn say(driver: &mut Driver, text: &str, tool: &str, arguments: &str, result: &str) -> Directive {
    let begun = driver.begin();
    if !begun.admits() {
        return begun;
    }
    driver.see(EventKind::Piece { text });
    driver.reply(1, "0", 1);
    call(driver, tool, arguments, result, false)
}

/// A step with one call that fails.
fn fail(driver: &mut Driver, tool: &str, arguments: &str, result: &str) -> Directive {
    let begun = driver.begin();
    if !begun.admits() {
        return begun;
    }
    driver.reply(1, "0", 1);
    call(driver, tool, arguments, result, true)
}

/// The rest of a step, with one call.
fn call(driver: &mut Driver, tool: &str, arguments: &str, result: &str, failed: bool) -> Directive {
    driver.see(EventKind::ToolBegin { tool });
    driver.see(EventKind::ToolEnd { tool, arguments, result, failed });
    driver.see(EventKind::StepEnd)
}

/// The step after which the run was stopped, of this many.
fn stopped_at(
    steps: u64,
    mut step: impl FnMut(&mut Driver, u64) -> Directive,
) -> Option<(u64, Option<StopReason>)> {
    let mut driver = Driver::stop(DEFAULT);
    driver.see(EventKind::UserMessage);
    let stopped = (1..=steps).find(|number| step(&mut driver, *number).stops());
    stopped.map(|number| (number, driver.reason()))
}

const NO_PROGRESS: Option<StopReason> = Some(StopReason::NoProgress);

#[test]
fn paging_with_new_output_is_progress() {
    let page =
        |n: u64| format!("lines {n} to {} of a long file, which is read from end to end", n + 9);
    let further = stopped_at(60, |d, n| ask(d, "more", "{}", &page(n)));
    assert_eq!(further, None, "the same call, and each time something else");
    let at_offset = stopped_at(60, |d, n| ask(d, "read", &format!("{{\"from\":{n}}}"), &page(n)));
    assert_eq!(at_offset, None);
    let at_the_end = |n: u64| page(n.min(6));
    let past_the_end =
        stopped_at(60, |d, n| ask(d, "read", &format!("{{\"from\":{n}}}"), &at_the_end(n)));
    assert_eq!(past_the_end, None, "the same text of other calls may be an acknowledgement");
    let again = stopped_at(60, |d, n| ask(d, "read", "{}", &at_the_end(n)));
    assert_eq!(again, Some((9, NO_PROGRESS)), "the last page of the same call: 3 steps of 9");
}

#[test]
fn a_users_turn_starts_afresh() {
    let turns = stopped_at(60, |driver, number| {
        if number % 3 == 0 {
            driver.see(EventKind::UserMessage);
        }
        ask(driver, "test", "{}", ERROR)
    });
    assert_eq!(turns, None, "three times per turn is a request, not a loop");
    let no_turns = stopped_at(60, |driver, _| ask(driver, "test", "{}", ERROR));
    assert_eq!(no_turns, Some((9, NO_PROGRESS)));
}

#[test]
fn polling_that_changes_is_progress() {
    let changing = stopped_at(60, |d, n| say(d, SAYING, "poll", "{}", &format!("{n} %")));
    assert_eq!(changing, None, "with any text in between");
    let standing = stopped_at(60, |d, _| say(d, SAYING, "poll", "{}", "40 %"));
    assert_eq!(standing, Some((9, NO_PROGRESS)), "with any text in between");
    let silent = stopped_at(60, |d, _| ask(d, "poll", "{}", "40 %"));
    assert_eq!(silent, Some((9, NO_PROGRESS)));
}

#[test]
fn waiting_is_no_loop() {
    let poll = |driver: &mut Driver, wait: u64, failed: bool| {
        if !driver.begin().admits() {
            return Directive::Stop;
        }
        driver.reply(1, "0", 1);
        driver.see(EventKind::ToolBegin { tool: "wait" });
        driver.at += wait;
        let (tool, arguments, result) = ("wait", "{}", "still running");
        driver.see(EventKind::ToolEnd { tool, arguments, result, failed });
        driver.see(EventKind::StepEnd)
    };
    assert_eq!(stopped_at(60, |d, _| poll(d, 10_000, false)), None);
    assert_eq!(stopped_at(60, |d, _| poll(d, 9_000, false)), Some((9, NO_PROGRESS)));
    let slow_failures = stopped_at(60, |d, _| poll(d, 10_000, true));
    assert_eq!(slow_failures, Some((9, NO_PROGRESS)), "a slow test that fails is no wait");
}

#[test]
fn acknowledgements_of_other_calls_are_no_loop() {
    let done = "The file /a/b/c.go has been updated successfully. Here is what to read next.";
    let edits = stopped_at(60, |d, n| ask(d, "edit", &format!("{{\"new\":{n}}}"), done));
    assert_eq!(edits, None);
    let todos = stopped_at(60, |d, n| match n % 2 {
        0 => ask(d, "todo", &format!("{{\"done\":{n}}}"), done),
        _ => ask(d, "edit", &format!("{{\"new\":{n}}}"), done),
    });
    assert_eq!(todos, None);
}

#[test]
fn three_successful_writes_are_not_a_loop() {
    let others = stopped_at(60, |d, n| ask(d, "write", &format!("{{\"line\":{n}}}"), "ok"));
    assert_eq!(others, None, "writes of other things that all say `ok`");
    let same = stopped_at(3, |driver, _| ask(driver, "write", "{\"line\":1}", "ok"));
    assert_eq!(same, None);
    let edits = stopped_at(60, |d, n| match n % 2 {
        0 => ask(d, "write", &format!("{{\"line\":{n}}}"), "ok"),
        _ => ask(d, "test", "{}", &format!("{n} failures")),
    });
    assert_eq!(edits, None);
}

#[test]
fn the_same_error_from_different_calls_is_nothing_new() {
    let query = |driver: &mut Driver, n: u64| {
        fail(driver, "sql", &format!("select {n} in (select 1 limit 1)"), ERROR)
    };
    assert_eq!(stopped_at(60, query), Some((7, NO_PROGRESS)), "six halves of seven");
    let mended = stopped_at(60, |d, n| match n % 5 {
        0 => ask(d, "sql", "select 1", &format!("{n} rows")),
        _ => query(d, n),
    });
    assert_eq!(mended, Some((8, NO_PROGRESS)), "six halves of eight");
    for gauge in ["repeats >= 1", "cycles >= 1", "no_progress >= 1"] {
        let mut driver = Driver::stop(gauge);
        assert!(
            (0..9).all(|n| query(&mut driver, n) == Directive::Proceed),
            "{gauge}: other calls"
        );
    }
    let of_other_tools = stopped_at(60, |d, n| fail(d, &format!("tool{n}"), "{}", ERROR));
    assert_eq!(of_other_tools, None);
}

#[test]
fn looking_again_is_checking() {
    let twice = stopped_at(60, |d, n| ask(d, "list", "{}", &format!("state {}", n / 2)));
    assert_eq!(twice, None, "there is news between");
    let thrice = stopped_at(60, |d, n| ask(d, "list", "{}", &format!("state {}", n / 4)));
    assert_eq!(thrice, Some((7, NO_PROGRESS)), "three times in a row is no longer checking");
    let now_and_then = stopped_at(60, |d, n| match n % 4 {
        0 => ask(d, "list", "{}", "as before"),
        _ => ask(d, "work", "{}", &format!("{n} done")),
    });
    assert_eq!(now_and_then, None, "a quarter");
}

/// Small models repeat a call up to eight times and then succeed.
#[test]
fn one_call_from_the_beginning_has_until_the_ninth_result() {
    let from_the_beginning = |d: &mut Driver, _| ask(d, "sql", "select 1", "[(1,)]");
    assert_eq!(stopped_at(8, from_the_beginning), None);
    assert_eq!(stopped_at(60, from_the_beginning), Some((9, NO_PROGRESS)));
    let same_text = stopped_at(60, |d, n| ask(d, "sql", &format!("{}", n.min(2)), "[(1,)]"));
    assert_eq!(same_text, Some((10, NO_PROGRESS)), "another call with the same text before it");
    let other_text = stopped_at(60, |d, n| ask(d, "sql", "{}", &format!("[({},)]", n.min(2))));
    assert_eq!(other_text, Some((5, NO_PROGRESS)), "another text before it: 3 steps of 5");
    let in_turn = stopped_at(60, |d, n| ask(d, "sql", &format!("{}", n % 2), "[(1,)]"));
    assert_eq!(in_turn, Some((5, NO_PROGRESS)), "two calls in turn: 3 steps of 5");
}

#[test]
fn a_loop_is_seen_late_in_a_long_run_too() {
    let late = stopped_at(60, |d, n| ask(d, "work", "{}", &format!("result {}", n.min(40))));
    assert_eq!(late, Some((48, NO_PROGRESS)), "by repeats, where the share is small");
    let rounds = |n: u64| if n < 40 { n } else { 40 + n % 3 };
    let cycle = stopped_at(60, |d, n| ask(d, "work", "{}", &format!("result {}", rounds(n))));
    assert_eq!(cycle, Some((51, NO_PROGRESS)), "by cycles");
}

#[test]
fn replies_without_calls_are_no_share_but_end_at_last() {
    let malformed = |driver: &mut Driver, _| {
        if !driver.begin().admits() {
            return Directive::Stop;
        }
        driver.reply(1, "0", 1);
        driver.see(EventKind::ToolRefused { tool: "bash" });
        driver.see(EventKind::StepEnd)
    };
    assert_eq!(stopped_at(12, malformed), None, "runs went on to succeed after nine");
    assert_eq!(stopped_at(60, malformed), Some((13, NO_PROGRESS)), "the first answers the user");
}

#[test]
fn what_was_not_looked_at_is_unknown_until_the_user_speaks() {
    let mut driver = Driver::stop("steps >= 99");
    for _ in 0..4 {
        ask(&mut driver, "sql", "{}", ERROR);
    }
    let policy = Policy::stop(parse("stale < 30 or stale >= 30").unwrap());
    let asking = Arc::new(Program::new(&policy, &Probes::new()).unwrap());
    let saved = driver.run.save().unwrap();
    driver.run = Run::restore(Arc::clone(&asking), &saved).unwrap();
    assert_eq!(ask(&mut driver, "sql", "{}", ERROR), Directive::Proceed);
    let again = driver.run.save().unwrap();
    driver.run = Run::restore(Arc::clone(&asking), &again).unwrap();
    assert_eq!(ask(&mut driver, "sql", "{}", ERROR), Directive::Proceed, "still unknown");
    assert!(driver.see(EventKind::UserMessage).stops());
}

#[test]
fn steps_whose_results_nobody_looked_at_are_not_without_progress() {
    let mut driver = Driver::stop("steps >= 99");
    for n in 0..9 {
        ask(&mut driver, "work", "{}", &format!("result {n}"));
    }
    let policy = Policy::stop(parse("no_progress(3)").unwrap());
    let asking = Arc::new(Program::new(&policy, &Probes::new()).unwrap());
    driver.run = Run::restore(asking, &driver.run.save().unwrap()).unwrap();
    for n in 9..12 {
        let result = format!("result {}", n.min(10));
        assert_eq!(ask(&mut driver, "work", "{}", &result), Directive::Proceed, "{n}");
    }
}
