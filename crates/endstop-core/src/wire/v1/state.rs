//! A saved run.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::meter::Truth;
use crate::run::Status;
use crate::run::overrides::OverrideRecord;
use crate::signal::StopSignal;
use crate::trip_record::TripRecord;

/// The version that is written.
pub const VERSION: u32 = 1;

/// A run as it is saved. Readers ignore keys they do not know and take absent ones as empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunState {
    /// [`VERSION`].
    pub version: u32,
    /// Where the run stands.
    pub status: Status,
    /// Offsets and durations in milliseconds.
    pub clocks: ClockState,
    /// All counters by name, descendants included.
    pub totals: BTreeMap<String, u64>,
    /// The run's own share of them.
    pub own: BTreeMap<String, u64>,
    /// Calls of the tools that the policy names: in all, and own.
    pub tools: BTreeMap<String, (u64, u64)>,
    /// Numbers that the user's program reported.
    pub reported: BTreeMap<String, u64>,
    /// Nesting depth.
    pub depth: u64,
    /// The last request's input tokens.
    pub context_tokens: u64,
    /// Whether that request did not report its tokens.
    pub context_unknown: bool,
    /// Whether a call did not report its tokens.
    pub tokens_unknown: bool,
    /// Whether a call of the run itself did not report its tokens.
    pub own_tokens_unknown: bool,
    /// Whether a call had no price.
    pub unpriced: bool,
    /// Whether a call of the run itself had no price.
    pub own_unpriced: bool,
    /// Whether an amount overflowed.
    pub overflowed: bool,
    /// The worst case of the call that waits for a person.
    pub next_cost: Option<NextCostState>,
    /// Digest of the current agent's name.
    pub agent: u64,
    /// The open step, or the last one.
    pub step: StepState,
    /// What tool results said of progress.
    pub progress: ProgressState,
    /// The matchers' state.
    pub text: TextState,
    /// The reply that is being streamed, and the last ones.
    pub replies: Option<ReplyState>,
    /// Facts by text.
    pub facts: BTreeMap<String, Truth>,
    /// Facts that stay unknown until the next step: a part of the step was not looked at for them.
    pub lost: Vec<String>,
    /// Counts as they were last compared, by gauge.
    pub compared: BTreeMap<String, u64>,
    /// Operators over time, by text.
    pub operators: BTreeMap<String, OperatorState>,
    /// Probes by name; each state is JSON text.
    pub probes: BTreeMap<String, String>,
    /// Raised signals.
    pub raised: Vec<RaisedState>,
    /// Continuations.
    pub overrides: OverrideState,
    /// The finish rule under which the last step runs.
    pub finishing: Option<String>,
    /// Warn rules that have told.
    pub warned: Vec<String>,
    /// Pause rules that an approval disarmed.
    pub disarmed: Vec<String>,
    /// Limits that approvals gave.
    pub caps: Vec<CapState>,
    /// What the next step and the wrap-up after it may spend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<AheadState>,
    /// What the run ends by after a wrap-up that began before its rule held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_signal: Option<StopSignal>,
    /// Replies dropped in a row.
    pub retries_in_row: u32,
    /// The trip record, once the run has ended.
    pub ended: Option<TripRecord>,
    /// Whether it ended by itself.
    pub ended_naturally: bool,
}

impl Default for RunState {
    fn default() -> Self {
        Self {
            version: VERSION,
            status: Status::Pending,
            clocks: ClockState::default(),
            totals: BTreeMap::new(),
            own: BTreeMap::new(),
            tools: BTreeMap::new(),
            reported: BTreeMap::new(),
            depth: 0,
            context_tokens: 0,
            context_unknown: false,
            tokens_unknown: false,
            own_tokens_unknown: false,
            unpriced: false,
            own_unpriced: false,
            overflowed: false,
            next_cost: None,
            agent: 0,
            step: StepState::default(),
            progress: ProgressState::default(),
            text: TextState::default(),
            replies: None,
            facts: BTreeMap::new(),
            lost: Vec::new(),
            compared: BTreeMap::new(),
            operators: BTreeMap::new(),
            probes: BTreeMap::new(),
            raised: Vec::new(),
            overrides: OverrideState::default(),
            finishing: None,
            warned: Vec::new(),
            disarmed: Vec::new(),
            caps: Vec::new(),
            ahead: None,
            finish_signal: None,
            retries_in_row: 0,
            ended: None,
            ended_naturally: false,
        }
    }
}

