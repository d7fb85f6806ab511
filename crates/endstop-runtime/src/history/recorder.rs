//! Writing the history: an observer of runs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use endstop_core::Run;
use endstop_core::event::{EventKind, Source};
use endstop_core::policy::Action;
use endstop_core::run::Status;
use endstop_core::signal::{BUDGET_SOURCE, LIMIT_SOURCE, StopReason, StopSignal};
use endstop_core::units::WallTime;

use super::entry::{ActEntry, CallEntry, EndEntry, HistoryEntry, LoggedPart, RunFacts};
use super::writer::HistoryWriter;
use super::{HistoryError, HistoryOrigin};
use crate::json::json_of;
use crate::ledger::Budget;
use crate::limits::MAX_COUNTED_RUNS;
use crate::observe::{Observation, Observer, RunInfo, SettledCall, Spender};
use crate::store::RunId;

/// The prefix of the source of a policy rule's signal.
const POLICY_SOURCE: &str = "policy:";

/// The verbs of a stop from outside, as the control API writes them: `why (killed by who)`.
const STOPS: [&str; 2] = ["cancelled", "killed"];

/// Writes the history of this process's runs into a file. The file is created with the first call, act or stopped run, so a process
/// without one leaves none.
///
/// An error stops no run: the first one is passed to [`HistoryRecorder::on_failure`]. Entries that could not be
/// written wait in memory, and are written with the next call. [`HistoryRecorder::finish`] says how much is missing.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_core::units::TokenUsage;
/// # use endstop_price::PriceTable;
/// # use endstop_runtime::{CallPlan, InputBound, Outcome, Pricing, RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::parse("nightly-17")?;
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let program = Arc::new(Program::new(&Policy::from(max_steps(9)), &Probes::new())?);
/// # let directory = std::env::temp_dir().join(format!("endstop-{}", RunId::new()));
/// use endstop_runtime::RunEnvironment;
/// use endstop_runtime::history::{History, HistoryOrigin, HistoryRecorder};
///
/// let file = directory.join("history.sqlite");
/// let origin = HistoryOrigin { kind: "run".into(), program: "my-agent".into(), directory: ".".into() };
/// let recorder = Arc::new(HistoryRecorder::new(&file, origin));
/// let environment = RunEnvironment { observers: vec![recorder.clone()], ..RunEnvironment::default() };
/// let run = RunHandle::root(info, program, environment);
/// run.begin();
/// # let pricing = Pricing::new("anthropic", "claude-sonnet-4-5", PriceTable::embedded());
/// # let plan = CallPlan {
/// #     pricing: &pricing, input: InputBound::of_bytes(1_000), tool_input: 0, max_output: 100, min_output: 1,
/// #     is_wrap_up: false, is_final: true, takes_share: false, accounts: None,
/// # };
/// # run.begin_step(&plan);
/// let call = run.begin_call(&plan).unwrap();
/// let usage = TokenUsage { input: 1_000, output: 100, ..TokenUsage::default() };
/// call.replied(&Outcome { usage, ..Outcome::default() });
///
/// let history = History::open(&file)?.unwrap();
/// history.each_call(None, |call| assert_eq!((call.run.as_str(), call.input), ("nightly-17", 1_000)))?;
/// assert_eq!(recorder.finish(), 0);
/// # drop((history, run, recorder));
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HistoryRecorder {
    writer: Arc<HistoryWriter>,
    times: Mutex<BTreeMap<RunId, RunTimes>>,
    /// The logs of runs that continue, until the first call that they left in flight.
    logged: Mutex<BTreeMap<RunId, LoggedPart>>,
}

/// When a run began, and when its last event was.
#[derive(Clone, Copy, Debug)]
struct RunTimes {
    began: u64,
    last: u64,
}

impl fmt::Debug for HistoryRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryRecorder").field("path", &self.writer.path).finish_non_exhaustive()
    }
}

