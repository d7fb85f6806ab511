//! The end of a run, for people and for machines: why it ended, by which numbers, what it used and cost.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use endstop_core::Run;
use endstop_core::event::{EventKind, Source};
use endstop_core::human::{self, counted};
use endstop_core::policy::OnUnpriced;
use endstop_core::run::Status;
use endstop_core::signal::StopReason;
use endstop_core::trip_record::TripRecord;
use endstop_core::units::{Millis, Money};
use serde::{Deserialize, Serialize};

use super::cost_uncertainty::Unconfirmed;
use super::{CostUncertainty, Observation, Observer, RunInfo, UnconfirmedCause, clean};
use crate::json::json_of;
use crate::ledger::{Amounts, Budget};
use crate::limits::{MAX_CHILDREN, MAX_COUNTED_RUNS};
use crate::store::RunId;

/// Version of the report's JSON.
pub const REPORT_VERSION: u32 = 1;

/// The end of a run, or the reason why it is paused.
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
/// # use endstop_core::{EventKind, signal::{StopReason, StopSignal}};
/// # use endstop_runtime::{RunEnvironment, observe::Detail};
/// # let run = RunHandle::root(info, program, RunEnvironment::default());
/// # run.begin();
/// // A tool of `run` asked to stop in its first step.
/// # run.try_begin(&EventKind::StepBegin, Detail::None);
/// # run.raise(&StopSignal::new(StopReason::StopRequested));
/// let report = run.report();
/// assert_eq!((report.reason, report.totals.steps), (Some(StopReason::StopRequested), 1));
/// assert_eq!(report.spend.usd, "0");
/// println!("{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub endstop_report: u32,
    /// The run.
    pub run: RunId,
    /// The run that began it, if one did.
    pub parent: Option<RunId>,
    /// The agent that began it.
    pub agent: String,
    /// The model that it began with.
    pub model: String,
    /// The status.
    pub status: Status,
    /// The reason why it ended; `None` while it runs or is paused.
    pub reason: Option<StopReason>,
    /// Its usage, sub-agents included.
    pub totals: Totals,
    /// Its cost, sub-agents included.
    pub spend: Spend,
    /// Held for calls in flight and not settled.
    #[serde(default, skip_serializing_if = "Amounts::is_zero")]
    pub held: Amounts,
    /// Settled beyond the limits of the ledger.
    #[serde(default, skip_serializing_if = "Amounts::is_zero")]
    pub overshoot: Amounts,
    /// The runs that it began, by id; at most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_agents: Vec<SubAgent>,
    /// The trip record: every rule with its leaves.
    #[serde(rename = "verdict")]
    pub trip_record: TripRecord,
}

/// The usage of a run. A field is `None` if it is not known in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Steps begun.
    pub steps: u64,
    /// Model requests sent.
    pub attempts: u64,
    /// Tool calls dispatched.
    pub tool_calls: u64,
    /// Failed model requests and failed tool calls.
    pub errors: u64,
    /// Sub-agents begun.
    pub sub_agents: u64,
    /// Tokens settled.
    pub tokens: u64,
    /// Tokens of the input.
    pub input_tokens: Option<u64>,
    /// Tokens of the output.
    pub output_tokens: Option<u64>,
    /// Milliseconds since the run began.
    pub elapsed_ms: u64,
}

/// The cost of a run: model calls, and tools with a cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    /// Dollars as a decimal.
    pub usd: String,
    /// The certainty of this amount.
    pub is: SpendCertainty,
    /// Calls that have no price.
    pub unpriced_calls: u64,
    /// Calls whose tokens were counted here, because the provider reported none.
    pub estimated_calls: u64,
    /// The part of it that no provider and no tool confirmed, in dollars as a decimal: what calls without reported usage
    /// or cost can have cost at most.
    #[serde(default, with = "decimal", skip_serializing_if = "Money::is_zero")]
    pub unconfirmed_usd: Money,
    /// The number of calls in that part.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unconfirmed_calls: u64,
    /// These calls by cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unconfirmed_causes: BTreeMap<UnconfirmedCause, u64>,
}

