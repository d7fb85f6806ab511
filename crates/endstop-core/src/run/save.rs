//! Saving a run after any event, and restoring it in another process. The rest of the events then give
//! the same decisions, byte for byte.
//!
//! A run may be restored under a changed policy (a raised cap keeps all counters): what the old policy
//! did not measure is unknown, not zero.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use thiserror::Error;

use super::{Ended, Raised, Run};
use crate::meter::project::Ahead;
use crate::meter::state::{load_meter, save_meter};
use crate::policy::{Action, Program};
use crate::probe::MAX_PROBE_STATE;
use crate::units::{Cost, Money};
use crate::wire::v1::state::{self as wire, RunState, VERSION};

/// Longest saved run that is read, in bytes.
pub const MAX_STATE: usize = 16 * 1024 * 1024;

/// Why a run cannot be saved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SaveError {
    /// A closure's state lives in this process only.
    #[error("the probe `{0}` is a closure and cannot be saved")]
    LocalProbe(String),
    /// A probe's state is larger than [`MAX_PROBE_STATE`].
    #[error(
        "the state of the probe `{name}` has {bytes} bytes; at most {MAX_PROBE_STATE} are saved"
    )]
    ProbeTooLarge {
        /// The probe.
        name: String,
        /// Its size.
        bytes: usize,
    },
}

/// Why a saved run cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The text is not a saved run.
    #[error("not a saved run: {0}")]
    Json(String),
    /// It is too long.
    #[error("the saved run has {0} bytes; at most {MAX_STATE} are read")]
    TooLarge(usize),
    /// It was written by a newer version.
    #[error("the saved run has version {0}; this program reads up to {VERSION}")]
    Version(u32),
    /// A probe does not read its state.
    #[error("the probe `{0}` does not read its saved state")]
    Probe(String),
}

impl Run {
    /// The run as JSON text. O(state), which the policy bounds.
    ///
    /// # Errors
    /// If a probe is a closure, or its state is too large.
    pub fn save(&self) -> Result<String, SaveError> {
        let state = self.to_state()?;
        Ok(serde_json::to_string(&state).unwrap_or_default())
    }

    /// The run as a wire value.
    ///
    /// # Errors
    /// As [`Run::save`].
    pub fn to_state(&self) -> Result<RunState, SaveError> {
        let mut state = RunState { status: self.status, ..RunState::default() };
        save_meter(&self.program, &self.meter, &mut state);
        for (name, probe) in self.program.probe_names.iter().zip(&self.meter.probes) {
            let text = probe.save().ok_or_else(|| SaveError::LocalProbe(name.clone()))?;
            if text.len() > MAX_PROBE_STATE {
                return Err(SaveError::ProbeTooLarge { name: name.clone(), bytes: text.len() });
            }
            state.probes.insert(name.clone(), text);
        }
        state.raised = self
            .raised
            .iter()
            .map(|raised| wire::RaisedState {
                signal: raised.signal.clone(),
                is_final: raised.is_final,
            })
            .collect();
        state.overrides = wire::OverrideState {
            requested_by: self.overrides.requested_by.clone(),
            answered: self.ids_where(&self.overrides.answered),
            in_row: self.counts_by_id(&self.overrides.in_row),
            steps: self.counts_by_id(&self.overrides.steps),
            history: self.overrides.history.clone(),
            forgotten: self.overrides.forgotten,
        };
        state.finishing = self.finishing.and_then(|rule| self.rule_id(rule));
        state.finish_signal = self.finish_signal.clone();
        state.ahead = self.ahead.map(|ahead| wire::AheadState {
            input_tokens: ahead.input_tokens,
            output_tokens: ahead.output_tokens,
            picos: known_picos(ahead.cost),
        });
        state.warned = self.ids_where(&self.warned);
        state.disarmed = self.ids_where(&self.disarmed);
        state.caps = self.caps();
        state.next_cost =
            self.shown_next_cost().map(|cost| wire::NextCostState { picos: known_picos(cost) });
        state.retries_in_row = self.retries_in_row;
        state.ended = self.ended.as_ref().map(|_| self.trip_record());
        state.ended_naturally = self.ended.as_ref().is_some_and(|ended| ended.natural);
        Ok(state)
    }

    /// A run from its saved text, under `program`, which may be that of a changed policy.
    ///
    /// # Errors
    /// If the text is not a saved run, is too long or too new, or a probe does not read its state.
    pub fn restore(program: Arc<Program>, text: &str) -> Result<Self, RestoreError> {
        if text.len() > MAX_STATE {
            return Err(RestoreError::TooLarge(text.len()));
        }
        let state: RunState =
            serde_json::from_str(text).map_err(|error| RestoreError::Json(error.to_string()))?;
        Self::from_state(program, state)
    }

