//! Calls of recorded runs, and what they add up to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use endstop::core::Event;
use endstop::core::event::EventKind;
use endstop::core::units::{Cost, Money, MoneyError, TokenUsage};
use endstop::runtime::history::RecordedCall;
use endstop_gateway::control_source::{SpendReport, SpendRow, SpendTotals};
use endstop_transcript::{RunFooter, RunHeader, RunSink, Wants, Warning};

/// The name of a model that a transcript does not name.
pub(super) const UNNAMED: &str = "(unnamed)";

/// A model call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call {
    /// Milliseconds since 1970; 0 if the transcript has no times.
    pub(super) wall: u64,
    pub(super) model: String,
    usage: Option<[u64; 4]>,
    /// `None` without a price.
    cost: Option<Money>,
}

/// A use of a tool.
#[derive(Clone, Debug)]
struct ToolUse {
    wall: u64,
    tool: String,
    amounts: ToolAmounts,
}

/// The calls of one run.
#[derive(Debug, Default)]
pub(super) struct RunCalls {
    pub(super) id: String,
    pub(super) project: String,
    calls: Vec<Call>,
    tools: Vec<ToolUse>,
}

/// Reads the calls of all runs of a transcript.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) runs: Vec<RunCalls>,
    pub(super) warnings: Vec<Warning>,
}

impl Reader {
    fn call(
        &mut self,
        wall: u64,
        model: Option<&str>,
        usage: Option<TokenUsage>,
        cost: Option<Cost>,
    ) {
        let Some(run) = self.runs.last_mut() else { return };
        let usage =
            usage.map(|it| [it.total_input(), it.cache_read, it.output, u64::from(it.output > 0)]);
        let cost = match cost {
            Some(Cost::Known(money)) => Some(money),
            _ => None,
        };
        run.calls.push(Call { wall, model: model.unwrap_or(UNNAMED).to_owned(), usage, cost });
    }

    fn tool(&mut self, wall: u64, tool: &str, amounts: ToolAmounts) {
        if let Some(run) = self.runs.last_mut() {
            run.tools.push(ToolUse { wall, tool: tool.to_owned(), amounts });
        }
    }
}

impl RunSink for Reader {
    fn begin(&mut self, run: &RunHeader<'_>) {
        let project = Path::new(run.file).parent().and_then(Path::file_name);
        let project = project.map(|name| name.to_string_lossy().into_owned());
        self.runs.push(RunCalls {
            id: run.id.to_owned(),
            project: project.unwrap_or_else(|| run.format.to_owned()),
            ..RunCalls::default()
        });
    }

    fn event(&mut self, event: &Event<'_>) {
        let wall = event.wall.0;
        match &event.kind {
            EventKind::Reply { model, usage, cost, .. } => self.call(wall, *model, *usage, *cost),
            // A failed attempt that cost nothing does not count as a call.
            EventKind::AttemptFailed { usage, cost } if usage.is_some() || cost.is_some() => {
                self.call(wall, None, *usage, *cost);
            }
            EventKind::ToolEnd { tool, result, failed, .. } => {
                let (failed, result_bytes) = (u64::from(*failed), result.len() as u64);
                let amounts = ToolAmounts { calls: 1, failed, result_bytes, cost: Money::ZERO };
                self.tool(wall, tool, amounts);
            }
            EventKind::ToolCost { tool, cost } => {
                self.tool(wall, tool, ToolAmounts { cost: *cost, ..ToolAmounts::default() });
            }
            _ => {}
        }
    }

    fn refused(&mut self, _: &Event<'_>) {}

    fn end(&mut self, _: &RunFooter<'_>) {}

    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    fn wants(&self) -> Wants {
        Wants { words: false, results: false }
    }
}

/// The total of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    pub(super) calls: u64,
    /// Tokens of the input, cached ones included.
    pub(super) input: u64,
    pub(super) cached: u64,
    pub(super) output: u64,
    pub(super) cost: Money,
    unpriced_calls: u64,
}

impl Amounts {
    fn of(call: &Call) -> Self {
        let [input, cached, output, _] = call.usage.unwrap_or_default();
        let cost = call.cost.unwrap_or_default();
        let unpriced_calls = u64::from(call.cost.is_none());
        Self { calls: 1, input, cached, output, cost, unpriced_calls }
    }

    /// A tool call with a cost does not count as a model call.
    fn of_recorded(call: &RecordedCall) -> Self {
        let RecordedCall { input, cached, output, cost, .. } = *call;
        let calls = u64::from(call.tool.is_none());
        let unpriced_calls = u64::from(!call.is_priced);
        Self { calls, input, cached, output, cost, unpriced_calls }
    }

    fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.input = self.input.saturating_add(other.input);
        self.cached = self.cached.saturating_add(other.cached);
        self.output = self.output.saturating_add(other.output);
        self.unpriced_calls = self.unpriced_calls.saturating_add(other.unpriced_calls);
        self.cost = self.cost.checked_add(other.cost).unwrap_or(self.cost);
    }

    pub(super) fn to_totals(&self) -> SpendTotals {
        SpendTotals {
            calls: self.calls,
            input_tokens: self.input,
            cached_tokens: self.cached,
            output_tokens: self.output,
            tokens: self.input.saturating_add(self.output),
            cost_usd: self.cost.to_decimal(),
            unpriced_calls: self.unpriced_calls,
        }
    }

