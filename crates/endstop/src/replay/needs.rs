//! What a rule needs to be tested, and what a format supplies.
//!
//! A rule on something that a format does not record is not testable for its runs: it is counted as
//! such and never stops one (01-semantics section 2).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use endstop_core::condition::{Condition, Fact, GaugeId, Temporal, Window};
use endstop_core::policy::PolicyError;
use endstop_core::probe::Probes;
use endstop_core::{Policy, Program};

use crate::import::Supplies;

/// What the condition looks at.
pub(crate) fn needs(condition: &Condition) -> Supplies {
    let of_parts = condition.parts().into_iter().map(needs).fold(Supplies::NONE, Supplies::with);
    let own = match condition {
        Condition::Compare(comparison) => of_gauge(comparison.gauge.id),
        Condition::Fact(fact) => of_fact(fact),
        Condition::Temporal(
            Temporal::Count { window: Some(Window::Time(_)), .. }
            | Temporal::Within { window: Window::Time(_), .. },
        ) => Supplies::TIME,
        _ => Supplies::NONE,
    };
    of_parts.with(own)
}

const fn of_gauge(gauge: GaugeId) -> Supplies {
    match gauge {
        GaugeId::Tokens
        | GaugeId::InputTokens
        | GaugeId::OutputTokens
        | GaugeId::CachedTokens
        | GaugeId::ContextTokens => Supplies::TOKENS,
        GaugeId::Cost => Supplies::MONEY,
        GaugeId::Elapsed | GaugeId::Active | GaugeId::Idle | GaugeId::Now => Supplies::TIME,
        GaugeId::Repeats | GaugeId::Cycles | GaugeId::NoProgress => Supplies::RESULTS,
        GaugeId::ToolErrors | GaugeId::Errors => Supplies::ERRORS,
        GaugeId::Subagents | GaugeId::Depth => Supplies::CHILDREN,
        // Only a running program knows these.
        GaugeId::NextCost
        | GaugeId::Fact
        | GaugeId::Probe
        | GaugeId::Handoffs
        | GaugeId::Attempts
        | GaugeId::Retries => Supplies::LIVE,
        GaugeId::Steps | GaugeId::ToolCalls | GaugeId::Messages => Supplies::NONE,
    }
}

const fn of_fact(fact: &Fact) -> Supplies {
    match fact {
        Fact::Said { .. } | Fact::Matches(_) | Fact::NearDuplicate => Supplies::TEXT,
        Fact::Finished(_) => Supplies::FINISH,
        Fact::ToolFailed(_) | Fact::Errored => Supplies::ERRORS,
        Fact::HandedOff(_) | Fact::Signal(_) | Fact::Cancelled => Supplies::LIVE,
        Fact::Called(_) | Fact::NoToolCalls => Supplies::NONE,
    }
}

/// A compiled policy for the runs of formats that supply the same things, and the rules left out.
#[derive(Debug)]
pub(crate) struct Testable {
    pub(crate) program: Arc<Program>,
    pub(crate) left_out: Vec<String>,
}

/// The policy compiled once for each set of things that formats supply.
#[derive(Debug)]
pub(crate) struct Programs {
    policy: Policy,
    probes: Probes,
    needs: Vec<Supplies>,
    compiled: Mutex<BTreeMap<Supplies, Arc<Testable>>>,
    whole: Arc<Testable>,
}

impl Programs {
    pub(crate) fn new(policy: &Policy, probes: &Probes) -> Result<Self, PolicyError> {
        let whole = Testable { program: Arc::new(Program::new(policy, probes)?), left_out: Vec::new() };
        Ok(Self {
            policy: policy.clone(),
            probes: probes.clone(),
            needs: policy.rules.iter().map(|rule| needs(&rule.condition)).collect(),
            compiled: Mutex::new(BTreeMap::new()),
            whole: Arc::new(whole),
        })
    }

    /// The rules that can be tested on what is supplied.
    pub(crate) fn testable(&self, supplies: Supplies) -> Arc<Testable> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(compiled.entry(supplies).or_insert_with(|| self.compile(supplies)))
    }

    fn compile(&self, supplies: Supplies) -> Arc<Testable> {
        let can = |needs: &Supplies| supplies.has(*needs);
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
mod tests {
    use endstop_core::expr::parse;

    use super::*;

    #[test]
    fn a_rule_needs_what_its_leaves_look_at() {
        for (text, expected) in [
            ("steps >= 3 or called(\"x\")", Supplies::NONE),
            ("cost >= $1 and tokens >= 3", Supplies::MONEY.with(Supplies::TOKENS)),
            ("streak(errored) >= 3", Supplies::ERRORS),
            ("count(called(\"x\"), 5m) >= 3", Supplies::TIME),
            ("not ever(said(\"x\"))", Supplies::TEXT),
            ("no_progress(3)", Supplies::RESULTS),
            ("fact(\"x\") >= 1", Supplies::LIVE),
        ] {
            assert_eq!(needs(&parse(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn rules_that_cannot_be_tested_are_left_out() {
        let policy = Policy::from_toml("[stop]\na = \"cost >= $1\"\nb = \"steps >= 3\"").unwrap();
        let programs = Programs::new(&policy, &Probes::new()).unwrap();
        let some = programs.testable(Supplies::TEXT);
        assert_eq!((some.left_out.as_slice(), some.program.policy().rules.len()), (&["a".to_owned()][..], 1));
        assert!(programs.testable(Supplies::MONEY).left_out.is_empty());
    }
}