    /// As [`Run::restore`], from the wire value.
    ///
    /// # Errors
    /// As [`Run::restore`].
    pub fn from_state(program: Arc<Program>, state: RunState) -> Result<Self, RestoreError> {
        if state.version == 0 || state.version > VERSION {
            return Err(RestoreError::Version(state.version));
        }
        let mut run = Self::new(program);
        let program = Arc::clone(&run.program);
        for cap in &state.caps {
            run.load_cap(cap);
        }
        for (index, name) in program.probe_names.iter().enumerate() {
            let Some(saved) = state.probes.get(name) else { continue };
            let probe = program
                .probes
                .start(name, Some(saved))
                .ok_or_else(|| RestoreError::Probe(name.clone()))?;
            if let Some(slot) = run.meter.probes.get_mut(index) {
                *slot = probe;
            }
        }
        load_meter(&program, &mut run.meter, &state);
        if let Some(next_cost) = &state.next_cost {
            let cost = next_cost.picos.map(|picos| Cost::Known(Money::from_picos(picos)));
            run.expose_next_cost(Some(cost.unwrap_or(Cost::Unpriced)));
            run.meter.evaluate(&program);
        }
        run.status = state.status;
        run.raised = state
            .raised
            .into_iter()
            .take(super::MAX_RAISED)
            .map(|raised| Raised { signal: raised.signal, is_final: raised.is_final })
            .collect();
        run.overrides.requested_by = state.overrides.requested_by;
        run.overrides.history = state.overrides.history;
        run.overrides.history.truncate(super::overrides::MAX_HISTORY);
        run.overrides.forgotten = state.overrides.forgotten;
        let index_of = |id: &String| program.policy.rules.iter().position(|rule| rule.id == *id);
        let flag = |flags: &mut [bool], ids: &[String]| {
            for index in ids.iter().filter_map(index_of) {
                flags.get_mut(index).into_iter().for_each(|flag| *flag = true);
            }
        };
        flag(&mut run.overrides.answered, &state.overrides.answered);
        flag(&mut run.warned, &state.warned);
        flag(&mut run.disarmed, &state.disarmed);
        for (id, count) in &state.overrides.in_row {
            let slot = index_of(id).and_then(|index| run.overrides.in_row.get_mut(index));
            slot.into_iter().for_each(|slot| *slot = *count);
        }
        for (id, steps) in &state.overrides.steps {
            let slot = index_of(id).and_then(|index| run.overrides.steps.get_mut(index));
            slot.into_iter().for_each(|slot| *slot = *steps);
        }
        run.finishing = state.finishing.as_ref().and_then(index_of);
        run.finish_signal = state.finish_signal;
        run.ahead = state.ahead.filter(|_| program.has_action(Action::Finish)).map(|ahead| Ahead {
            input_tokens: ahead.input_tokens,
            output_tokens: ahead.output_tokens,
            cost: ahead.picos.map(|picos| Cost::Known(Money::from_picos(picos))),
        });
        run.retries_in_row = state.retries_in_row;
        run.ended = state.ended.map(|verdict| Ended {
            verdict: Some(Box::new(verdict)),
            natural: state.ended_naturally,
        });
        Ok(run)
    }

    fn rule_id(&self, rule: usize) -> Option<String> {
        self.program.policy.rules.get(rule).map(|rule| rule.id.clone())
    }

    fn ids_where(&self, flags: &[bool]) -> Vec<String> {
        let set = flags.iter().enumerate().filter(|(_, flag)| **flag);
        set.filter_map(|(rule, _)| self.rule_id(rule)).collect()
    }

    fn counts_by_id<N: Copy + Default + PartialEq>(&self, counts: &[N]) -> BTreeMap<String, N> {
        let counts = counts.iter().enumerate().filter(|(_, count)| **count != N::default());
        counts.filter_map(|(rule, count)| Some((self.rule_id(rule)?, *count))).collect()
    }

    fn caps(&self) -> Vec<wire::CapState> {
        let pairs = self.meter.compares.iter().zip(&self.program.compares);
        let changed = pairs.filter(|(now, original)| now != original);
        let caps = changed.filter_map(|(now, _)| {
            let gauge = self.program.gauges.get(now.gauge)?.gauge.as_ref()?;
            Some(wire::CapState {
                rule: self.rule_id(now.rule)?,
                gauge: gauge.to_string(),
                limit: now.range.lo,
            })
        });
        caps.collect()
    }

    fn load_cap(&mut self, cap: &wire::CapState) {
        let Some(rule) = self.program.policy.rules.iter().position(|rule| rule.id == cap.rule)
        else {
            return;
        };
        for compare in self.meter.compares.iter_mut().filter(|compare| compare.rule == rule) {
            let gauge = self.program.gauges.get(compare.gauge).and_then(|slot| slot.gauge.as_ref());
            let is_it = gauge.is_some_and(|gauge| gauge.to_string() == cap.gauge);
            // A policy that was itself raised above the cap wins: a restore never lowers a limit.
            if is_it && compare.range.is_lower_bound() && compare.range.lo < cap.limit {
                compare.range.lo = cap.limit;
                compare.range.span = u64::MAX - cap.limit;
            }
        }
    }
}

const fn known_picos(cost: Option<Cost>) -> Option<u64> {
    match cost {
        Some(Cost::Known(money)) => Some(money.picos()),
        _ => None,
    }
}