/// Clocks, as offsets from the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockState {
    /// Of the last event.
    pub at_ms: u64,
    /// Wall time of the last event, since 1970.
    pub wall_ms: u64,
    /// Since when it is paused.
    pub paused_since_ms: Option<u64>,
    /// Paused in all, up to then.
    pub paused_ms: u64,
    /// When something last happened.
    pub last_activity_ms: u64,
}

/// A step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepState {
    /// Whether the own step is open.
    pub open: bool,
    /// Its attempts.
    pub attempts: u64,
    /// Whether a descendant's step is open.
    pub descendant_open: bool,
    /// Its attempts.
    pub descendant_attempts: u64,
    /// Own steps begun.
    pub begun: u64,
    /// Own steps closed.
    pub closed: u64,
    /// Whether it dispatched a tool call.
    pub called_tool: bool,
    /// Whether its reply asked for tools.
    pub asked_for_tools: bool,
    /// Whether it has a reply.
    pub has_reply: bool,
    /// Whether it brought something new.
    pub brought_news: bool,
}

/// The worst case of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NextCostState {
    /// Pico-dollars; none where they are not known.
    pub picos: Option<u64>,
}

/// What is yet to be spent at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AheadState {
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Pico-dollars; none where they are not known.
    pub picos: Option<u64>,
}

/// What tool results said of progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgressState {
    /// Steps in a row without news.
    pub no_progress: u64,
    /// The last digests, newest first.
    pub last: [u64; 4],
    /// How many of them count.
    pub known: u64,
    /// Equal ones in a row.
    pub repeats: u64,
    /// Matches of the periods 2 to 4.
    pub matched: [u64; 3],
    /// Distinct digests, oldest first; absent if no condition asks for them.
    pub seen: Option<Vec<u64>>,
    /// What `stale` is counted from; absent if no condition asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<StaleState>,
}

/// Steps since the user last spoke, and what they got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StaleState {
    /// Distinct digests, oldest first.
    pub seen: Vec<u64>,
    /// Steps that got results.
    pub judged: u64,
    /// Of those, the ones that got only what was already seen.
    pub stale: u64,
    /// Whether the open step got a result.
    pub got_result: bool,
    /// Whether the open step got a result that was not seen before.
    pub got_news: bool,
    /// Whether a part of these steps was not looked at.
    pub unknown: bool,
}

/// The matchers' state, which means something only under the fingerprint it was saved with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TextState {
    /// Of the texts and patterns of the policy.
    pub fingerprint: u64,
    /// The state of the phrases' automaton.
    pub phrases: u32,
    /// The state of each pattern's automaton.
    pub patterns: Vec<u32>,
}

/// Similarity of replies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplyState {
    /// The word that is being streamed.
    pub word: Vec<u8>,
    /// Words so far.
    pub words: u32,
    /// The last two words' hashes.
    pub last_two: [u64; 2],
    /// The balance of each bit.
    pub balance: Vec<i32>,
    /// The last replies' hashes.
    pub hashes: [u64; 8],
    /// How many there have been.
    pub count: u64,
}

/// An operator over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorState {
    /// Latched, or stamped at least once.
    pub set: bool,
    /// The streak, count, stamp or first step.
    pub value: u64,
    /// The stamps in a window.
    pub ring: Vec<u64>,
    /// Whether it was new to a run that had already begun.
    pub unknown: bool,
}

/// A raised signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RaisedState {
    /// The signal.
    pub signal: StopSignal,
    /// Whether nothing overrides it.
    #[serde(rename = "final")]
    pub is_final: bool,
}

/// Continuations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OverrideState {
    /// Who asked for the one that lasts.
    pub requested_by: Option<String>,
    /// Rules that it has answered.
    pub answered: Vec<String>,
    /// How often in a row each rule was overridden.
    pub in_row: BTreeMap<String, u32>,
    /// Steps begun since each rule was last answered.
    pub steps: BTreeMap<String, u64>,
    /// The history, oldest first.
    pub history: Vec<OverrideRecord>,
    /// Entries that it no longer holds.
    pub forgotten: u64,
}

/// A limit that an approval gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapState {
    /// The rule.
    pub rule: String,
    /// The gauge as written.
    pub gauge: String,
    /// The limit in the gauge's unit.
    pub limit: u64,
}
