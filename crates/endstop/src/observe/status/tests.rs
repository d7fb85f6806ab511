//! The status line as it is shown.

use std::sync::atomic::{AtomicU64, Ordering};

use endstop_core::event::{Event, Source};
use endstop_core::expr::parse;
use endstop_core::policy::{Action, Policy, Rule};
use proptest::prelude::*;

use super::super::Detail;
use super::super::text::width;
use super::*;
use endstop_runtime::ledger::{Amounts, Limits};
use endstop_runtime::observe::play::{Play, Shared, policy};

fn dollars(text: &str) -> Money {
    text.parse().unwrap()
}

fn view() -> StatusView {
    StatusView {
        steps: 7,
        steps_limit: Some(25),
        tokens: 41_234,
        cost: dollars("0.3241"),
        cost_limit: Some(dollars("2")),
        elapsed: Duration::from_secs(48),
        next: Some(NextUp { rule: "max_steps".to_owned(), nearness: Nearness::Percent(28) }),
        ..StatusView::default()
    }
}

#[test]
fn it_tells_where_the_run_is_and_what_comes_next() {
    assert_eq!(
        render(&view(), 200),
        "step 7/25 \u{b7} 41.2k tok \u{b7} $0.32/$2.00 (16%) \u{b7} 48s \u{b7} nearest limit: max_steps (28%)"
    );
    let more = StatusView {
        steps_limit: None,
        tokens_limit: Some(2_000_000),
        cost: dollars("0.0004"),
        is_cost_unknown: true,
        cost_limit: None,
        held_tokens: 950,
        held_cost: dollars("0.05"),
        elapsed: Duration::from_secs(3_723),
        next: Some(NextUp {
            rule: "time\u{1b}[2J".to_owned(),
            nearness: Nearness::After(Duration::from_secs(252)),
        }),
        ..view()
    };
    assert_eq!(
        render(&more, 200),
        "step 7 \u{b7} 41.2k/2M tok \u{b7} \u{2265} $0.0004 \u{b7} held $0.05 + 950 tok \u{b7} 1h 2m \
         \u{b7} nearest limit: time\\u{1b}[2J (in 4m 12s)"
    );
    // On a line that is too short, the holds go first.
    let held = StatusView { held_cost: dollars("0.05"), held_tokens: 950, ..view() };
    assert_eq!(render(&held, 80), render(&view(), 200));
    assert!(render(&held, 200).contains("held $0.05 + 950 tok"));
    assert!(render(&held, 79).ends_with(" \u{b7} 48s \u{b7} nearest: max_steps (28%)"));
    let plan = StatusView {
        quotas: vec![("5h".to_owned(), 4_200), ("7d".to_owned(), 1_050)],
        ..StatusView::default()
    };
    assert_eq!(
        render(&plan, 99),
        "step 0 \u{b7} 0 tok \u{b7} $0.00 \u{b7} plan 5h 42%, 7d 10.5% \u{b7} 0s"
    );
    assert_eq!(render(&StatusView::default(), 99), "step 0 \u{b7} 0 tok \u{b7} $0.00 \u{b7} 0s");
}

#[test]
fn limits_and_the_nearest_rule_are_asked_of_the_core() {
    let mut limited = policy("steps >= 10 or tokens >= 1000 or own.steps >= 300");
    let rule = |id: &str, action, text: &str| Rule::new(id, action, parse(text).unwrap());
    limited.rules.push(rule("ask", Action::Pause, "cost >= $0.004"));
    limited.rules.push(rule("late", Action::Finish, "active >= 100s"));
    limited.rules.push(rule("early", Action::Warn, "steps >= 2"));
    let nobody = super::super::Observers::new();
    let mut play = Play::new(&nobody, "r", limited);
    play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    let before = StatusView::of(&play.run, &play.budget);
    assert_eq!((before.steps_limit, before.tokens_limit), (Some(10), Some(1_000)));
    assert_eq!(before.cost_limit, None, "a pause is not a limit");
    play.tell(20_000, EventKind::StepBegin, Detail::None);
    play.reply((60, 5), 1, Detail::None);
    play.tell(0, EventKind::StepEnd, Detail::None);
    let view = StatusView::of(&play.run, &play.budget);
    assert_eq!((view.steps, view.steps_limit), (1, Some(10)));
    assert_eq!((view.tokens, view.tokens_limit), (65, Some(1_000)));
    assert_eq!(view.cost, dollars("0.001"));
    let next = NextUp { rule: "ask".to_owned(), nearness: Nearness::Percent(25) };
    assert_eq!(view.next, Some(next));
    play.tell(30_000, EventKind::Tick, Detail::None);
    let view = StatusView::of(&play.run, &play.budget);
    let after = Nearness::After(Duration::from_millis(49_990));
    assert_eq!(view.next, Some(NextUp { rule: "late".to_owned(), nearness: after }));
}

