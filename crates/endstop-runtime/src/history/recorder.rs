//! Writing the history: an observer of runs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use endstop_core::Run;
use endstop_core::event::{EventKind, Source};
use endstop_core::policy::Action;
use endstop_core::run::Status;
use endstop_core::signal::{BUDGET_SOURCE, LIMIT_SOURCE, StopReason, StopSignal};
use endstop_core::units::WallTime;
use rusqlite::Connection;

use super::entry::{
    ActEntry, CallEntry, EndEntry, HistoryEntry, LoggedPart, ProcessFacts, RunFacts,
};
use super::journal::{self, OwnJournal};
use super::rows;
use super::{HistoryError, HistoryOrigin};
use crate::clock::millis;
use crate::json::json_of;
use crate::ledger::Budget;
use crate::limits::{
    HISTORY_BUSY, HISTORY_OPENING, JOURNAL_PAUSE, MAX_COUNTED_RUNS, MAX_WAITING_ENTRIES, TIDY_EVERY,
};
use crate::observe::{Observation, Observer, RunInfo, SettledCall, Spender};
use crate::store::{RunId, disk};

/// The prefix of the source of a policy rule's signal.
const POLICY_SOURCE: &str = "policy:";

/// The verbs of a stop from outside, as the control API writes them: `why (killed by who)`.
const STOPS: [&str; 2] = ["cancelled", "killed"];

/// Takes the first error.
type OnFailure = Box<dyn Fn(&HistoryError) + Send + Sync>;

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
/// #     is_wrap_up: false, is_final: true, takes_share: false,
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
    shared: Arc<Shared>,
    has_journal: bool,
    times: Mutex<BTreeMap<RunId, RunTimes>>,
    /// The logs of runs that continue, until the first call that they left in flight.
    logged: Mutex<BTreeMap<RunId, LoggedPart>>,
}

/// What the thread of a journal has too.
struct Shared {
    path: PathBuf,
    process: ProcessFacts,
    on_failure: Mutex<Option<OnFailure>>,
    /// Older entries are removed.
    keep_for: Mutex<Option<Duration>>,
    /// Taken before the queue, never after it.
    writer: Mutex<Writing>,
    queue: Mutex<Queue>,
    /// The recorder ends.
    woken: Condvar,
}

/// The entries that are in the journal and not yet in the file. Its lock is never held while the file is written.
#[derive(Default)]
struct Queue {
    journal: Option<OwnJournal>,
    waiting: Vec<HistoryEntry>,
    has_thread: bool,
    /// The journal cannot be written, or no longer helps.
    is_closed: bool,
}

/// The file, and the entries that wait for it.
#[derive(Default)]
pub(super) struct Writing {
    pub(super) connection: Option<Connection>,
    pub(super) waiting: Vec<HistoryEntry>,
    /// The journal of this process, and its last line that waits or is written.
    mark: Option<(String, u64)>,
    /// Entries that never will be in it.
    missing: u64,
    has_failed: bool,
    is_failing: bool,
    /// The file cannot become usable while this process lives.
    is_given_up: bool,
    /// When old entries were last removed, in milliseconds.
    tidied: Option<u64>,
}

/// When a run began, and when its last event was.
#[derive(Clone, Copy, Debug)]
struct RunTimes {
    began: u64,
    last: u64,
}

