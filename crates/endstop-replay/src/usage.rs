//! The usage of recorded runs: by model, by tool, and by kind of run.

use std::collections::BTreeMap;

use endstop_core::Event;
use endstop_core::event::EventKind;
use endstop_core::units::{Cost, Money, TokenUsage};
use serde::{Deserialize, Serialize};

use super::limits::MAX_NAMES;
use super::money::{dollars, dollars_from, sum};

/// The name of what is beyond [`MAX_NAMES`].
const OTHERS: &str = "(others)";

/// The name of a model that the transcript does not name.
pub(super) const UNNAMED: &str = "(unnamed)";

/// The usage of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// By model that answered.
    pub models: BTreeMap<String, ModelUsage>,
    /// By tool.
    pub tools: BTreeMap<String, ToolUsage>,
    /// By kind of run: the agent's name if it is recorded, and the format otherwise.
    pub kinds: BTreeMap<String, KindUsage>,
}

/// The usage of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelUsage {
    /// Responses.
    pub calls: u64,
    /// Input tokens, cached and written ones included.
    pub input_tokens: u64,
    /// Input tokens read from a cache.
    pub cached_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Dollars, of the calls whose cost is known.
    #[serde(rename = "cost_usd", serialize_with = "dollars", deserialize_with = "dollars_from")]
    pub cost: Money,
    /// Responses whose cost is not known.
    pub unpriced_calls: u64,
}

/// The usage of one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolUsage {
    /// Calls that were made.
    pub calls: u64,
    /// The number of these that failed.
    pub failed: u64,
    /// Bytes of all results: what later requests carry along.
    pub result_bytes: u64,
}

/// The usage of one kind of run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KindUsage {
    /// Runs.
    pub runs: u64,
    /// Steps, sub-agents' included.
    pub steps: u64,
    /// Tokens, sub-agents' included.
    pub tokens: u64,
    /// Dollars, in calls with a known price.
    #[serde(rename = "cost_usd", serialize_with = "dollars", deserialize_with = "dollars_from")]
    pub cost: Money,
}

impl Usage {
    /// Counts an event of a run.
    pub(super) fn count(&mut self, event: &Event<'_>) {
        match &event.kind {
            EventKind::Reply { model, usage, cost, .. } => {
                tally(&mut self.models, model.unwrap_or(UNNAMED), |model| model.add(*usage, *cost));
            }
            EventKind::ToolBegin { tool } => tally(&mut self.tools, tool, |tool| tool.calls += 1),
            EventKind::ToolEnd { tool, result, failed, .. } => {
                tally(&mut self.tools, tool, |tool| {
                    tool.failed += u64::from(*failed);
                    tool.result_bytes = tool.result_bytes.saturating_add(result.len() as u64);
                });
            }
            _ => {}
        }
    }

    /// Counts a run that is over.
    pub(super) fn end_run(&mut self, kind: &str, run: &KindUsage) {
        tally(&mut self.kinds, kind, |kind| kind.merge(run));
    }

    /// Whether some names are counted together. Which, depends on the order in which they came up.
    pub(super) fn is_full(&self) -> bool {
        let most = self.models.len().max(self.tools.len()).max(self.kinds.len());
        most > MAX_NAMES
    }

    /// Adds what other runs used.
    pub(super) fn merge(&mut self, other: &Self) {
        for (name, model) in &other.models {
            tally(&mut self.models, name, |known| known.merge(model));
        }
        for (name, tool) in &other.tools {
            tally(&mut self.tools, name, |known| known.merge(tool));
        }
        for (name, kind) in &other.kinds {
            tally(&mut self.kinds, name, |known| known.merge(kind));
        }
    }
}

impl ModelUsage {
    fn add(&mut self, usage: Option<TokenUsage>, cost: Option<Cost>) {
        let usage = usage.unwrap_or_default();
        let (cost, unpriced_calls) = match cost {
            Some(Cost::Known(money)) => (money, 0),
            _ => (Money::ZERO, 1),
        };
        self.merge(&Self {
            calls: 1,
            input_tokens: usage.total_input(),
            cached_tokens: usage.cache_read,
            output_tokens: usage.output,
            cost,
            unpriced_calls,
        });
    }

    fn merge(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost = sum(self.cost, other.cost);
        self.unpriced_calls = self.unpriced_calls.saturating_add(other.unpriced_calls);
    }
}

impl ToolUsage {
    fn merge(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.failed = self.failed.saturating_add(other.failed);
        self.result_bytes = self.result_bytes.saturating_add(other.result_bytes);
    }
}

impl KindUsage {
    fn merge(&mut self, other: &Self) {
        self.runs = self.runs.saturating_add(other.runs);
        self.steps = self.steps.saturating_add(other.steps);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost = sum(self.cost, other.cost);
    }
}

/// Counts under that name, or under the others once there are too many names. A known name costs no
/// allocation.
fn tally<T: Default>(entries: &mut BTreeMap<String, T>, name: &str, count: impl FnOnce(&mut T)) {
    if let Some(known) = entries.get_mut(name) {
        return count(known);
    }
    let name = if entries.len() < MAX_NAMES { name } else { OTHERS };
    count(entries.entry(name.to_owned()).or_default());
}

#[cfg(test)]
mod tests;
