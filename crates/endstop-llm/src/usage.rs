//! Usage that a provider reports, in one report or several.

use endstop_price::{
    MAX_COUNT, ReportedUsage, Unit, UsageCounts, UsageShape, billed_cost, context_of, detect_shape,
    read_usage,
};
use serde_json::{Map, Value};

use crate::json::Raw;
use crate::limits::MAX_USAGE_REPORT;

/// The reports of one response so far.
#[derive(Debug)]
pub(crate) struct UsageTally {
    shape: UsageShape,
    /// An object as a response has it: the reports merged into one as `usage`, and the tier next to it.
    around: Value,
    service_tier: Option<String>,
    last: String,
    /// How often tools ran at the provider that cost by the run, unless a report has the number.
    runs: Vec<(Unit, u64)>,
}

impl UsageTally {
    /// Nothing reported yet.
    pub(crate) fn new(shape: UsageShape) -> Self {
        Self {
            shape,
            around: Value::Null,
            service_tier: None,
            last: String::new(),
            runs: Vec::new(),
        }
    }

    /// Records a report and the tier next to it, and returns the known usage. `None` if that adds nothing new, or
    /// cannot be read.
    pub(crate) fn take(&mut self, report: Raw<'_>, service_tier: Raw<'_>) -> Option<ReportedUsage> {
        if let Some(tier) =
            service_tier.text().filter(|tier| self.service_tier.as_deref() != Some(tier))
        {
            self.service_tier = Some(tier.into_owned());
            self.last.clear();
        }
        let text = report.json();
        if !report.is_object() || text.len() > MAX_USAGE_REPORT || text == self.last {
            return None;
        }
        let report: Map<String, Value> = serde_json::from_str(text).ok()?;
        text.clone_into(&mut self.last);
        match self.around.get_mut("usage").and_then(Value::as_object_mut) {
            Some(known) => merge(known, report),
            None => {
                let usage = ("usage".to_owned(), Value::Object(report));
                self.around = Value::Object([usage].into_iter().collect());
            }
        }
        if let (Some(tier), Some(around)) = (&self.service_tier, self.around.as_object_mut()) {
            around.insert("service_tier".to_owned(), Value::from(tier.as_str()));
        }
        self.response()
    }

    /// Counts runs of a tool at the provider that are in the response and in no report: `of` gives their number so
    /// far for the one before. Returns the usage, if it is reported already.
    pub(crate) fn count_runs(
        &mut self,
        unit: &str,
        of: impl Fn(u64) -> u64,
    ) -> Option<ReportedUsage> {
        let unit = Unit::named(unit)?;
        match self.runs.iter_mut().find(|(known, _)| *known == unit) {
            Some((_, runs)) => *runs = of(*runs),
            None => self.runs.push((unit, of(0))),
        }
        self.response()
    }

    fn response(&self) -> Option<ReportedUsage> {
        let usage = self.around.get("usage")?;
        let others = || detect_shape(usage).and_then(|shape| read_usage(shape, usage).ok());
        let half = || read_usage(self.shape, &with_both_halves(usage)?).ok();
        let counts = read_usage(self.shape, usage).ok().or_else(others).or_else(half)?;
        let reasoning = Unit::named("output_reasoning_tokens").and_then(|unit| counts.get(unit));
        let mut counts = with_rest(with_reasoning(counts, usage, reasoning), usage);
        for (unit, runs) in &self.runs {
            let reported = counts.get(*unit).unwrap_or(0);
            // Beyond what can be counted it stays as it was reported.
            let _ = counts.set(*unit, reported.max(*runs));
        }
        let tokens = counts.token_usage();
        let (context, billed) = (context_of(&self.around), billed_cost(usage));
        Some(ReportedUsage { counts, tokens, context, reasoning, billed, is_preliminary: false })
    }
}

/// Input and output, as the APIs name them.
const HALVES: [[&str; 2]; 3] = [
    ["prompt_tokens", "completion_tokens"],
    ["input_tokens", "output_tokens"],
    ["promptTokenCount", "candidatesTokenCount"],
];

/// A report of input or output alone, with zero for the half that it lacks.
fn with_both_halves(usage: &Value) -> Option<Value> {
    let mut both = usage.as_object()?.clone();
    let is_told =
        |report: &Map<String, Value>, key: &str| report.get(key).is_some_and(Value::is_u64);
    let halves = HALVES.iter().find(|keys| keys.iter().any(|key| is_told(&both, key)))?;
    for key in halves {
        if both.get(*key).is_none_or(Value::is_null) {
            both.insert((*key).to_owned(), Value::from(0));
        }
    }
    Some(Value::Object(both))
}

fn total_of(usage: &Value) -> Option<u64> {
    let total = usage.get("total_tokens").or_else(|| usage.get("totalTokenCount"));
    total.and_then(Value::as_u64).filter(|total| *total < MAX_COUNT)
}

/// If a report has input or output alone, and a total, the other one is the rest.
fn with_rest(mut counts: UsageCounts, usage: &Value) -> UsageCounts {
    let tokens = counts.token_usage();
    let (input, output) = (tokens.total_input(), tokens.output);
    let Some(rest) = total_of(usage).and_then(|total| total.checked_sub(input.max(output))) else {
        return counts;
    };
    let unit = match (input, output) {
        (1.., 0) => Unit::named("output_tokens"),
        (0, 1..) => Unit::named("input_tokens"),
        _ => None,
    };
    if let Some(unit) = unit {
        // Below the total, which can be counted.
        let _ = counts.add(unit, rest);
    }
    counts
}

/// Some servers count reasoning outside the output; the total shows it.
fn with_reasoning(mut counts: UsageCounts, usage: &Value, reasoning: Option<u64>) -> UsageCounts {
    let total = total_of(usage);
    let unit = Unit::named("output_tokens");
    if let (Some(total), Some(reasoning), Some(unit)) = (total, reasoning, unit)
        && reasoning > 0
        && counts.token_usage().total().saturating_add(reasoning) == total
        && counts.add(unit, reasoning).is_err()
    {
        return counts;
    }
    counts
}

/// Later reports are of the whole call so far, but some leave out earlier values, or set zero.
fn merge(known: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        let says_nothing = value.is_null() || value.as_f64() == Some(0.0);
        match (known.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge(known, more),
            (Some(_), _) if says_nothing => {}
            (Some(known), value) => *known = value,
            (None, value) => drop(known.insert(key, value)),
        }
    }
}
