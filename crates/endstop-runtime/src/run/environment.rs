//! The surroundings of a run: its observers, the signals that may end it, the state it shares, and the counts it
//! continues with.

use std::fmt;
use std::sync::Arc;

use endstop_core::units::TokenUsage;

use crate::account::RunAccounts;
use crate::cancel::{CancelToken, KillSwitch};
use crate::clock::WallClock;
use crate::ledger::Budget;
use crate::observe::{CostUncertainty, Observer};

/// The parts of a tree of runs that are not its policy. The default has none of them.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(9));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// use endstop_runtime::RunEnvironment;
/// use endstop_runtime::cancel::MemoryKillSwitch;
/// use endstop_runtime::ledger::{Budget, Limits};
///
/// let switch = MemoryKillSwitch::new();
/// let environment = RunEnvironment {
///     kill: Some(Arc::new(switch.clone())),
///     budget: Some(Budget::root(Limits { steps: Some(100), ..Limits::unlimited() })),
///     ..RunEnvironment::default()
/// };
/// let run = RunHandle::root(info, program, environment);
/// run.begin();
/// assert!(!run.is_aborted());
/// switch.turn_on("maintenance");
/// assert!(run.is_aborted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct RunEnvironment {
    /// Observers of every run of the tree.
    pub observers: Vec<Arc<dyn Observer>>,
    /// The kill switch that every checkpoint reads.
    pub kill: Option<Arc<dyn KillSwitch>>,
    /// Cancels the tree from outside; the tree has a child of it.
    pub token: Option<CancelToken>,
    /// A budget that the tree shares with other runs.
    pub budget: Option<Budget>,
    /// Budgets over time that the tree draws on, with others.
    pub accounts: Option<RunAccounts>,
    /// Wall time; `None` for the system's.
    pub wall: Option<WallClock>,
    /// The runs that the stop of a run reaches at once.
    pub reach: StopReach,
    /// The driver's name, as the source of the stop signals that it does not take from elsewhere.
    pub driver: Option<&'static str>,
}

impl fmt::Debug for RunEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunEnvironment")
            .field("observers", &self.observers.len())
            .finish_non_exhaustive()
    }
}

/// The runs that the stop of a run reaches at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopReach {
    /// Each run of a tree has its own driver. A stop reaches the descendants immediately, and a shared budget that
    /// refuses a call stops the whole tree that draws on it.
    #[default]
    Tree,
    /// One driver nests the runs of a tree. A descendant sees the stop of an ancestor when it asks next, and a
    /// shared budget that refuses stops the run that asked.
    Run,
}

/// A saved run's counts that its decision core does not keep.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(9));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// # use endstop_core::{Run, units::TokenUsage};
/// use endstop_runtime::{Carried, RunEnvironment};
///
/// let run = Run::restore(Arc::clone(&program), &Run::new(program).save()?)?;
/// let usage = TokenUsage { input: 900, output: 100, ..TokenUsage::default() };
/// let carried = Carried { usage, is_estimate: true, ..Carried::default() };
/// let run = RunHandle::resumed(info, run, carried, RunEnvironment::default());
/// assert_eq!(run.usage(), (usage, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Tokens used, descendants' included.
    pub usage: TokenUsage,
    /// Whether some of them are estimates.
    pub is_estimate: bool,
    /// Calls whose cost is not exactly known, descendants' included.
    pub uncertainty: CostUncertainty,
    /// Events that the core processed.
    pub events: u64,
    /// Tools that could not be aborted, descendants' included.
    pub still_running: Vec<String>,
}

/// A kill switch or a token that ends a run and its descendants, in addition to those of the whole tree.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(9));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// # use endstop_runtime::RunEnvironment;
/// use endstop_core::signal::{StopReason, StopSignal};
/// use endstop_runtime::ExternalStop;
/// use endstop_runtime::cancel::{CancelToken, Urgency};
///
/// # let run = RunHandle::root(info, program, RunEnvironment::default());
/// # run.begin();
/// let token = CancelToken::new();
/// let stop = ExternalStop { token: Some(token.clone()), ..ExternalStop::default() };
/// run.set_external_stops(vec![stop]);
/// token.cancel(StopSignal::new(StopReason::UserRequested), Urgency::Now);
/// assert!(run.is_aborted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct ExternalStop {
    /// The kill switch.
    pub kill: Option<Arc<dyn KillSwitch>>,
    /// The token.
    pub token: Option<CancelToken>,
}

impl fmt::Debug for ExternalStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalStop").field("kill", &self.kill).finish_non_exhaustive()
    }
}
