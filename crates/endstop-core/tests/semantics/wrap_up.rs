//! The wrap-up begins early enough for money and tokens too (docs/semantics.md, section 10).

use endstop_core::event::Source;
use endstop_core::signal::StopReason;
use endstop_core::{Directive, EventKind, Run};

use crate::Driver;
use crate::reserve::usd;

const BOTH: &str = "[stop]\nb = \"cost >= $2.00\"\n[finish]\na = \"cost >= $1.80\"";
const ALONE: &str = "[stop]\nb = \"steps >= 50\"\n[finish]\na = \"cost >= $1.00\"";

impl Driver {
    /// The next step, with the worst case of it and of the wrap-up.
    fn next(&mut self, cost: &str) -> Directive {
        assert_eq!(self.reserve(10, 10, usd(cost)), Directive::Proceed, "it refuses nothing");
        self.see(EventKind::StepBegin)
    }

    fn after(policy: &str, cost: &str) -> Self {
        let mut driver = Self::toml(policy);
        driver.step_with("work", "x", cost);
        driver
    }
}

#[test]
fn a_wrap_up_fits_a_stop_limit_on_money() {
    assert_eq!(Driver::after(BOTH, "1.50").next("0.50"), Directive::Proceed, "it just fits");
    assert_eq!(Driver::after(BOTH, "1.50").next("0.500000000001"), Directive::Finish);
    assert_eq!(Driver::after(BOTH, "1.00").next("0.90"), Directive::Proceed, "no stop in reach");
}

#[test]
fn a_wrap_up_fits_a_stop_limit_on_tokens() {
    let policy = "[stop]\nb = \"tokens >= 1k\"\n[finish]\na = \"tokens >= 500\"";
    for (output, answer) in [(900, Directive::Proceed), (901, Directive::Finish)] {
        let mut driver = Driver::after(policy, "0");
        driver.reserve(0, output, None);
        assert_eq!(driver.see(EventKind::StepBegin), answer, "{output}");
    }
}

/// After the second step the finish rule would hold, and money would leave no room for the wrap-up.
#[test]
fn a_finish_rule_on_steps_leaves_room_in_money() {
    let policy = "[stop]\nb = \"cost >= $2.00\"\n[finish]\na = \"steps >= 2\"";
    assert_eq!(Driver::after(policy, "1.00").next("1.00"), Directive::Proceed);
    assert_eq!(Driver::after(policy, "1.00").next("1.01"), Directive::Finish);
}

#[test]
fn without_a_stop_limit_the_reserve_is_kept_below_the_finish_limit() {
    assert_eq!(Driver::after(ALONE, "0.40").next("0.60"), Directive::Proceed);
    assert_eq!(Driver::after(ALONE, "0.40").next("0.61"), Directive::Finish);
    let tokens = "[stop]\nb = \"cost >= $50\"\n[finish]\na = \"tokens >= 119\"";
    assert_eq!(Driver::after(tokens, "0").next("0"), Directive::Finish);
    let bounded = "[stop]\nb = \"tokens >= 500\"\n[finish]\na = \"tokens >= 119\"";
    assert_eq!(Driver::after(bounded, "0").next("0"), Directive::Proceed, "a stop rule bounds it");
}

#[test]
fn steps_under_finish_are_all_taken_before_the_wrap_up() {
    let mut driver = Driver::toml("[stop]\nb = \"cost >= $9\"\n[finish]\na = \"steps >= 2\"");
    for _ in 0..2 {
        assert_eq!(driver.next("0.20"), Directive::Proceed);
        driver.reply(1, "0.10", 1);
        driver.see(EventKind::StepEnd);
    }
    assert_eq!(driver.next("0.20"), Directive::Finish);
}

#[test]
fn a_wrap_up_that_began_early_ends_for_the_reason_of_its_rule() {
    let mut driver = Driver::after(ALONE, "0.40");
    assert_eq!(driver.run.finishing(), None);
    assert_eq!(driver.next("0.61"), Directive::Finish);
    assert_eq!(driver.run.finishing(), Some("a"));
    let mut restored =
        Run::restore(driver.run.program().clone(), &driver.run.save().unwrap()).unwrap();
    std::mem::swap(&mut driver.run, &mut restored);
    driver.reply(0, "0.20", 10);
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::CostLimitReached));
    let text = driver.run.explain();
    assert!(text.contains("the next call could reach $1.01 (limit $1.00)"), "{text}");
}

