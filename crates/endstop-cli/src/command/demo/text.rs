//! The texts of the demo. Every figure is one that was counted.

use anstyle::Style;
use endstop::core::units::{Millis, Money};
use endstop_price::PriceTable;
use serde_json::{Value, json};

use super::super::demo_agent::MODEL;
use super::act::{DemoAct, Stage};
use crate::output::{count, duration, money, short, wrapped};

/// Text for a terminal of some columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// How many.
    pub(super) columns: usize,
}

impl Page {
    fn paragraph(self, text: &str) -> String {
        wrapped(text, self.columns, "")
    }

    fn title(self, text: &str) -> String {
        let bold = Style::new().bold();
        format!("{bold}{}{bold:#}\n", self.paragraph(text).trim_end())
    }

    /// Before the first act.
    pub(super) fn opening(self, stage: &Stage) -> String {
        let story = format!(
            "An agent plans in at most {} iterations. In each one it starts a sub-agent that searches until it \
             gives up. The agent has no other limit. Processes, HTTP and prices are real; the model is a \
             script, priced as {MODEL}.",
            stage.iterations
        );
        let title = format!(
            "1. Dry run: count everything, stop nothing: endstop run --dry-run {} -- agent",
            limits(stage)
        );
        format!("{}\n{}\n", self.paragraph(&story), self.title(&title))
    }

    /// After the first act.
    pub(super) fn first_act(self, stage: &Stage, act: &DemoAct) -> String {
        let mut table = figures(act).to_vec();
        table.push(("cost", money(act.cost)));
        let moral = format!(
            "The planner kept its limit of {} iterations. It counted only the planner's iterations; the sub-agents \
             spent the money.",
            count(stage.iterations)
        );
        format!("\n{}\n{}\n", rows(&table), self.paragraph(&moral))
    }

    /// Before the second act.
    pub(super) fn between(self, stage: &Stage) -> String {
        let title =
            format!("2. The same program with limits: endstop run {} -- agent", limits(stage));
        format!("{}\n", self.title(&title))
    }

    /// After the second act.
    pub(super) fn second_act(self, stage: &Stage, first: &DemoAct, second: &DemoAct) -> String {
        let mut table = figures(second).to_vec();
        table.push(("cost", format!("{} of {}", money(second.cost), money(stage.usd))));
        let mut text = format!("\n{}\n", rows(&table));
        text.push_str(&self.title(&saved(first.cost, second.cost)));
        text.push_str(&self.paragraph(&kept(first.cost, second.cost, stage.usd)));
        text.push_str("\nNext:\n");
        for (command, what) in [
            ("endstop run --usd 2 -- CMD", "limit an agent program of your own"),
            ("endstop replay", "see what a limit would have saved in your transcripts"),
            ("endstop check policy.toml", "see the bounds of a policy"),
        ] {
            let line = format!("  {command:28} {what}");
            let is_narrow = line.len() > self.columns;
            let line = if is_narrow { format!("  {command}: {what}") } else { line };
            text.push_str(&wrapped(&line, self.columns, "    "));
        }
        text
    }
}

fn limits(stage: &Stage) -> String {
    format!("--usd {} --steps {}", stage.usd.to_decimal(), stage.steps)
}

fn rows(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("  {name:width$}  {value}\n")).collect()
}

fn figures(act: &DemoAct) -> [(&'static str, String); 4] {
    [
        ("model calls", count(act.calls)),
        ("sub-agents", count(act.sub_agents)),
        ("tokens", short(act.tokens)),
        ("time", duration(Millis(act.elapsed_ms))),
    ]
}

fn saved(without: Money, spent: Money) -> String {
    let saved = without.saturating_sub(spent);
    if saved == Money::ZERO {
        return "Nothing was saved.".to_owned();
    }
    let percent = u128::from(saved.picos()) * 100 / u128::from(without.picos().max(1));
    format!("Saved {} of {} ({percent}%).", money(saved), money(without))
}

fn kept(without: Money, spent: Money, limit: Money) -> String {
    if spent == without {
        return "The agent ended before it reached a limit.".to_owned();
    }
    if spent <= limit {
        return "The run stayed within its limit: Endstop sends a call only if its worst case still fits, \
                whichever agent makes it."
            .to_owned();
    }
    "The run spent more than its limit, because the model used more than the call could reserve."
        .to_owned()
}

/// Both acts for machines.
pub(super) fn json(stage: &Stage, first: &DemoAct, second: &DemoAct) -> Value {
    json!({
        "version": 2,
        "model": MODEL,
        "prices": PriceTable::embedded().version(),
        "limit_usd": stage.usd.to_decimal(),
        "limit_steps": stage.steps,
        "saved_usd": first.cost.saturating_sub(second.cost).to_decimal(),
        "without_limits": first.whole,
        "under_limits": second.whole,
    })
}

#[cfg(test)]
mod tests;