/// Dollars as a decimal.
mod decimal {
    use endstop_core::units::Money;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(money: &Money, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&money.to_decimal())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Money, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The certainty of an amount of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpendCertainty {
    /// Exactly.
    Known,
    /// Some of it from tokens that were counted here, by the policy's rates for calls without a price, or at the declared
    /// cost of tools that failed.
    Estimate,
    /// At least this: some call has no price.
    LowerBound,
}

/// A sub-agent's run, as its parent reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubAgent {
    /// The run.
    pub run: RunId,
    /// The agent.
    pub agent: String,
    /// The status.
    pub status: Status,
    /// Why it ended.
    pub reason: Option<StopReason>,
    /// Steps begun, its own sub-agents included.
    pub steps: u64,
    /// Tokens settled, its own sub-agents included.
    pub tokens: u64,
    /// Its cost, its own sub-agents included.
    pub spend: Spend,
}

/// Counts that the core does not have.
#[derive(Clone, Debug, Default)]
struct Tally {
    own: CostUncertainty,
    children: BTreeMap<RunId, SubAgent>,
}

impl Tally {
    /// The calls whose cost is not exactly known, of the run and below.
    fn doubtful(&self) -> CostUncertainty {
        let children = self.children.values().map(|child| CostUncertainty {
            unpriced: child.spend.unpriced_calls,
            estimated: child.spend.estimated_calls,
            causes: child.spend.unconfirmed_causes.clone(),
            unconfirmed: child.spend.unconfirmed_usd,
        });
        children.fold(self.own.clone(), |sum, child| sum.plus(&child))
    }
}

impl Report {
    /// Creates the report of a run's current state. The core does not know which calls were estimates and which
    /// sub-agents the run had: a [`Reporter`] sees them.
    #[must_use]
    pub fn of(info: &RunInfo, run: &Run, budget: &Budget) -> Self {
        Self::with(info, run, budget, &Tally::default())
    }

    fn with(info: &RunInfo, run: &Run, budget: &Budget, tally: &Tally) -> Self {
        let count = |gauge| run.gauge(gauge).unwrap_or_default();
        let snapshot = budget.snapshot();
        Self {
            endstop_report: REPORT_VERSION,
            run: info.id.clone(),
            parent: info.parent.clone(),
            agent: info.agent.clone(),
            model: info.model.clone(),
            status: run.status(),
            reason: run.stop_reason(),
            totals: Totals {
                steps: run.step_count(),
                attempts: count("attempts"),
                tool_calls: count("tool_calls"),
                errors: count("errors"),
                sub_agents: count("subagents"),
                tokens: run.tokens(),
                input_tokens: run.gauge("input_tokens"),
                output_tokens: run.gauge("output_tokens"),
                elapsed_ms: run.at().0,
            },
            spend: spend_of(run, snapshot.settled.cost, tally),
            held: snapshot.held,
            overshoot: snapshot.overshoot(),
            sub_agents: tally.children.values().cloned().collect(),
            trip_record: run.trip_record(),
        }
    }

    /// Returns the same report with the uncertainty of its money.
    #[must_use]
    pub fn with_uncertainty(
        mut self,
        run: &Run,
        budget: &Budget,
        uncertainty: CostUncertainty,
    ) -> Self {
        let tally = Tally { own: uncertainty, ..Tally::default() };
        self.spend = spend_of(run, budget.snapshot().settled.cost, &tally);
        self
    }

    /// Returns one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        json_of(self)
    }

    fn as_sub_agent(&self) -> SubAgent {
        SubAgent {
            run: self.run.clone(),
            agent: self.agent.clone(),
            status: self.status,
            reason: self.reason,
            steps: self.totals.steps,
            tokens: self.totals.tokens,
            spend: self.spend.clone(),
        }
    }
}