    fn of_totals(totals: &SpendTotals) -> Result<Self, MoneyError> {
        Ok(Self {
            calls: totals.calls,
            input: totals.input_tokens,
            cached: totals.cached_tokens,
            output: totals.output_tokens,
            cost: totals.cost_usd.parse()?,
            unpriced_calls: totals.unpriced_calls,
        })
    }
}

/// The total of uses of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolAmounts {
    pub(super) calls: u64,
    pub(super) failed: u64,
    /// Bytes of all results: what later requests carry along.
    pub(super) result_bytes: u64,
    /// Money of the tool's own.
    pub(super) cost: Money,
}

/// The totals of all runs.
#[derive(Debug, Default)]
pub(super) struct SpendSummary {
    pub(super) rows: BTreeMap<String, Amounts>,
    pub(super) tools: BTreeMap<String, ToolAmounts>,
    pub(super) total: Amounts,
    /// Runs that were read.
    pub(super) runs: u64,
    /// Calls that another run had before.
    pub(super) duplicates: u64,
    /// Calls without a price, by model.
    pub(super) unpriced: BTreeMap<String, u64>,
    /// Calls with an amount that no provider and no tool confirmed, and the sum of these amounts.
    pub(super) unconfirmed: (u64, Money),
    /// Calls that are in more than one row.
    pub(super) in_many_rows: u64,
    /// The names of the runs of recorded calls.
    recorded_runs: HashSet<String>,
    /// The run that had a call first. A session that is resumed copies the calls of the one before with their times, so a
    /// call of the same millisecond, model and tokens in another run is the same call.
    first: HashMap<Call, u64>,
}

impl SpendSummary {
    /// The totals of a report, with its rows under the names that `name` gives them.
    ///
    /// # Errors
    /// Returns an error if an amount of it is none.
    pub(super) fn of_report(
        report: &SpendReport,
        name: impl Fn(&SpendRow) -> String,
    ) -> Result<Self, MoneyError> {
        let rows = report.rows.iter().map(|row| {
            let amounts = Amounts::of_totals(&row.totals);
            amounts.map(|amounts| (name(row), amounts))
        });
        Ok(Self {
            rows: rows.collect::<Result<_, _>>()?,
            total: Amounts::of_totals(&report.total)?,
            runs: report.runs,
            duplicates: report.duplicates,
            unpriced: report.unpriced_models.clone(),
            unconfirmed: (report.unconfirmed_calls, report.unconfirmed_usd.parse()?),
            in_many_rows: report.calls_in_several_rows,
            ..Self::default()
        })
    }

    /// Adds a call of the history to each of these rows, and once to the total.
    pub(super) fn add_recorded(&mut self, call: &RecordedCall, rows: Vec<String>) {
        let amounts = Amounts::of_recorded(call);
        self.in_many_rows = self.in_many_rows.saturating_add(u64::from(rows.len() > 1));
        for row in rows {
            self.rows.entry(row).or_default().add(&amounts);
        }
        self.total.add(&amounts);
        if !self.recorded_runs.contains(&call.run) {
            self.recorded_runs.insert(call.run.clone());
            self.runs = self.runs.saturating_add(1);
        }
        if !call.is_priced {
            let model = call.model.clone().unwrap_or_else(|| UNNAMED.to_owned());
            *self.unpriced.entry(model).or_default() += 1;
        }
        if !call.unconfirmed.is_zero() {
            let (calls, sum) = self.unconfirmed;
            self.unconfirmed = (calls.saturating_add(1), sum.saturating_add(call.unconfirmed));
        }
    }

    /// Adds the calls of a run that were made at `begin` or later.
    pub(super) fn add(
        &mut self,
        run: &RunCalls,
        begin: Option<u64>,
        key: impl Fn(&Call) -> String,
    ) {
        self.runs = self.runs.saturating_add(1);
        let is_late = |wall: u64| begin.is_none_or(|begin| wall >= begin);
        for call in run.calls.iter().filter(|call| is_late(call.wall)) {
            let is_comparable = call.wall > 0 && call.usage.is_some();
            if is_comparable && *self.first.entry(call.clone()).or_insert(self.runs) != self.runs {
                self.duplicates = self.duplicates.saturating_add(1);
                continue;
            }
            let amounts = Amounts::of(call);
            self.rows.entry(key(call)).or_default().add(&amounts);
            self.total.add(&amounts);
            if call.cost.is_none() {
                *self.unpriced.entry(call.model.clone()).or_default() += 1;
            }
        }
        for used in run.tools.iter().filter(|used| is_late(used.wall)) {
            let tool = self.tools.entry(used.tool.clone()).or_default();
            tool.calls = tool.calls.saturating_add(used.amounts.calls);
            tool.failed = tool.failed.saturating_add(used.amounts.failed);
            tool.result_bytes = tool.result_bytes.saturating_add(used.amounts.result_bytes);
            tool.cost = tool.cost.checked_add(used.amounts.cost).unwrap_or(tool.cost);
        }
    }
}

#[cfg(test)]
mod tests;
