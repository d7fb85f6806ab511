//! The first pass: every gauge, fact and operator of the policy, so that slots can be laid out.

use alloc::string::String;
use alloc::vec::Vec;

use super::rows::{CLASSES, Class, GaugeSlot, Read};
use crate::condition::gauge::{quota_fact, reset_fact};
use crate::condition::{Condition, Fact, Gauge, GaugeId, Temporal, Window};
use crate::counter::Counter;
use crate::policy::Rule;
use crate::table::{Index, NumberIx, OpIx};

/// The leaves of all rules, gathered first so that slots can be laid out: comparisons, then facts, then
/// folds.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) compares: usize,
    pub(super) gauges: Vec<GaugeSlot>,
    pub(super) facts: Vec<Fact>,
    pub(super) tools: Vec<String>,
    pub(super) numbers: Vec<String>,
    pub(super) probes: Vec<String>,
    pub(super) ops: usize,
}

impl Tables {
    pub(super) fn count(&mut self, condition: &Condition) {
        match condition {
            Condition::Compare(comparison) => {
                self.compares += 1;
                self.add_gauge(&comparison.gauge);
            }
            Condition::Fact(fact) if !self.facts.contains(fact) => self.facts.push(fact.clone()),
            Condition::Temporal(temporal) => {
                // Inner operators are numbered first, as `Builder` meets them.
                for part in temporal.parts() {
                    self.count(part);
                }
                self.add_op(temporal);
                return;
            }
            _ => {}
        }
        for part in condition.parts() {
            self.count(part);
        }
    }

    /// Adds the times of the resets that a pause rule waits for.
    pub(super) fn add_resets(&mut self, rule: &Rule) {
        if rule.resumes_at_reset {
            for window in rule.windows() {
                index_of::<NumberIx>(&mut self.numbers, reset_fact(window));
            }
        }
    }

    fn add_op(&mut self, temporal: &Temporal) {
        let class = match temporal {
            Temporal::Streak { .. }
            | Temporal::Count { window: None | Some(Window::Steps(_)), .. } => Some(Class::StepEnd),
            Temporal::Count { window: Some(Window::Time(_)), .. } => Some(Class::Time),
            _ => None,
        };
        if let Some(class) = class {
            self.compares += 1;
            self.gauges.push(GaugeSlot { class, read: Read::Op(OpIx::new(self.ops)), gauge: None });
        }
        self.ops += 1;
    }

    fn add_gauge(&mut self, gauge: &Gauge) {
        if self.gauges.iter().any(|slot| slot.gauge.as_ref() == Some(gauge)) {
            return;
        }
        let (class, read) = self.source(gauge);
        self.gauges.push(GaugeSlot { class, read, gauge: Some(gauge.clone()) });
    }

    fn source(&mut self, gauge: &Gauge) -> (Class, Read) {
        let counter = |counter: Counter| Read::Counter { counter, own: gauge.own };
        // Only gauges that have an argument ask for it; one without it is called by the empty name.
        let name = gauge.argument.clone().unwrap_or_default();
        match gauge.id {
            GaugeId::Steps => (Class::Steps, counter(Counter::Steps)),
            GaugeId::Attempts => (Class::Attempts, counter(Counter::Attempts)),
            GaugeId::Retries => (Class::Retries, counter(Counter::Retries)),
            GaugeId::ToolCalls if gauge.argument.is_some() => (
                Class::ToolCalls,
                Read::Tool { tool: index_of(&mut self.tools, name), own: gauge.own },
            ),
            GaugeId::ToolCalls => (Class::ToolCalls, counter(Counter::ToolCalls)),
            GaugeId::ToolErrors => (Class::ToolErrors, counter(Counter::ToolErrors)),
            GaugeId::Errors => (Class::Errors, counter(Counter::Errors)),
            GaugeId::Messages => (Class::Messages, counter(Counter::Messages)),
            GaugeId::Tokens => (Class::Settled, counter(Counter::Tokens)),
            GaugeId::InputTokens => (Class::Settled, counter(Counter::InputTokens)),
            GaugeId::OutputTokens => (Class::Settled, counter(Counter::OutputTokens)),
            GaugeId::CachedTokens => (Class::Settled, counter(Counter::CachedTokens)),
            GaugeId::ContextTokens => (Class::Settled, Read::Context),
            GaugeId::Cost => (Class::Settled, counter(Counter::Cost)),
            GaugeId::NextCost => (Class::NextCost, Read::NextCost),
            GaugeId::Elapsed => (Class::Time, Read::Elapsed),
            GaugeId::Active => (Class::Time, Read::Active),
            GaugeId::Idle => (Class::Time, Read::Idle),
            GaugeId::Now => (Class::Time, Read::Now),
            GaugeId::Depth => (Class::Depth, Read::Depth),
            GaugeId::Subagents => (Class::Subagents, counter(Counter::Subagents)),
            GaugeId::Handoffs => (Class::Handoffs, counter(Counter::Handoffs)),
            GaugeId::Repeats => (Class::Live, Read::Repeats),
            GaugeId::Cycles => (Class::Live, Read::Cycles),
            GaugeId::NoProgress => (Class::Live, Read::NoProgress),
            GaugeId::Stale => (Class::Live, Read::Stale),
            GaugeId::Quota => {
                (Class::Live, Read::Reported(index_of(&mut self.numbers, quota_fact(&name))))
            }
            GaugeId::Fact => (Class::Live, Read::Reported(index_of(&mut self.numbers, name))),
            GaugeId::Probe => (Class::Live, Read::Probe(index_of(&mut self.probes, name))),
        }
    }

    pub(super) fn sort_gauges(&mut self) {
        self.gauges.sort_by_key(|slot| slot.class);
    }

    pub(super) fn ranges(&self) -> [core::ops::Range<usize>; CLASSES] {
        core::array::from_fn(|class| {
            let start = self.gauges.partition_point(|slot| (slot.class as usize) < class);
            let end = self.gauges.partition_point(|slot| (slot.class as usize) <= class);
            start..end
        })
    }
}

fn index_of<I: Index>(names: &mut Vec<String>, name: String) -> I {
    let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    });
    I::new(place)
}