impl fmt::Debug for HistoryRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryRecorder").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl HistoryRecorder {
    /// Records runs of this process in a file. Nothing is opened yet.
    pub fn new(file: impl Into<PathBuf>, origin: HistoryOrigin) -> Self {
        Self {
            shared: Arc::new(Shared {
                path: file.into(),
                process: ProcessFacts { id: RunId::new().to_string(), origin },
                on_failure: Mutex::default(),
                keep_for: Mutex::default(),
                writer: Mutex::default(),
                queue: Mutex::default(),
                woken: Condvar::new(),
            }),
            has_journal: false,
            times: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    /// Sets the receiver of the first error. It is called once.
    #[must_use]
    pub fn on_failure(self, told: impl Fn(&HistoryError) + Send + Sync + 'static) -> Self {
        *held(&self.shared.on_failure) = Some(Box::new(told));
        self
    }

    /// Removes entries of all processes that are older than this: when the file is opened, and once a day while it is written.
    /// Without it, all entries stay until [`History::prune`](super::History::prune).
    #[must_use]
    pub fn keep_for(self, length: Duration) -> Self {
        *held(&self.shared.keep_for) = Some(length);
        self
    }

    /// Writes entries to a journal next to the file first, and from there to the file some milliseconds later, on a thread. It is
    /// for processes that settle many calls: an entry costs a fraction, and outlives the process as well.
    #[must_use]
    pub fn through_journal(mut self) -> Self {
        self.has_journal = true;
        self
    }

    /// Tries once more to write what waits, and returns how many calls and acts are missing in the file.
    pub fn finish(&self) -> u64 {
        self.shared.flush();
        let mut writer = self.writer();
        if !writer.waiting.is_empty() {
            let _ = writer.write(&self.shared.path, &self.shared.process);
        }
        writer.give_up_waiting();
        self.shared.end_journal();
        writer.missing
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, Writing> {
        held(&self.shared.writer)
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
        if !self.has_journal {
            return self.shared.write(entry);
        }
        if let Some(entry) = self.queue_up(entry) {
            self.shared.flush();
            self.shared.write(entry);
        }
    }

    /// Appends an entry to the journal. Returns it if that is impossible.
    fn queue_up(&self, entry: HistoryEntry) -> Option<HistoryEntry> {
        let shared = &self.shared;
        let mut queue = held(&shared.queue);
        if queue.is_closed {
            return Some(entry);
        }
        if queue.journal.is_none() {
            queue.journal = OwnJournal::create(&shared.path, &shared.process).ok();
        }
        let appended = queue.journal.as_mut().map(|it| it.append(&shared.process, &entry));
        if !matches!(appended, Some(Ok(()))) {
            queue.is_closed = appended.is_some();
            return Some(entry);
        }
        queue.waiting.push(entry);
        if !queue.has_thread {
            let weak = Arc::downgrade(shared);
            let name = "endstop-history".to_owned();
            let begun = thread::Builder::new().name(name).spawn(move || {
                while let Some(shared) = weak.upgrade() {
                    let queue = held(&shared.queue);
                    if queue.is_closed {
                        return;
                    }
                    drop(shared.woken.wait_timeout(queue, JOURNAL_PAUSE));
                    shared.flush();
                }
            });
            queue.has_thread = begun.is_ok();
            queue.is_closed = begun.is_err();
        }
        None
    }
}

impl Drop for HistoryRecorder {
    fn drop(&mut self) {
        self.shared.flush();
        self.shared.end_journal();
    }
}

impl Shared {
    /// Writes what is in the journal to the file.
    fn flush(&self) {
        let mut writer = held(&self.writer);
        let (waiting, mark) = {
            let mut queue = held(&self.queue);
            let mark = queue.journal.as_ref().map(|it| (it.name.clone(), it.number));
            (std::mem::take(&mut queue.waiting), mark)
        };
        let Some(number) = mark.as_ref().map(|it| it.1) else { return };
        writer.mark = mark;
        let at = waiting.iter().rev().find_map(HistoryEntry::at);
        writer.waiting.extend(waiting);
        if writer.waiting.is_empty() {
            return;
        }
        let written = writer.write(&self.path, &self.process);
        if written.is_ok() {
            let mut queue = held(&self.queue);
            if let Some(journal) = queue.journal.as_mut().filter(|it| it.number == number) {
                // Lines that stay are known by their number.
                let _ = journal.clear();
            }
        }
        held(&self.queue).is_closed |= writer.is_given_up;
        self.tell(writer, written, at);
    }

    /// Writes an entry, and all that wait before it.
    fn write(&self, entry: HistoryEntry) {
        let mut writer = held(&self.writer);
        if writer.is_given_up {
            writer.lose(&entry);
            return;
        }
        let at = entry.at();
        writer.waiting.push(entry);
        let written = writer.write(&self.path, &self.process);
        self.tell(writer, written, at);
    }

    /// Removes old entries after a write, or tells the first error.
    fn tell(
        &self,
        mut writer: MutexGuard<'_, Writing>,
        written: Result<(), HistoryError>,
        at: Option<u64>,
    ) {
        let length = *held(&self.keep_for);
        if let (Ok(()), Some(length), Some(at)) = (&written, length, at) {
            writer.tidy(length, at);
        }
        let error = written.err();
        let failed = error.filter(|_| !std::mem::replace(&mut writer.has_failed, true));
        drop(writer);
        if let (Some(error), Some(told)) = (failed, &*held(&self.on_failure)) {
            told(&error);
        }
    }

    /// Removes the journal if all of it is in the file. Otherwise another process takes it over.
    fn end_journal(&self) {
        let mut queue = held(&self.queue);
        queue.is_closed = true;
        if let Some(journal) = queue.journal.take_if(|it| it.is_empty()) {
            let _ = journal.remove();
        }
        self.woken.notify_all();
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writing {
    /// Writes all that waits in one transaction. If that fails, it stays, up to a number of entries.
    fn write(&mut self, path: &Path, process: &ProcessFacts) -> Result<(), HistoryError> {
        let written = self.try_write(path, process);
        match &written {
            Ok(()) => self.waiting.clear(),
            Err(error) if error.can_end() => {
                while self.waiting.len() > MAX_WAITING_ENTRIES {
                    let last = self.waiting.pop();
                    last.iter().for_each(|entry| self.lose(entry));
                }
            }
            Err(_) => {
                self.is_given_up = true;
                self.give_up_waiting();
            }
        }
        self.is_failing = written.is_err();
        written
    }

    fn try_write(&mut self, path: &Path, process: &ProcessFacts) -> Result<(), HistoryError> {
        let failed = |error: &rusqlite::Error| HistoryError::of("write the history", path, error);
        // Calls do not wait again and again for a file that stays busy.
        let (opening, patience) = match self.is_failing {
            true => (Duration::ZERO, Duration::ZERO),
            false => (HISTORY_OPENING, HISTORY_BUSY),
        };
        let is_first = self.connection.is_none();
        if is_first {
            self.connection = Some(create(path, opening)?);
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        connection.busy_timeout(patience).map_err(|error| failed(&error))?;
        // A run that continues replaces calls of its earlier process, which can be in that one's journal.
        if is_first || self.waiting.iter().any(HistoryEntry::has_log) {
            journal::take_over(connection, path)?;
        }
        let mark = self.mark.as_ref().map(|(name, number)| (&**name, *number));
        rows::write(connection, process, &self.waiting, mark).map_err(|error| failed(&error))
    }

    /// Removes what is older than a length of time, at most once a day.
    fn tidy(&mut self, length: Duration, now: u64) {
        let Some(connection) = &mut self.connection else { return };
        if self.tidied.is_some_and(|last| now.abs_diff(last) < millis(TIDY_EVERY)) {
            return;
        }
        self.tidied = Some(now);
        let before = WallTime(now.saturating_sub(millis(length)));
        // Nothing is lost if this fails: it is done on another day.
        let _ = rows::prune(connection, before, false);
    }

    fn give_up_waiting(&mut self) {
        for entry in std::mem::take(&mut self.waiting) {
            self.lose(&entry);
        }
    }

    /// The end of a run is not counted: its calls are in the file.
    fn lose(&mut self, entry: &HistoryEntry) {
        let is_counted = !matches!(entry, HistoryEntry::End(_));
        self.missing = self.missing.saturating_add(u64::from(is_counted));
    }
}

/// Opens the file, which only the user may read, and its directory.
pub(super) fn create(path: &Path, patience: Duration) -> Result<Connection, HistoryError> {
    let failed = |error: std::io::Error| HistoryError::Failed {
        doing: "create the history",
        path: path.to_owned(),
        why: error.to_string(),
    };
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        disk::create_directory(directory).map_err(failed)?;
    }
    // SQLite gives the files that it creates next to this one the same permissions.
    disk::create_file(path).map_err(failed)?;
    rows::open(path, patience)
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
        if row.is_none() {
            // Without a file the run has no row.
            if held(&self.shared.queue).journal.is_none() {
                let writer = self.writer();
                if writer.connection.is_none() && writer.waiting.is_empty() {
                    return;
                }
            }
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