fn spend_of(run: &Run, settled: Money, tally: &Tally) -> Spend {
    let doubtful = tally.doubtful();
    let (unpriced_calls, estimated_calls) = (doubtful.unpriced, doubtful.estimated);
    let cost = run.cost();
    // Such a call has been charged by these rates, here or in the run below that made it.
    let has_rates = matches!(run.program().policy().on_unpriced, Some(OnUnpriced::Rates(_)));
    let is = if cost.is_none() || (unpriced_calls > 0 && !has_rates) {
        SpendCertainty::LowerBound
    } else if estimated_calls > 0 || unpriced_calls > 0 || !doubtful.causes.is_empty() {
        SpendCertainty::Estimate
    } else {
        SpendCertainty::Known
    };
    Spend {
        usd: cost.unwrap_or(settled).to_decimal(),
        is,
        unpriced_calls,
        estimated_calls,
        unconfirmed_usd: doubtful.unconfirmed,
        unconfirmed_calls: doubtful.unconfirmed_calls(),
        unconfirmed_causes: doubtful.causes,
    }
}

impl Spend {
    /// Returns `$1.60 unconfirmed: 2 calls answered 504`; `None` if all of it is confirmed.
    #[must_use]
    pub fn unconfirmed(&self) -> Option<String> {
        let uncertainty = CostUncertainty {
            causes: self.unconfirmed_causes.clone(),
            unconfirmed: self.unconfirmed_usd,
            ..CostUncertainty::default()
        };
        uncertainty.unconfirmed_text()
    }
}

impl fmt::Display for Spend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usd = self.usd.parse().map_or_else(|_| self.usd.clone(), human::money);
        match self.is {
            SpendCertainty::Known => f.write_str(&usd),
            SpendCertainty::Estimate => write!(f, "about {usd}"),
            SpendCertainty::LowerBound => write!(f, "at least {usd}"),
        }?;
        let mut doubts = Vec::new();
        if self.unpriced_calls > 0 {
            let how = match self.is {
                SpendCertainty::LowerBound => "without a price",
                SpendCertainty::Known | SpendCertainty::Estimate => {
                    "by the rates for those without a price"
                }
            };
            doubts.push(format!("{} {how}", calls(self.unpriced_calls)));
        }
        if self.estimated_calls > 0 {
            doubts.push(format!("{} estimated", calls(self.estimated_calls)));
        }
        doubts.extend(self.unconfirmed());
        if doubts.is_empty() { Ok(()) } else { write!(f, " ({})", doubts.join(", ")) }
    }
}

fn calls(number: u64) -> String {
    counted(number, "call")
}

impl fmt::Display for Report {
    /// For people: the trip record, then what was used. No line feed at the end, and nothing that a terminal
    /// obeys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} of {} on {}", self.run, clean(&self.agent), clean(&self.model))?;
        for line in self.trip_record.to_string().lines() {
            write!(f, "\n{}", clean(line))?;
        }
        let totals = &self.totals;
        write!(f, "\n\nused: {}, ", counted(totals.steps, "step"))?;
        write!(f, "{}, ", counted(totals.attempts, "model request"))?;
        write!(f, "{}, ", counted(totals.tool_calls, "tool call"))?;
        write!(f, "{}, ", counted(totals.errors, "error"))?;
        write!(f, "{}", human::tokens(totals.tokens))?;
        if let (Some(input), Some(output)) = (totals.input_tokens, totals.output_tokens) {
            write!(f, " ({} in, {} out)", human::short(input), human::short(output))?;
        }
        write!(f, ", {}", human::duration(Millis(totals.elapsed_ms)))?;
        write!(f, "\ncost: {}", self.spend)?;
        if totals.sub_agents > 0 || !self.sub_agents.is_empty() {
            write!(f, "\nsub-agents: {}", totals.sub_agents)?;
        }
        for child in &self.sub_agents {
            write!(f, "\n  {} {}: {}", clean(&child.agent), child.run, child.status.name())?;
            let reason = child.reason.filter(|reason| *reason != StopReason::Completed);
            if let Some(reason) = reason {
                write!(f, " ({reason})")?;
            }
            let (steps, tokens) = (counted(child.steps, "step"), human::tokens(child.tokens));
            write!(f, ", {steps}, {tokens}, {}", child.spend)?;
        }
        for (what, amounts) in [("held", &self.held), ("overshoot", &self.overshoot)] {
            if !amounts.is_zero() {
                write!(f, "\n{what}: {}", amounts_text(amounts))?;
            }
        }
        Ok(())
    }
}