#[test]
fn only_what_an_armed_rule_compares_has_a_limit() {
    let mut limited = policy("steps >= 9");
    let condition = parse("steps >= 1").unwrap();
    limited.rules.push(Rule::new("ask", Action::Pause, condition));
    let nobody = super::super::Observers::new();
    let mut play = Play::new(&nobody, "r", limited);
    play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    play.reply((60, 5), 1, Detail::None);
    play.tell(0, EventKind::StepEnd, Detail::None);
    let limits = |play: &Play<'_>| {
        let view = StatusView::of(&play.run, &play.budget);
        (view.steps_limit, view.tokens_limit, view.cost_limit)
    };
    // A pause is next, but no limit.
    assert_eq!(limits(&play), (Some(9), None, None));
    let view = StatusView::of(&play.run, &play.budget);
    assert_eq!(view.next.unwrap().rule, "ask");
    play.tell(0, EventKind::Approved { rule: "ask", limit: None, by: "", why: "" }, Detail::None);
    assert_eq!(limits(&play), (Some(9), None, None));
    let view = StatusView::of(&play.run, &play.budget);
    assert_eq!(view.next.unwrap().rule, "stop");
    for _ in 0..9 {
        play.tell(0, EventKind::StepBegin, Detail::None);
        play.tell(0, EventKind::StepEnd, Detail::None);
    }
    assert!(play.run.stop_reason().is_some());
    // The line shows nothing of a run that has ended; reports and metrics still name its limits.
    assert_eq!(limits(&play), (Some(9), None, None));
}

#[test]
fn a_limit_of_the_own_share_stands_beside_that_share() {
    let nobody = super::super::Observers::new();
    let mut play = Play::new(&nobody, "r", policy("own.steps >= 50"));
    play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    let below =
        Event { source: Source::Descendant, ..Event::new(play.run.at(), EventKind::StepBegin) };
    play.run.observe(&below);
    let view = StatusView::of(&play.run, &play.budget);
    assert_eq!((view.steps, view.steps_limit, view.own_steps), (2, None, Some((1, 50))));
    assert!(render(&view, 99).starts_with("step 2 (own 1/50) \u{b7} "), "{}", render(&view, 99));
    assert_eq!(view.next.unwrap().nearness, Nearness::Percent(2));
}

#[test]
fn a_run_that_does_not_go_on_is_told_so() {
    let nobody = super::super::Observers::new();
    let text = "[stop]\nstop = 'steps >= 2'\n[pause]\nask = 'steps >= 1'\n";
    let policy = Policy::from_toml(text).unwrap();
    let mut play = Play::new(&nobody, "r", policy);
    let line = |play: &Play<'_>| render(&StatusView::of(&play.run, &play.budget), 99);
    play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    for kind in [EventKind::StepBegin, EventKind::StepEnd, EventKind::StepBegin] {
        play.tell(0, kind, Detail::None);
    }
    assert!(line(&play).starts_with("paused \u{b7} step 1/2 \u{b7} "), "{}", line(&play));
    play.tell(0, EventKind::Approved { rule: "ask", limit: None, by: "", why: "" }, Detail::None);
    assert!(line(&play).starts_with("step 1/2 \u{b7} "), "{}", line(&play));
    for kind in [EventKind::StepBegin, EventKind::StepEnd, EventKind::StepBegin] {
        play.tell(0, kind, Detail::None);
    }
    assert!(line(&play).starts_with("stopped \u{b7} step 2"), "{}", line(&play));
}

