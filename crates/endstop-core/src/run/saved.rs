//! Saved runs: written after any event, restored in another process. The rest of the events then give the same
//! decisions, byte for byte.
//!
//! The form is `{version, names, state}`: the state as the run keeps it, and the names of the program's rows, so that
//! a run can continue under a changed policy. Operators over time are named by their text without the limit, so a
//! raised limit keeps all counters. A number that the old policy did not measure is unknown, with one exception:
//! `no_progress` starts at 0.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::ended::Ended;
use super::state::State;
use crate::directive::Status;
use crate::limits::{MAX_PROBE_STATE, MAX_STATE};
use crate::probe::{ProbeError, RunningProbes};
use crate::program::{Names, Program};

/// The version that is written.
pub const VERSION: u32 = 1;

/// A run as it is saved. Readers ignore keys that they do not know and take absent ones as empty.
///
/// [`Run::to_state`](super::Run::to_state) gives it, and [`Run::from_state`](super::Run::from_state) takes it:
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, Run, Status, condition::named::max_steps, probe::Probes};
/// use endstop_core::run::RunState;
///
/// # let program = Arc::new(Program::new(&Policy::from(max_steps(2)), &Probes::new())?);
/// let text = serde_json::to_string(&Run::new(program.clone()).to_state()?)?;
/// let state: RunState = serde_json::from_str(&text)?;
/// assert_eq!(state.status(), Status::Pending);
/// assert!(Run::from_state(program, state).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    version: u32,
    names: Names,
    state: State,
    /// The probes' states by name, each JSON text.
    probes: BTreeMap<String, String>,
}

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
    /// Its parts do not go together: it was changed after it was saved.
    #[error("the saved run is damaged: its `{0}` do not match its names")]
    Damaged(&'static str),
    /// A probe does not read its state.
    #[error("the probe `{0}` cannot read its saved state")]
    Probe(String),
}

impl RunState {
    /// The saved form of a state, which is that of a run under `program`.
    pub(super) fn new(
        program: &Program,
        mut state: State,
        running: &RunningProbes,
    ) -> Result<Self, SaveError> {
        let mut probes = BTreeMap::new();
        for (name, text) in running.saved() {
            let name = name.to_string();
            match text {
                None => return Err(SaveError::LocalProbe(name)),
                Some(text) if text.len() > MAX_PROBE_STATE => {
                    return Err(SaveError::ProbeTooLarge { name, bytes: text.len() });
                }
                Some(text) => drop(probes.insert(name, text)),
            }
        }
        state.meter = state.meter.into_saved(program);
        Ok(Self { version: VERSION, names: program.names().clone(), state, probes })
    }

    /// Reads a saved run.
    pub(super) fn read(text: &str) -> Result<Self, RestoreError> {
        if text.len() > MAX_STATE {
            return Err(RestoreError::TooLarge(text.len()));
        }
        serde_json::from_str(text).map_err(|error| RestoreError::Json(error.to_string()))
    }

    pub(super) fn to_json(&self) -> String {
        match serde_json::to_string(self) {
            Ok(text) => text,
            Err(error) => unreachable!("a state that was checked is plain data: {error}"),
        }
    }

    /// Returns the status.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.state.status
    }

    /// Returns whether the run has ended naturally, see [`Run::ended_by_itself`](super::Run::ended_by_itself).
    #[must_use]
    pub fn ended_by_itself(&self) -> bool {
        self.state.ended.as_ref().is_some_and(Ended::is_natural)
    }

    /// Lets a paused run continue: the next act is judged again, because the cause of the pause may be gone. A
    /// process that waited for an approval waits no longer. A pause from outside stays.
    pub fn go_on(&mut self) {
        if matches!(self.state.status, Status::Paused) {
            self.state.status = Status::InProgress;
        }
        self.state.meter.stop_waiting();
    }

    /// The state and the probes under a program, which may be that of another policy. Everything that came from
    /// outside is checked here.
    pub(super) fn into_parts(
        mut self,
        program: &Program,
    ) -> Result<(State, RunningProbes), RestoreError> {
        if self.version == 0 || self.version > VERSION {
            return Err(RestoreError::Version(self.version));
        }
        let meter = core::mem::take(&mut self.state.meter);
        self.state.meter = meter.fit(&self.names, program).map_err(RestoreError::Damaged)?;
        let state = self.state.fit(&self.names, program).map_err(RestoreError::Damaged)?;
        let names = program.probe_names().rows();
        let probes = RunningProbes::restart(names, program.probes(), &self.probes);
        let probes = probes.map_err(|ProbeError::Unreadable(name)| RestoreError::Probe(name))?;
        Ok((state, probes))
    }
}
