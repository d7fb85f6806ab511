//! Random policies over the published list, with limits so small that they trip, and random runs.

use endstop::core::condition::contract::Contract;
use endstop::core::condition::fact::FACTS;
use endstop::core::condition::gauge::{Argument, GAUGES, GaugeRow, Unit};
use proptest::prelude::*;
use proptest::sample::select;

use crate::case::{Call, Case, RESULTS, Turn};

const TOOLS: [&str; 3] = ["search", "read", "submit"];
const TEXTS: [&str; 5] = [
    "",
    "I am DONE",
    "not yet",
    "the FINAL ANSWER is here",
    "the first of these files has nothing that helps, so the next one is worth a look",
];
const PHRASES: [&str; 3] = ["DONE", "ANSWER", "nothing that"];
const OPERATORS: [&str; 6] = [">=", ">=", ">=", ">", "<", "=="];
const RULES: [&str; 3] = ["first", "second", "third"];
const MOST_TURNS: usize = 8;

/// Which part of the list a policy is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gauges {
    /// Those that every driver reads alike.
    Same,
    /// Those, and those by whose worst cases a live run refuses.
    WithSpend,
}

impl Gauges {
    /// The provider of these runs speaks Anthropic messages, where failed tool calls are marked.
    fn has(self, contract: Contract) -> bool {
        matches!(contract, Contract::Same | Contract::MarkedFailures)
            || (self == Self::WithSpend
                && matches!(contract, Contract::WorstCase | Contract::Reservation))
    }
}

/// A policy and a run.
pub(crate) fn case(gauges: Gauges) -> impl Strategy<Value = Case> {
    (policy(gauges), turns(), any::<bool>()).prop_map(|(policy, mut turns, is_streaming)| {
        if is_streaming && policy.contains("messages") {
            // The gateway closes a stream at the first tool call that it refuses: it never sees those behind it, and the
            // agent loop counts a refusal for each.
            turns.iter_mut().for_each(|turn| turn.calls.truncate(1));
        }
        Case { policy, turns, is_streaming }
    })
}

fn policy(gauges: Gauges) -> impl Strategy<Value = String> {
    let action = prop_oneof![3 => Just("stop"), 1 => Just("finish"), 1 => Just("warn")];
    prop::collection::vec((action, condition(gauges)), 1..=RULES.len()).prop_map(|rules| {
        let mut policy = "unbounded = true\n".to_owned();
        for action in ["stop", "finish", "warn"] {
            let of_action = rules.iter().zip(RULES).filter(|((of, _), _)| *of == action);
            let lines: String =
                of_action.map(|((_, condition), id)| format!("{id} = '{condition}'\n")).collect();
            if !lines.is_empty() {
                policy.push_str(&format!("[{action}]\n{lines}"));
            }
        }
        policy
    })
}

/// The text of a condition, in parentheses where it has parts.
fn condition(gauges: Gauges) -> impl Strategy<Value = String> {
    leaf(gauges).prop_recursive(3, 8, 2, |inner| {
        let pair = || (inner.clone(), inner.clone());
        prop_oneof![
            3 => pair().prop_map(|(a, b)| format!("({a} or {b})")),
            3 => pair().prop_map(|(a, b)| format!("({a} and {b})")),
            2 => inner.clone().prop_map(|a| format!("(not {a})")),
            1 => inner.clone().prop_map(|a| format!("ever({a})")),
            1 => (inner.clone(), 1u64..4).prop_map(|(a, n)| format!("(streak({a}) >= {n})")),
            1 => (inner.clone(), 1u64..4).prop_map(|(a, n)| format!("(count({a}) >= {n})")),
            1 => (inner.clone(), 1u64..4).prop_map(|(a, n)| format!("({a} within {n} steps)")),
            1 => pair().prop_map(|(a, b)| format!("({a} then {b})")),
        ]
    })
}

fn leaf(gauges: Gauges) -> impl Strategy<Value = String> {
    let facts: Vec<&str> =
        FACTS.iter().filter(|row| gauges.has(row.contract)).map(|row| row.name).collect();
    let arguments = (select(&TOOLS[..]), select(&PHRASES[..]));
    let fact = (select(facts), arguments).prop_map(|(fact, (tool, phrase))| match fact {
        "called" | "tool_failed" => format!("{fact}(\"{tool}\")"),
        "said" => format!("said(\"{phrase}\")"),
        "matches" => format!("matches(/{phrase}$/)"),
        "finished" => "finished(\"length\", \"stop_sequence\")".to_owned(),
        "no_tool_calls" | "errored" | "near_duplicate" => fact.to_owned(),
        other => panic!("the fact `{other}` is on the list; say what it is called with"),
    });
    prop_oneof![2 => comparison(gauges), 1 => fact]
}

fn comparison(gauges: Gauges) -> impl Strategy<Value = String> {
    let rows: Vec<&'static GaugeRow> =
        GAUGES.iter().filter(|row| gauges.has(row.contract)).collect();
    let spend: Vec<&'static GaugeRow> =
        rows.iter().copied().filter(|row| row.contract == Contract::WorstCase).collect();
    let row = match spend.is_empty() {
        true => select(rows).boxed(),
        false => prop_oneof![select(rows), select(spend)].boxed(),
    };
    let tool = prop::option::of(select(&TOOLS[..]));
    (row, select(&OPERATORS[..]), any::<bool>(), tool, 0u64..7).prop_map(
        |(row, operator, own, tool, small)| {
            let own = if own && row.has_own { "own." } else { "" };
            let tool = tool.filter(|_| row.argument == Argument::Optional);
            let argument = tool.map_or(String::new(), |tool| format!("(\"{tool}\")"));
            let amount = match (row.name, row.unit) {
                ("stale", _) => (small * 20).to_string(),
                (_, Unit::Tokens) => (small * small * 700).to_string(),
                (_, Unit::Money) => {
                    format!("${:.3}", f64::from(u32::try_from(small * small).unwrap()) / 150.0)
                }
                _ => small.to_string(),
            };
            format!("{own}{}{argument} {operator} {amount}", row.name)
        },
    )
}

/// A run that ends naturally if nothing stops it.
fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let calling = (prop::collection::vec(call(), 1..=3), turn("tool_use"));
    let calling = calling.prop_map(|(calls, turn)| Turn { calls, ..turn });
    let finish = select(&["end_turn", "end_turn", "stop_sequence", "max_tokens"][..]);
    let last = finish.prop_flat_map(turn);
    (prop::collection::vec(calling, 0..MOST_TURNS), last).prop_map(|(mut turns, last)| {
        turns.push(last);
        turns
    })
}

fn call() -> impl Strategy<Value = Call> {
    (select(&TOOLS[..]), 0..RESULTS.len(), prop::bool::weighted(0.2))
        .prop_map(|(tool, result, fails)| Call { tool, result, fails })
}

fn turn(finish: &'static str) -> impl Strategy<Value = Turn> {
    let failures = prop_oneof![6 => Just(0usize), 1 => Just(1), 1 => Just(2)];
    let usage = (select(&[50u64, 400, 3_000][..]), select(&[1u64, 12, 300][..]), 0u64..3);
    (failures, select(&TEXTS[..]), usage).prop_map(
        move |(failures, text, (input, output, third))| {
            // A response without text and tools is none.
            let text = if finish != "tool_use" && text.is_empty() { "Enough." } else { text };
            let cached = input / 3 * third;
            Turn { failures, text, calls: Vec::new(), finish, input, output, cached }
        },
    )
}