#[test]
fn what_is_held_is_shown() {
    let nobody = super::super::Observers::new();
    let mut play = Play::new(&nobody, "r", policy("steps >= 10"));
    play.budget = Budget::root(Limits::unlimited());
    let asked = Amounts { tokens: 300, cost: dollars("0.25"), ..Amounts::ZERO };
    let hold = play.budget.reserve(asked).unwrap();
    let view = StatusView::of(&play.run, &play.budget);
    assert_eq!((view.held_tokens, view.held_cost), (300, dollars("0.25")));
    hold.release();
    assert_eq!(StatusView::of(&play.run, &play.budget).held_tokens, 0);
}

#[test]
fn a_terminal_sees_it_at_every_step_and_seldom_within_one() {
    let shared = Shared::default();
    let screen = Arc::new(Screen::new(shared.clone(), true));
    let drawn = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&drawn);
    let line = StatusLine::on(Arc::clone(&screen)).width(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        60
    });
    let mut play = Play::new(&line, "r", policy("steps >= 10"));
    play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    assert_eq!(drawn.swap(0, Ordering::Relaxed), 2);
    for _ in 0..1_000 {
        play.tell(3, EventKind::Piece { text: "word" }, Detail::None);
    }
    let redrawn = drawn.load(Ordering::Relaxed);
    assert!((20..=30).contains(&redrawn), "{redrawn} times in three seconds");
    assert!(shared.text().contains(" 2s"), "{}", shared.text());
    screen.line("a line of the console");
    let last = shared.writes().pop().unwrap();
    assert!(last.starts_with("\r\u{1b}[Ka line of the console\nstep 1/10"), "{last:?}");
    assert!(width(last.rsplit('\n').next().unwrap()) <= 59, "{last:?}");
    let mut child = play.child("kid", "worker", policy("steps >= 1"));
    let drawn = shared.writes().len();
    child.tell(500, EventKind::StepBegin, Detail::None);
    child.end();
    assert_eq!(shared.writes().len(), drawn, "a sub-agent has no separate line");
    play.end();
    assert_eq!(shared.writes().pop().unwrap(), "\r\u{1b}[K");
}

#[test]
fn nothing_is_written_where_there_is_no_terminal() {
    let shared = Shared::default();
    let line = StatusLine::on(Arc::new(Screen::writer(shared.clone())));
    let mut play = Play::new(&line, "r", policy("steps >= 10"));
    play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    play.end();
    drop(line);
    assert_eq!(shared.text(), "");
}

proptest! {
    #[test]
    fn it_fits_into_any_width(
        numbers in any::<[u64; 8]>(),
        rule in ".{0,30}",
        columns in 0usize..120,
        flags in any::<(bool, bool)>(),
    ) {
        let [steps, limit, tokens, cost, cost_limit, held, at, part] = numbers;
        let nearness = if flags.0 {
            Nearness::Percent(part)
        } else {
            Nearness::After(Duration::from_millis(part))
        };
        let view = StatusView {
            standing: flags.0.then_some(Standing::Paused),
            steps,
            steps_limit: flags.1.then_some(limit),
            tokens,
            tokens_limit: flags.0.then_some(limit),
            cost: Money::from_picos(cost),
            is_cost_unknown: flags.1,
            cost_limit: flags.0.then_some(Money::from_picos(cost_limit)),
            held_tokens: held,
            held_cost: Money::from_picos(held),
            quotas: vec![(rule.clone(), part)],
            elapsed: Duration::from_millis(at),
            next: Some(NextUp { rule, nearness }),
            own_steps: flags.0.then_some((steps, limit)),
            own_tokens: flags.1.then_some((tokens, limit)),
            own_cost: flags.0.then_some((Money::from_picos(cost), Money::from_picos(cost_limit))),
        };
        let line = render(&view, columns);
        prop_assert!(width(&line) <= columns, "{}", line);
        prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
        prop_assert!(percent(steps, limit) <= 100);
    }
}
