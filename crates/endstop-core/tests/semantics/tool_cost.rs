//! A tool's own cost: money is compared before the call, and settled with it (docs/semantics.md, section 2).

use std::sync::Arc;

use endstop_core::event::Source;
use endstop_core::signal::StopReason;
use endstop_core::units::Money;
use endstop_core::{Directive, EventKind, Run};

use crate::Driver;

fn money(text: &str) -> Money {
    text.parse().unwrap()
}

impl Driver {
    fn tool_reserve(&mut self, cost: &str, held: &str) -> Directive {
        self.see(EventKind::ToolReserve { tool: "buy", cost: money(cost), held: money(held) })
    }

    fn tool_cost(&mut self, cost: &str) -> Directive {
        self.see(EventKind::ToolCost { tool: "buy", cost: money(cost) })
    }

    /// A step whose reply has spent so much and asks for a tool.
    fn in_step(mut self, cost: &str) -> Self {
        self.begin();
        self.reply(1, cost, 900);
        self
    }
}

#[test]
fn a_tool_begins_if_its_cost_fits_beside_what_is_settled_and_held() {
    for (cost, held, answer) in [
        ("0.50", "0", Directive::Proceed),
        ("0.30", "0.20", Directive::Proceed),
        ("0.500000000001", "0", Directive::Stop),
        ("0.30", "0.200000000001", Directive::Stop),
    ] {
        let mut driver = Driver::stop("cost >= $2.00").in_step("1.50");
        assert_eq!(driver.tool_reserve(cost, held), answer, "{cost} beside {held}");
        let is_stopped = answer == Directive::Stop;
        assert_eq!(driver.reason(), is_stopped.then_some(StopReason::CostLimitReached));
        if is_stopped {
            let refused = driver.run.trip_record().refused;
            assert_eq!(refused.as_deref(), Some("a call of `buy` in step 1"));
        }
    }
}

#[test]
fn tokens_are_not_compared_for_a_tool() {
    // The reply has passed the limit: it was paid for, and its tools run.
    let mut driver = Driver::stop("tokens >= 500 or cost >= $9").in_step("0.10");
    assert_eq!(driver.tool_reserve("0.50", "0"), Directive::Proceed);
    assert_eq!(driver.call("buy", "bought", false), Directive::Proceed);
    driver.see(EventKind::StepEnd);
    assert_eq!(driver.begin(), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::TokenLimitReached));
}

#[test]
fn what_a_tool_cost_is_settled_for_the_run_and_its_ancestors() {
    for (source, own) in [(Source::Own, 700_000_000_000), (Source::Descendant, 0)] {
        let mut driver = Driver::stop("cost >= $1.00 or own.cost >= $5").in_step("0");
        driver.source = source;
        // An overshoot alone ends nothing: the run stops before the next call that can cost something.
        assert_eq!(driver.tool_cost("0.70"), Directive::Proceed);
        assert_eq!(driver.run.gauge("own.cost"), Some(own));
        assert_eq!(driver.tool_cost("0.70"), Directive::Proceed);
        assert_eq!(driver.run.cost(), Some(money("1.40")));
        assert_eq!(driver.run.tokens(), 900);
        assert_eq!(driver.tool_reserve("0.01", "0"), Directive::Stop);
    }
}

#[test]
fn a_pause_rule_on_money_holds_a_tool_up_before_it_begins() {
    let rules = "[stop]\ns = \"steps >= 9\"\n[pause]\np = \"cost >= $1\"";
    let mut driver = Driver::toml(rules).in_step("1.20");
    assert_eq!(driver.see(EventKind::Tick), Directive::Proceed);
    assert_eq!(driver.tool_reserve("0.10", "0"), Directive::Pause);
    driver.see(EventKind::Approved { rule: "p", limit: None, by: "", why: "" });
    assert_eq!(driver.tool_reserve("0.10", "0"), Directive::Proceed);
}

#[test]
fn a_wrap_up_has_no_tool_of_its_own_and_lets_those_of_others_end() {
    let rules = "[stop]\ns = \"steps >= 9\"\n[finish]\nf = \"steps >= 0\"";
    let mut driver = Driver::toml(rules);
    assert_eq!(driver.see(EventKind::StepBegin), Directive::Finish);
    assert_eq!(driver.tool_reserve("0.10", "0"), Directive::Refuse);
    driver.source = Source::Descendant;
    assert_eq!(driver.tool_reserve("0.10", "0"), Directive::Proceed);
}

#[test]
fn a_cost_that_is_settled_after_the_stop_is_in_the_trip_record() {
    let mut driver = Driver::stop("cost >= $1.00").in_step("0.50");
    driver.see(EventKind::ToolBegin { tool: "buy" });
    driver.see(EventKind::Cancel { message: "enough" });
    driver.tool_cost("0.25");
    assert_eq!(driver.run.trip_record().cost_usd.as_deref(), Some("0.75"));
    let saved = driver.run.save().unwrap();
    let restored = Run::restore(Arc::clone(driver.run.program()), &saved).unwrap();
    assert_eq!(restored.cost(), Some(money("0.75")));
}

#[test]
fn next_cost_reads_the_declared_cost_of_an_own_call() {
    let rules = "on_unpriced = \"ignore\"\n[stop]\nl = \"next_cost >= $0.50 or steps >= 9\"";
    let mut driver = Driver::toml(rules).in_step("0.10");
    // Held money is not what the next call costs.
    assert_eq!(driver.tool_reserve("0.49", "5.00"), Directive::Proceed);
    let kind = EventKind::ToolReserve { tool: "buy", cost: money("0.50"), held: money("0") };
    driver.source = Source::Descendant;
    assert_eq!(driver.see(kind.clone()), Directive::Proceed);
    driver.source = Source::Own;
    assert_eq!(driver.see(kind), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::CostLimitReached));
}
