//! The worst case of a model request, judged before the request is sent (docs/semantics.md, section 2).

use endstop_core::event::Source;
use endstop_core::run::next_trip::{Reserved, Resource};
use endstop_core::signal::StopReason;
use endstop_core::units::{Cost, Money};
use endstop_core::{Action, Directive, EventKind, Run, Status, TripRecord, Truth};

use crate::Driver;

pub(crate) fn usd(text: &str) -> Option<Cost> {
    Some(Cost::Known(text.parse().unwrap()))
}

impl Driver {
    pub(crate) fn reserve(&mut self, input: u64, output: u64, cost: Option<Cost>) -> Directive {
        self.see(EventKind::Reserve { input_tokens: input, output_tokens: output, cost })
    }

    /// A step that has spent so much, and another one that is open.
    fn with_spent(mut self, cost: &str) -> Self {
        self.step_with("work", "x", cost);
        self.see(EventKind::StepBegin);
        self
    }
}

#[test]
fn a_worst_case_on_the_limit_is_admitted_and_past_it_refused() {
    for rule in ["cost >= $2.00", "not cost < $2.00", "cost > $1.999999999999", "own.cost >= $2"] {
        for (cost, answer) in [
            ("0.50", Directive::Proceed),
            ("0.500000000001", Directive::Stop),
            ("0", Directive::Proceed),
        ] {
            let mut driver = Driver::stop(rule).with_spent("1.50");
            assert_eq!(driver.reserve(0, 0, usd(cost)), answer, "{rule}, {cost}");
            let stopped = answer == Directive::Stop;
            assert_eq!(driver.reason(), stopped.then_some(StopReason::CostLimitReached));
        }
    }
    for (rule, input, output) in [
        ("tokens >= 1k", 500, 400),
        ("input_tokens >= 1k", 900, 9_999),
        ("output_tokens >= 1k", 9_999, 1_000),
        ("own.tokens >= 1k", 400, 500),
    ] {
        let with = |more: u64| {
            let mut driver = Driver::stop(rule).with_spent("0");
            if rule.starts_with("output") {
                driver.reserve(input, output + more, None)
            } else {
                driver.reserve(input + more, output, None)
            }
        };
        assert_eq!((with(0), with(1)), (Directive::Proceed, Directive::Stop), "{rule}");
    }
}

#[test]
fn what_is_settled_trips_as_ever() {
    let mut driver = Driver::stop("cost >= $2.00");
    driver.see(EventKind::StepBegin);
    driver.reply(1, "2.00", 1);
    assert_eq!(driver.reserve(0, 0, usd("0")), Directive::Stop);
    assert_eq!(Driver::stop("cost >= $0").reserve(0, 0, usd("0")), Directive::Stop);
}

#[test]
fn only_lower_bounds_see_it() {
    for rule in [
        "cost == $2.00",
        "cost != $1.50",
        "not cost >= $1.50",
        "cost < $1.50",
        "cached_tokens >= 1",
        "context_tokens >= 101",
    ] {
        let mut driver = Driver::stop(&format!("steps >= 9 or ({rule} and steps >= 1)"));
        driver.begin();
        driver.reply(1, "1.50", 100);
        // The first reply is compared before the step ends.
        driver.see(EventKind::AttemptBegin { next_cost: None });
        driver.reply(1, "0", 100);
        driver.see(EventKind::StepEnd);
        driver.see(EventKind::StepBegin);
        assert_eq!(driver.reserve(900, 900, usd("0.50")), Directive::Proceed, "{rule}");
    }
}

#[test]
fn only_stop_rules_see_it() {
    for action in ["pause", "finish", "warn", "retry"] {
        let policy = format!("[stop]\ns = \"steps >= 9\"\n[{action}]\na = \"cost >= $2.00\"");
        let mut driver = Driver::toml(&policy).with_spent("1.50");
        assert_eq!(driver.reserve(0, 0, usd("9")), Directive::Proceed, "{action}");
        assert!(driver.run.take_notices().is_empty());
    }
    let mut driver = Driver::toml("[stop]\ns = \"steps >= 9\"\n[pause]\np = \"cost >= $1.50\"");
    driver.see(EventKind::StepBegin);
    driver.reply(1, "1.50", 1);
    assert_eq!(driver.reserve(0, 0, None), Directive::Pause, "it pauses on settled amounts");
    assert_eq!(driver.run.status(), Status::Paused);
}

