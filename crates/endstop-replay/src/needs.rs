//! The data that a rule needs to be tested, and that a format supplies.
//!
//! A rule on something that a format does not record is not testable for its runs: it is counted as
//! such and never stops one (docs/semantics.md, section 2).
//!
//! A model without a price is different: it stops a money rule as it would in a live run. Only a format that records
//! no money at all makes the rule not testable.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use endstop_core::condition::{Condition, Fact, GaugeId, Temporal, Window};
use endstop_core::policy::PolicyError;
use endstop_core::probe::Probes;
use endstop_core::{Policy, Program};

use endstop_transcript::{Format, Supplies};

/// The data that a format has to supply for the condition to be tested; the rest is false.
pub(crate) fn needs(condition: &Condition) -> Supplies {
    let mut needed = Supplies::default();
    add_needs(condition, &mut needed);
    needed
}

/// Recursion is bounded by the depth that a policy may have.
fn add_needs(condition: &Condition, needed: &mut Supplies) {
    match condition {
        Condition::Compare(comparison) => add_gauge(comparison.gauge.id, needed),
        Condition::Fact(fact) => add_fact(fact, needed),
        Condition::Temporal(
            Temporal::Count { window: Some(Window::Time(_)), .. }
            | Temporal::Within { window: Window::Time(_), .. },
        ) => needed.time = true,
        _ => {}
    }
    condition.parts().into_iter().for_each(|part| add_needs(part, needed));
}

const fn add_gauge(gauge: GaugeId, needed: &mut Supplies) {
    match gauge {
        GaugeId::Tokens
        | GaugeId::InputTokens
        | GaugeId::OutputTokens
        | GaugeId::CachedTokens
        | GaugeId::ContextTokens => needed.tokens = true,
        GaugeId::Cost => needed.money = true,
        GaugeId::Elapsed | GaugeId::Active | GaugeId::Idle | GaugeId::Now => needed.time = true,
        GaugeId::ToolErrors => needed.tool_failures = true,
        GaugeId::Errors => {
            needed.tool_failures = true;
            needed.retries = true;
        }
        GaugeId::Attempts | GaugeId::Retries => needed.retries = true,
        GaugeId::Subagents | GaugeId::Depth => needed.subagents = true,
        GaugeId::NextCost | GaugeId::Quota | GaugeId::Fact | GaugeId::Probe | GaugeId::Handoffs => {
            needed.interventions = true;
        }
        GaugeId::Steps
        | GaugeId::ToolCalls
        | GaugeId::Messages
        | GaugeId::Repeats
        | GaugeId::Cycles
        | GaugeId::NoProgress
        | GaugeId::Stale => {}
    }
}

const fn add_fact(fact: &Fact, needed: &mut Supplies) {
    match fact {
        Fact::Finished(_) => needed.finish = true,
        Fact::ToolFailed(_) => needed.tool_failures = true,
        Fact::Errored => {
            needed.tool_failures = true;
            needed.retries = true;
        }
        Fact::HandedOff(_) | Fact::Signal(_) | Fact::Cancelled => needed.interventions = true,
        Fact::Said { .. }
        | Fact::Matches(_)
        | Fact::NearDuplicate
        | Fact::Called(_)
        | Fact::NoToolCalls => {}
    }
}

/// Whether a format supplies all that is needed.
const fn covers(supplied: Supplies, needed: Supplies) -> bool {
    (supplied.tokens || !needed.tokens)
        && (supplied.money || !needed.money)
        && (supplied.time || !needed.time)
        && (supplied.tool_failures || !needed.tool_failures)
        && (supplied.retries || !needed.retries)
        && (supplied.finish || !needed.finish)
        && (supplied.subagents || !needed.subagents)
        && (supplied.interventions || !needed.interventions)
}

/// A compiled policy for the runs of formats that supply the same things, and the rules left out.
#[derive(Debug)]
pub(crate) struct Testable {
    pub(crate) program: Arc<Program>,
    pub(crate) left_out: Vec<String>,
}

/// The policy compiled once for each format.
#[derive(Debug)]
pub(crate) struct Programs {
    policy: Policy,
    probes: Probes,
    needs: Vec<Supplies>,
    compiled: Mutex<BTreeMap<&'static str, Arc<Testable>>>,
    whole: Arc<Testable>,
}

impl Programs {
    pub(crate) fn new(policy: &Policy, probes: &Probes) -> Result<Self, PolicyError> {
        let whole =
            Testable { program: Arc::new(Program::new(policy, probes)?), left_out: Vec::new() };
        Ok(Self {
            policy: policy.clone(),
            probes: probes.clone(),
            needs: policy.rules.iter().map(|rule| needs(&rule.condition)).collect(),
            compiled: Mutex::new(BTreeMap::new()),
            whole: Arc::new(whole),
        })
    }

    /// The rules that can be tested on the runs of a format.
    pub(crate) fn testable(&self, format: &Format) -> Arc<Testable> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(compiled.entry(format.id()).or_insert_with(|| self.compile(format.supplies())))
    }

    fn compile(&self, supplied: Supplies) -> Arc<Testable> {
        let can = |needed: &Supplies| covers(supplied, *needed);
        if self.needs.iter().all(can) {
            return Arc::clone(&self.whole);
        }
        let mut policy = self.policy.clone();
        let mut left_out = Vec::new();
        let mut needs = self.needs.iter();
        policy.rules.retain(|rule| {
            let testable = needs.next().is_some_and(can);
            if !testable {
                left_out.push(rule.id.clone());
            }
            testable
        });
        // A part of a policy that compiles compiles too.
        match Program::new(&policy, &self.probes) {
            Ok(program) => Arc::new(Testable { program: Arc::new(program), left_out }),
            Err(_) => Arc::clone(&self.whole),
        }
    }
}

#[cfg(test)]
mod tests;
