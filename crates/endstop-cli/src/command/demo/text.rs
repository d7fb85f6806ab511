//! What the demo says. Every figure is one that was counted.

use anstyle::Style;
use endstop::core::units::{Millis, Money, TokenUsage};
use endstop::price::PriceTable;
use serde_json::{Value, json};

use super::scene::{Act, ITERATIONS, MODEL};
use crate::output::{count, counted, duration, money, short, wrapped};

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
    pub(super) fn opening(self, capped: &str) -> String {
        let story = format!(
            "An agent plans in at most {ITERATIONS} iterations, and each of them asks a sub-agent whose \
             own loop nothing bounds. The loop and the prices are real; the model is a script, priced as \
             {MODEL}, and time is simulated."
        );
        let title = self.title(&format!("1. A cap, but no shared budget: {capped}"));
        format!("{}\n{title}\n", self.paragraph(&story))
    }

    /// After the first act.
    pub(super) fn first_act(self, act: &Act) -> String {
        let mut table = figures(act).to_vec();
        table.push(("cost", money(cost(act))));
        let moral = format!(
            "The cap held: {}. But it counts only the planner's own, and the money went below it.",
            counted(iterations(act), "iteration")
        );
        format!("{}\n{}\n", rows(&table), self.paragraph(&moral))
    }

    /// Before the second act.
    pub(super) fn between(self, limited: &str) -> String {
        let title = format!("2. The same agents under one line: {limited}");
        format!("{}\n", self.title(&title))
    }

    /// After the second act.
    pub(super) fn second_act(self, first: &Act, second: &Act, limit: Money) -> String {
        let spent = cost(second);
        let mut table = figures(second).to_vec();
        table.push(("cost", format!("{} of {}", money(spent), money(limit))));
        let mut text = rows(&table);
        text.push_str("\nThe trip record:\n\n");
        for line in second.state.explain().lines() {
            let indent = line.chars().take_while(|c| *c == ' ').count();
            let hanging = " ".repeat(indent.saturating_add(4));
            text.push_str(&wrapped(&format!("  {line}"), self.columns, &hanging));
        }
        text.push('\n');
        text.push_str(&self.title(&saved(cost(first), spent)));
        text.push_str(&self.paragraph(&kept(cost(first), spent, limit)));
        text.push_str("\nNext:\n");
        for (command, what) in [
            ("endstop replay", "what a limit would have saved on your own recorded runs"),
            ("endstop check policy.toml", "how far a policy lets a run go"),
            ("endstop agent --help", "an agent under limits of your own"),
        ] {
            let line = format!("  {command:26} {what}");
            let is_narrow = line.len() > self.columns;
            let line = if is_narrow { format!("  {command}: {what}") } else { line };
            text.push_str(&wrapped(&line, self.columns, "    "));
        }
        text
    }
}

fn rows(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("  {name:width$}  {value}\n")).collect()
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
    [
        ("iterations", format!("{} of {ITERATIONS}", count(iterations(act)))),
        ("sub-agents", count(act.sub_agents)),
        ("model calls", count(act.calls)),
        ("tokens", short(act.state.usage().total())),
        ("time", format!("{} (simulated)", duration(time(act)))),
    ]
}

fn saved(without: Money, spent: Money) -> String {
    let saved = without.saturating_sub(spent);
    if saved == Money::ZERO {
        return "Nothing was saved.".to_owned();
    }
    let percent = u128::from(saved.picos()) * 100 / u128::from(without.picos().max(1));
    format!("Saved {} of {} ({percent} %).", money(saved), money(without))
}

fn kept(without: Money, spent: Money, limit: Money) -> String {
    if spent == without {
        return format!("{} is more than these agents spend before their cap.", money(limit));
    }
    if spent <= limit {
        return "Not a cent above the limit was spent: a call begins only if the most that it can cost \
                still fits, whichever agent makes it."
            .to_owned();
    }
    "More than the limit was spent, because the model used more than it was admitted for."
        .to_owned()
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

#[cfg(test)]
mod tests {
    use super::super::scene::play;
    use super::*;

    #[test]
    fn lines_fit_where_a_terminal_is_narrow() {
        let limit: Money = "2".parse().unwrap();
        let first = play("own.steps >= 50", Vec::new()).unwrap();
        let second = play("cost >= $2.00 or own.steps >= 50", Vec::new()).unwrap();
        for columns in [30, 40, 60, 80, 120] {
            let page = Page { columns };
            let text = [
                page.opening(&first.stop),
                page.first_act(&first),
                page.between(&second.stop),
                page.second_act(&first, &second, limit),
            ]
            .concat();
            let bold = Style::new().bold();
            let text = text.replace(&bold.to_string(), "").replace(&format!("{bold:#}"), "");
            for line in text.lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
            let in_one = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(in_one.contains("The cap held: 50 iterations."), "{text}");
            assert!(in_one.contains("Saved $197.72 of $199.60 (99 %)."), "{text}");
        }
    }

    #[test]
    fn what_is_said_of_the_limit_is_true_of_the_figures() {
        let usd = |text: &str| text.parse::<Money>().unwrap();
        let told = |spent: &str| {
            let (all, limit) = (usd("200"), usd("2"));
            (saved(all, usd(spent)), kept(all, usd(spent), limit))
        };
        let (saved, kept) = told("2");
        assert_eq!(saved, "Saved $198.00 of $200.00 (99 %).");
        assert!(kept.starts_with("Not a cent above"), "{kept}");
        assert!(told("2.01").1.starts_with("More than the limit"));
        assert_eq!(told("200").0, "Nothing was saved.");
    }
}