#[test]
fn what_lies_ahead_is_kept_until_the_next_own_step_and_saved() {
    let mut driver = Driver::after(ALONE, "0.40");
    driver.reserve(0, 0, usd("0.61"));
    driver.see(EventKind::Tick);
    driver.source = Source::Descendant;
    driver.see(EventKind::StepBegin);
    driver.source = Source::Own;
    let saved = driver.run.save().unwrap();
    driver.run = Run::restore(driver.run.program().clone(), &saved).unwrap();
    assert_eq!(driver.see(EventKind::StepBegin), Directive::Finish);

    let mut driver = Driver::after(ALONE, "0.10");
    assert_eq!(driver.next("0.80"), Directive::Proceed);
    driver.reply(1, "0.30", 1);
    driver.see(EventKind::StepEnd);
    assert_eq!(driver.see(EventKind::StepBegin), Directive::Proceed, "it was for that step only");
}

#[test]
fn a_later_reserve_takes_the_place_of_an_earlier_one() {
    let mut driver = Driver::after(ALONE, "0.40");
    driver.reserve(0, 0, usd("9"));
    assert_eq!(driver.next("0.60"), Directive::Proceed);
}

#[test]
fn between_steps_it_is_still_a_checkpoint() {
    let mut driver = Driver::toml("[stop]\nb = \"elapsed >= 5s\"");
    driver.at = 5_000;
    assert_eq!(driver.reserve(0, 0, None), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::TimeLimitReached));
}

#[test]
fn without_a_finish_rule_nothing_is_kept() {
    let mut driver = Driver::stop("cost >= $2.00");
    let before = driver.run.save().unwrap();
    assert_eq!(driver.reserve(0, 0, usd("99")), Directive::Proceed);
    assert_eq!(driver.run.save().unwrap().replace("in_progress", "pending"), before);
    assert_eq!(driver.see(EventKind::StepBegin), Directive::Proceed);
}

#[test]
fn the_wrap_up_itself_may_spend_what_was_kept_for_it() {
    let mut driver = Driver::after(BOTH, "1.50");
    assert_eq!(driver.next("0.60"), Directive::Finish);
    assert_eq!(driver.reserve(0, 0, usd("0.50")), Directive::Proceed);
    assert_eq!(driver.see(EventKind::ToolBegin { tool: "a" }), Directive::Refuse);
}

#[test]
fn asking_about_a_step_foretells_its_wrap_up() {
    let mut driver = Driver::after(ALONE, "0.40");
    driver.reserve(0, 0, usd("0.61"));
    let begin = endstop_core::Event::new(driver.run.at(), EventKind::StepBegin);
    assert_eq!(driver.run.would_admit(&begin), Directive::Finish);
    assert_eq!(driver.run.finishing(), None);
    assert_eq!(driver.run.observe(&begin), Directive::Finish);
}

/// A step of a sub-agent below the own step that is open.
fn step_below(driver: &mut Driver) -> Directive {
    driver.source = Source::Descendant;
    let begun = driver.see(EventKind::StepBegin);
    if begun.admits() {
        driver.see(EventKind::AttemptBegin { next_cost: None });
        driver.reply(1, "0.10", 100);
        driver.see(EventKind::StepEnd);
    }
    driver.source = Source::Own;
    begun
}

#[test]
fn a_sub_agent_leaves_room_for_the_wrap_up() {
    for (rules, below) in [
        ("[finish]\na = \"steps >= 4\"", 3),
        ("[stop]\nb = \"steps >= 5\"\n[finish]\na = \"steps >= 4\"", 3),
        ("[stop]\nb = \"steps >= 5\"\n[finish]\na = \"steps >= 5\"", 3),
        ("[stop]\nb = \"tokens >= 1000\"\n[finish]\na = \"tokens >= 500\"", 4),
    ] {
        let mut driver = Driver::toml(rules);
        driver.begin();
        driver.reply(1, "0.10", 100);
        driver.see(EventKind::ChildBegin { depth: 1 });
        for step in 0..below {
            assert_eq!(step_below(&mut driver), Directive::Proceed, "{rules}: {step}");
        }
        assert_eq!(step_below(&mut driver), Directive::Refuse, "{rules}");
        let below = Source::Descendant;
        let begin = endstop_core::Event::new(driver.run.at(), EventKind::StepBegin);
        let asked = endstop_core::Event { source: below, ..begin };
        assert_eq!(driver.run.would_admit(&asked), Directive::Refuse, "{rules}");
        driver.see(EventKind::ChildEnd);
        assert_eq!(driver.see(EventKind::StepEnd), Directive::Proceed, "{rules}");
        assert_eq!(driver.begin(), Directive::Finish, "{rules}");
    }
}