#[test]
fn a_request_of_a_descendant_spends_no_own_share() {
    let mut driver = Driver::stop("own.cost >= $2.00 or cost >= $3.00").with_spent("1.50");
    driver.source = Source::Descendant;
    assert_eq!(driver.reserve(0, 0, usd("1.00")), Directive::Proceed);
    assert_eq!(driver.reserve(0, 0, usd("1.51")), Directive::Stop);
}

#[test]
fn it_is_judged_and_not_counted() {
    let mut driver = Driver::stop("cost >= $2.00 or tokens >= 1k").with_spent("1.50");
    let (tokens, cost) = (driver.run.tokens(), driver.run.cost());
    for _ in 0..9 {
        assert_eq!(driver.reserve(100, 100, usd("0.50")), Directive::Proceed);
    }
    assert_eq!((driver.run.tokens(), driver.run.cost()), (tokens, cost));
    let leaf = &driver.run.trip_record().rules[0].tree.parts[0];
    assert_eq!((leaf.observed.as_deref(), &leaf.projected), (Some("$1.50"), &None));
}

#[test]
fn a_refusal_shows_the_leaf_as_it_would_be() {
    let mut driver = Driver::stop("cost >= $2.00 or tokens >= 10k").with_spent("1.50");
    assert_eq!(driver.reserve(20, 0, usd("0.52")), Directive::Stop);
    let trip_record = driver.run.trip_record();
    assert_eq!(trip_record.refused.as_deref(), Some("a model request of step 2"));
    let text = trip_record.to_string();
    assert!(
        text.starts_with("stopped: cost_limit: the next call could reach $2.02 (limit $2.00)"),
        "{text}"
    );
    assert!(text.contains("[x] cost >= $2.00  is $1.50, could reach $2.02"), "{text}");
    assert!(text.contains("[ ] tokens >= 10k  is 100, could reach 120, 9.9k left"), "{text}");
    let [cost, tokens] = &trip_record.rules[0].tree.parts[..] else { panic!("{trip_record:?}") };
    assert_eq!((cost.state, cost.projected.as_deref()), (Truth::True, Some("$2.02")));
    assert_eq!((tokens.state, tokens.projected.as_deref()), (Truth::False, Some("120")));
    let signal = trip_record.primary.as_ref().unwrap();
    assert!(trip_record.to_json().contains("\"projected\":\"$2.02\""), "{signal:?}");
    let restored = Run::restore(driver.run.program().clone(), &driver.run.save().unwrap()).unwrap();
    assert_eq!(restored.trip_record(), trip_record);
    // A record that was written without the key is read.
    let old = trip_record.to_json().replace(",\"projected\":\"120\"", "");
    assert!(serde_json::from_str::<TripRecord>(&old).unwrap() != trip_record);
}

#[test]
fn an_unknown_cost_is_what_the_policy_says_it_is() {
    let rates = "on_unpriced = { input = \"$2/M\", output = \"$4/M\" }\n";
    for (head, cost, answer) in [
        ("", None, Directive::Stop),
        ("", Some(Cost::Unpriced), Directive::Stop),
        ("on_unpriced = \"ignore\"\n", None, Directive::Proceed),
        (rates, Some(Cost::Unpriced), Directive::Proceed),
    ] {
        let policy = format!("{head}[stop]\ns = \"cost >= $0.02\"");
        let mut driver = Driver::toml(&policy);
        driver.see(EventKind::StepBegin);
        assert_eq!(driver.reserve(2_000, 4_000, cost), answer, "{head}");
    }
    let mut driver = Driver::toml(&format!("{rates}[stop]\ns = \"cost >= $0.02\""));
    driver.see(EventKind::StepBegin);
    assert_eq!(driver.reserve(2_001, 4_000, None), Directive::Stop);
    let mut driver = Driver::stop("cost >= $2.00");
    driver.see(EventKind::StepBegin);
    driver.reserve(0, 0, None);
    let trip_record = driver.run.trip_record();
    assert!(trip_record.to_string().contains("needs a price"), "{trip_record}");
    assert_eq!(trip_record.rules[0].tree.state, Truth::Unknown);
    assert_eq!(trip_record.rules[0].tree.projected.as_deref(), Some("unknown"));
    assert_eq!(Driver::stop("tokens >= 9").reserve(0, 0, None), Directive::Proceed);
}

#[test]
fn money_that_does_not_fit_64_bits_passes_every_limit() {
    let most = Some(Cost::Known(Money::from_picos(u64::MAX)));
    let mut driver = Driver::stop("cost >= $9000000 or tokens >= 18446744073709551615");
    driver.step_with("work", "x", "1");
    driver.see(EventKind::StepBegin);
    assert_eq!(driver.reserve(0, 0, most), Directive::Stop);
    let mut driver = Driver::stop("tokens >= 18446744073709551615 or steps >= 9").with_spent("0");
    assert_eq!(driver.reserve(u64::MAX, u64::MAX, None), Directive::Stop);
}