impl HistoryRecorder {
    /// Records runs of this process in a file. Nothing is opened yet.
    pub fn new(file: impl Into<PathBuf>, origin: HistoryOrigin) -> Self {
        Self {
            writer: Arc::new(HistoryWriter::new(file.into(), origin)),
            times: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    /// Sets the receiver of the first error. It is called once, with [`HistoryRecorder::through_journal`] maybe on its thread.
    #[must_use]
    pub fn on_failure(mut self, told: impl Fn(&HistoryError) + Send + Sync + 'static) -> Self {
        self.set_up().on_failure = Some(Box::new(told));
        self
    }

    /// Removes entries of all processes that are older than this: when the file is opened, and once a day while it is written.
    /// Without it, all entries stay until [`History::prune`](super::History::prune).
    #[must_use]
    pub fn keep_for(mut self, length: Duration) -> Self {
        self.set_up().keep_for = Some(length);
        self
    }

    /// Appends entries to a journal next to the file first. A thread writes them into the file, some milliseconds later and many
    /// at once. That is for processes that settle many calls: appending takes a fraction of a transaction.
    ///
    /// An entry in the journal outlives the process: the next one that opens the history takes it over. If the journal cannot be
    /// written, each entry is written into the file immediately, as without this.
    #[must_use]
    pub fn through_journal(mut self) -> Self {
        self.set_up().has_journal = true;
        self
    }

    fn set_up(&mut self) -> &mut HistoryWriter {
        let Some(writer) = Arc::get_mut(&mut self.writer) else {
            unreachable!("a recorder that is set up has no thread yet")
        };
        writer
    }

    /// Tries once more to write what waits, and returns how many calls and acts are missing in the file. Entries of a journal are
    /// not missing: another process takes it over.
    pub fn finish(&self) -> u64 {
        self.writer.finish()
    }

    #[cfg(test)]
    pub(super) fn tables(&self) -> std::sync::MutexGuard<'_, super::writer::Writing> {
        self.writer.tables()
    }

    fn times(&self) -> MutexGuard<'_, BTreeMap<RunId, RunTimes>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn logged(&self) -> MutexGuard<'_, BTreeMap<RunId, LoggedPart>> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn facts(&self, info: &RunInfo, now: u64) -> RunFacts {
        let began = self.times().get(&info.id).map_or(now, |times| times.began);
        facts_of(info, began)
    }

    fn put(&self, entry: HistoryEntry) {
        self.writer.put(entry);
    }
}

impl Drop for HistoryRecorder {
    fn drop(&mut self) {
        self.writer.end();
    }
}

impl Observer for HistoryRecorder {
    fn observe(&self, observation: &Observation<'_>) {
        let (info, event) = (observation.info, observation.event);
        // Of a stream only the settlement counts.
        if matches!(event.kind, EventKind::Piece { .. }) || event.source == Source::Descendant {
            return;
        }
        let now = event.wall.0;
        {
            let mut times = self.times();
            let has_room = times.len() < MAX_COUNTED_RUNS;
            if let Some(known) = times.get_mut(&info.id) {
                known.last = now;
            } else if has_room {
                times.insert(info.id.clone(), RunTimes { began: now, last: now });
            }
        }
        // Commands name outermost runs; their descendants share the act.
        if info.parent.is_some() {
            return;
        }
        if let Some(act) = Act::of(&event.kind, observation.run) {
            let run = self.facts(info, now);
            let Act { who, what, detail, why } = act;
            let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let (who, why) = (text(who), text(why));
            self.put(HistoryEntry::Act(ActEntry {
                run,
                at: now,
                who,
                what: what.into(),
                detail,
                why,
            }));
        }
    }

    fn settled(&self, info: &RunInfo, call: &SettledCall<'_>) {
        let usage = call.usage.unwrap_or_default();
        if usage.total() == 0 && call.cost.is_zero() {
            // It failed without a charge, or it was not made.
            return;
        }
        let now = call.wall.0;
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (model, provider, tool) = match call.spender {
            Spender::Model { model, provider } => (text(model), text(provider), None),
            Spender::Tool { tool } => (None, None, Some(tool.to_owned())),
        };
        let has_budgets = !call.budgets.is_empty();
        let amounts = [
            usage.total_input(),
            usage.cache_read,
            usage.output,
            call.cost.picos(),
            call.unconfirmed.picos(),
        ];
        let entry = CallEntry {
            run: self.facts(info, now),
            root: (call.root.id != info.id).then(|| self.facts(call.root, now)),
            at: now,
            model,
            provider,
            tool,
            amounts,
            is_priced: call.is_priced,
            is_estimate: call.is_estimate,
            is_run_over: call.is_run_over,
            key: call.key.map(str::to_owned),
            // Texts always become JSON.
            budgets: has_budgets.then(|| json_of(call.budgets)),
            charge: call.number,
            // With the call, so that none is lost between the two.
            log: self.logged().remove(&info.id),
        };
        self.put(HistoryEntry::Call(Box::new(entry)));
    }