fn amounts_text(amounts: &Amounts) -> String {
    let Amounts { steps, attempts, tool_calls, tokens, cost } = amounts;
    let counts = [(*steps, "step"), (*attempts, "model request"), (*tool_calls, "tool call")];
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    let mut parts: Vec<String> = counts.map(|(number, name)| counted(number, name)).collect();
    if *tokens > 0 {
        parts.push(human::tokens(*tokens));
    }
    if *cost > Money::ZERO {
        parts.push(human::money(*cost));
    }
    parts.join(", ")
}

/// Makes a report whenever a run ends or is paused, sub-agents first.
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
/// use endstop_runtime::observe::Reporter;
/// use std::sync::Mutex;
///
/// let ended = Arc::new(Mutex::new(Vec::new()));
/// let list = Arc::clone(&ended);
/// let reporter = Reporter::new(move |report| list.lock().unwrap().push(report.agent.clone()));
/// let observers: Vec<Arc<dyn endstop_runtime::observe::Observer>> = vec![Arc::new(reporter)];
/// let environment = RunEnvironment { observers, ..RunEnvironment::default() };
/// let run = RunHandle::root(info, program, environment);
/// run.begin();
/// run.ended();
/// assert_eq!(*ended.lock().unwrap(), ["main"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reporter {
    each: Box<dyn Fn(&Report) + Send + Sync>,
    tallies: Mutex<BTreeMap<RunId, Tally>>,
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

impl Reporter {
    /// Hands every report to `each`; those of sub-agents have a parent.
    pub fn new(each: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        Self { each: Box::new(each), tallies: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, Tally>> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tally of a run, a new one if it has none.
fn tally<'t>(tallies: &'t mut BTreeMap<RunId, Tally>, id: &RunId) -> &'t mut Tally {
    if tallies.len() >= MAX_COUNTED_RUNS && !tallies.contains_key(id) {
        tallies.pop_first();
    }
    tallies.entry(id.clone()).or_default()
}

impl Observer for Reporter {
    fn observe(&self, observation: &Observation<'_>) {
        if observation.event.source == Source::Descendant {
            return;
        }
        let (kind, detail) = (&observation.event.kind, &observation.detail);
        let settles = matches!(
            kind,
            EventKind::Reply { .. } | EventKind::AttemptFailed { .. } | EventKind::ToolCost { .. }
        );
        if !settles {
            return;
        }
        tally(&mut self.lock(), &observation.info.id).own.take(
            kind,
            detail.is_estimate(),
            Unconfirmed::of(detail),
        );
    }

    fn run_ended(&self, info: &RunInfo, run: &Run, budget: &Budget) {
        let mut tallies = self.lock();
        // A paused run resumes, and a root run that completed does with a user's next message.
        let goes_on = match run.status() {
            Status::Paused => true,
            Status::Completed => info.parent.is_none(),
            _ => false,
        };
        let own = if goes_on { tallies.get(&info.id).cloned() } else { tallies.remove(&info.id) };
        let report = Report::with(info, run, budget, &own.unwrap_or_default());
        if let Some(parent) = &info.parent {
            let children = &mut tally(&mut tallies, parent).children;
            if children.len() < MAX_CHILDREN || children.contains_key(&info.id) {
                children.insert(info.id.clone(), report.as_sub_agent());
            }
        }
        drop(tallies);
        (self.each)(&report);
    }
}

#[cfg(test)]
mod tests;