#[test]
fn an_override_answers_it_and_is_recorded() {
    let soft = "[stop]\ns = \"cost >= $2.00\"\n[rule.s]\nhard = false\ngrant = { cost = \"$1\" }";
    let mut driver = Driver::toml(soft).with_spent("1.50");
    driver.ask_to_go_on();
    assert_eq!(driver.reserve(0, 0, usd("0.60")), Directive::Proceed);
    assert!(driver.run.explain().contains("s overridden by critic"), "{}", driver.run.explain());
    let mut driver = Driver::stop("cost >= $2.00").with_spent("1.50");
    driver.ask_to_go_on();
    assert_eq!(driver.reserve(0, 0, usd("0.60")), Directive::Stop, "money is hard");
}

#[test]
fn room_is_what_fits_beside_a_reserve() {
    let driver = Driver::stop("cost >= $2.00 or tokens >= 10k").with_spent("1.50");
    let room = |input, output, cost: &str| {
        let reserved =
            Reserved { input_tokens: input, output_tokens: output, cost: cost.parse().unwrap() };
        let resource = Resource::Output { rate: "10".parse().unwrap() };
        driver.run.room(resource, reserved, &[Action::Stop]).map(|trip| trip.distance)
    };
    assert_eq!(room(0, 0, "0"), Some(9_900));
    assert_eq!(room(900, 0, "0.40"), Some(9_000));
    assert_eq!(room(0, 9_000, "0.499"), Some(100));
    assert_eq!((room(0, 9_900, "0"), room(0, 0, "9")), (Some(0), Some(0)));
}

#[test]
fn readings_are_by_gauge_and_unknown_is_none() {
    let mut driver = Driver::stop("steps >= 9");
    driver.step_with("work", "x", "0.25");
    driver.source = Source::Descendant;
    driver.see(EventKind::StepBegin);
    driver.at = 7_000;
    driver.see(EventKind::Tick);
    let of = |driver: &Driver, gauge: &str| driver.run.gauge(gauge);
    for (gauge, value) in [
        ("steps", Some(2)),
        ("own.steps", Some(1)),
        ("tool_calls", Some(1)),
        ("cost", Some(250_000_000_000)),
        ("input_tokens", Some(100)),
        ("context_tokens", Some(100)),
        ("elapsed", Some(7_000)),
        ("own.elapsed", None),
        ("cost_picos", None),
        ("stale", None),
        ("", None),
    ] {
        assert_eq!(of(&driver, gauge), value, "{gauge}");
    }
    let cost = None;
    driver.see(EventKind::Reply { model: None, usage: None, cost, finish: None, tool_calls: 1 });
    let unknown = ["cost", "tokens"].map(|gauge| of(&driver, gauge));
    let own = ["own.cost", "own.tokens"].map(|gauge| of(&driver, gauge));
    assert_eq!((unknown, own), ([None; 2], [Some(250_000_000_000), Some(100)]));
}

#[test]
fn a_policy_says_whether_it_looks_at_a_reserve() {
    for (policy, needs) in [
        ("[stop]\ns = \"steps >= 9\"", false),
        ("[stop]\ns = \"cost >= $1\"", true),
        ("[stop]\ns = \"steps >= 9 or not own.tokens < 5\"", true),
        ("[stop]\ns = \"steps >= 9 or tokens < 5 or cached_tokens >= 9\"", false),
        ("[stop]\ns = \"steps >= 9\"\n[warn]\nw = \"cost >= $1\"", false),
        ("[finish]\nf = \"steps >= 9 or output_tokens >= 5\"", true),
    ] {
        let driver = Driver::toml(policy);
        let program = driver.run.program();
        assert_eq!(program.needs_reserve(), needs, "{policy}");
        assert_eq!(program.has_action(Action::Finish), policy.contains("finish"));
        assert_eq!(program.has_action(Action::Warn), policy.contains("warn"));
    }
}

#[test]
fn room_leaves_out_rules_that_trip_whatever_is_spent() {
    let driver = Driver::stop("steps >= 0 or tool_calls >= 0");
    let resource = Resource::Output { rate: "10".parse().unwrap() };
    let room = driver.run.room(resource, Reserved::default(), &[Action::Stop]);
    assert_eq!(room, None);
    let next = driver.run.next_trip(resource, &[Action::Stop]);
    assert_eq!(next.map(|trip| trip.distance), Some(0));
}