    fn continues_from(&self, info: &RunInfo, charged: u64, until: WallTime) {
        let until = until.0;
        self.logged().insert(info.id.clone(), LoggedPart { charged, until });
    }

    fn run_ended(&self, info: &RunInfo, run: &Run, _budget: &Budget) {
        let status = run.status();
        let times = match status {
            Status::Paused => self.times().get(&info.id).copied(),
            _ => self.times().remove(&info.id),
        };
        // A user looks for a stopped run also if it made no call. Descendants end with their outermost run.
        let is_told = status == Status::Stopped && info.parent.is_none();
        let row = times.filter(|_| is_told).map(|times| facts_of(info, times.began));
        // Without an entry there is no row of the run.
        if row.is_none() && !self.writer.has_entries() {
            return;
        }
        let at = times.map_or(0, |times| times.last);
        let signal = run.last_stop_signal();
        self.put(HistoryEntry::End(EndEntry {
            run: info.id.to_string(),
            row,
            at: (status != Status::Paused).then_some(at),
            status: status.name().into(),
            reason: run.stop_reason().map(|reason| reason.value().into()),
            text: signal.filter(|it| is_of_endstop(it)).map(|it| it.message.clone()),
        }));
    }
}

fn facts_of(info: &RunInfo, began: u64) -> RunFacts {
    RunFacts {
        id: info.id.to_string(),
        parent: info.parent.as_ref().map(ToString::to_string),
        agent: info.agent.clone(),
        began,
        is_resumed: info.is_resumed,
    }
}

/// Whether a signal's text is that of a limit, a budget or a person. Others can have words of the model or its provider.
fn is_of_endstop(signal: &StopSignal) -> bool {
    let source = signal.source.as_deref().unwrap_or_default();
    let is_limit =
        [POLICY_SOURCE, LIMIT_SOURCE, BUDGET_SOURCE].iter().any(|it| source.starts_with(it));
    is_limit || signal.reason == StopReason::UserRequested
}

/// An act from outside, as an event says it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Act<'e> {
    pub(super) who: &'e str,
    pub(super) what: &'static str,
    pub(super) detail: Option<String>,
    pub(super) why: &'e str,
}

impl<'e> Act<'e> {
    /// The act of an event. `None` if it is none.
    pub(super) fn of(kind: &EventKind<'e>, run: &Run) -> Option<Self> {
        let act = |what, who, detail, why| Some(Act { who, what, detail, why });
        match *kind {
            EventKind::PauseRequested { by, why } => act("paused", by, None, why),
            EventKind::ResumeRequested { by, why } => act("resumed", by, None, why),
            EventKind::Approved { rule, limit, by, why } => {
                let rules_of = run.program().policy();
                let pauses = rules_of.rule(rule).is_some_and(|it| it.action == Action::Pause);
                let detail = match limit {
                    Some(limit) => format!("rule {rule}, {} {}", limit.gauge, limit.limit),
                    None => format!("rule {rule}"),
                };
                act(if pauses { "approved" } else { "raised" }, by, Some(detail), why)
            }
            EventKind::Signal { name, by, why } => act("signal", by, Some(name.to_owned()), why),
            EventKind::ContinuationRequested { by } => act("overridden", by, None, ""),
            EventKind::Reopened { by, why } => act("reopened", by, None, why),
            EventKind::Cancel { message } | EventKind::Kill { message } => {
                let is_kill = matches!(kind, EventKind::Kill { .. });
                let (verb, who, why) = signed(message);
                act(verb.unwrap_or(if is_kill { "killed" } else { "cancelled" }), who, None, why)
            }
            _ => None,
        }
    }
}

/// Splits the text of a stop from outside, as the control API writes it: what was done, who did it, and why.
fn signed(message: &str) -> (Option<&'static str>, &str, &str) {
    for verb in STOPS {
        let by = format!("{verb} by ");
        if let Some(who) = message.strip_prefix(by.as_str()) {
            return (Some(verb), who, "");
        }
        let by = format!(" ({by}");
        let inner = message.strip_suffix(')').and_then(|text| text.rsplit_once(by.as_str()));
        if let Some((why, who)) = inner {
            return (Some(verb), who, why);
        }
    }
    (None, "", message)
}
