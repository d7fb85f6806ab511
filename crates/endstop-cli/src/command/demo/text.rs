//! What the demo says. Every figure is one that was counted.

use endstop::core::units::{Millis, Money, TokenUsage};
use endstop::price::PriceTable;
use serde_json::{Value, json};

use super::scene::{Act, ITERATIONS, MODEL};
use crate::output::{count, counted, duration, money, short, terminal_width, wrapped};

fn paragraph(text: &str) -> String {
    wrapped(text, terminal_width(), "")
}

fn rows(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("  {name:width$}  {value}\n")).collect()
}

/// Before the first act.
pub(super) fn opening(capped: &str) -> String {
    let story = format!(
        "An agent plans with at most {ITERATIONS} iterations, and each of them asks a sub-agent whose own \
         loop nothing bounds. The loop and the prices are real; the model is a script, priced as {MODEL}, \
         and time is simulated."
    );
    let act = paragraph(&format!("1. Capped, but no shared budget: {capped}"));
    format!("{}\n{act}\n", paragraph(&story))
}

fn cost(act: &Act) -> Money {
    act.state.cost().unwrap_or_default()
}

fn time(act: &Act) -> Millis {
    Millis(act.state.execution.at_ms)
}

fn iterations(act: &Act) -> u64 {
    u64::try_from(act.state.steps().len()).unwrap_or(u64::MAX)
}

fn figures(act: &Act) -> [(&'static str, String); 5] {
    let begun = iterations(act);
    [
        ("iterations", format!("{} of {ITERATIONS}", count(begun))),
        ("sub-agents", count(act.sub_agents)),
        ("model calls", count(act.calls)),
        ("tokens", short(act.state.usage().total())),
        ("time", format!("{} (simulated)", duration(time(act)))),
    ]
}

/// After the first act.
pub(super) fn first_act(act: &Act) -> String {
    let mut table = figures(act).to_vec();
    table.push(("cost", money(cost(act))));
    let moral = format!(
        "The cap held: {}. It counted the planner's steps, and the money went where it did not look.",
        counted(iterations(act), "iteration")
    );
    format!("{}\n{}\n", rows(&table), paragraph(&moral))
}

/// Before the second act.
pub(super) fn between(limited: &str) -> String {
    let title = format!("2. The same agents under one line: {limited}");
    format!("{}\n", paragraph(&title))
}

/// After the second act.
pub(super) fn second_act(first: &Act, second: &Act, limit: Money) -> String {
    let spent = cost(second);
    let mut table = figures(second).to_vec();
    table.push(("cost", format!("{} of {}", money(spent), money(limit))));
    let mut text = rows(&table);
    text.push_str("\nThe trip record:\n\n");
    for line in second.state.explain().lines() {
        let indent = line.chars().take_while(|c| *c == ' ').count();
        let hanging = " ".repeat(indent.saturating_add(4));
        let line = format!("  {line}");
        text.push_str(&wrapped(&line, terminal_width(), &hanging));
    }
    text.push('\n');
    text.push_str(&paragraph(&verdict(cost(first), spent, limit)));
    text.push_str("\nNext:\n");
    for (command, what) in [
        ("endstop replay", "what a limit would have saved on your own recorded runs"),
        ("endstop check policy.toml", "how far a policy lets a run go"),
        ("endstop agent --help", "an agent under limits of your own"),
    ] {
        text.push_str(&wrapped(&format!("  {command:26} {what}"), terminal_width(), "    "));
    }
    text
}

fn verdict(without: Money, spent: Money, limit: Money) -> String {
    let saved = without.saturating_sub(spent);
    if saved == Money::ZERO {
        return format!(
            "Nothing was saved: {} is more than these agents spend before their cap ends them.",
            money(limit)
        );
    }
    let held = if spent <= limit {
        "Not a cent more than the limit was spent: each call is admitted only if the most it can cost still \
         fits, whichever agent makes it."
    } else {
        "More than the limit was spent, because the model reported more than its price says."
    };
    let percent = u128::from(saved.picos()) * 100 / u128::from(without.picos().max(1));
    format!("Saved {} of {} ({percent} %). {held}", money(saved), money(without))
}

/// Both acts for machines.
pub(super) fn json(acts: &[Act; 2], limit: Money) -> Value {
    let [first, second] = acts;
    json!({
        "version": 1,
        "simulated": true,
        "model": MODEL,
        "prices": PriceTable::embedded().version(),
        "limit_usd": limit.to_decimal(),
        "saved_usd": cost(first).saturating_sub(cost(second)).to_decimal(),
        "without_shared_budget": act(first),
        "with_shared_budget": act(second),
    })
}

fn act(act: &Act) -> Value {
    let TokenUsage { input, output, .. } = act.state.usage();
    json!({
        "stop": act.stop,
        "status": act.state.status().name(),
        "reason": act.state.stop_reason().map(|reason| reason.value()),
        "iterations": iterations(act),
        "iterations_limit": ITERATIONS,
        "sub_agents": act.sub_agents,
        "steps": act.state.step_count(),
        "model_calls": act.calls,
        "input_tokens": input,
        "output_tokens": output,
        "tokens": act.state.usage().total(),
        "simulated_ms": time(act).0,
        "cost_usd": cost(act).to_decimal(),
        "verdict": act.state.execution.verdict,
    })
}
