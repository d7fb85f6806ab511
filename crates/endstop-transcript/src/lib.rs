//! Readers and writers of transcripts: files that agents leave on disk, as events of the decision core.
//!
//! Every tool records its runs in another form. Here each form becomes the same events, so that one program can count,
//! price and replay them all. [`walk`] finds transcripts and detects their format from their content, and
//! [`Transcript::read`] streams the runs of one into a [`RunSink`].
//!
//! ```
//! use endstop_transcript::{RunFooter, RunHeader, RunSink, Warning, sample};
//! use endstop_core::{Event, EventKind};
//! use endstop_price::PriceTable;
//!
//! #[derive(Default)]
//! struct Steps(u64);
//!
//! impl RunSink for Steps {
//!     fn begin(&mut self, _run: &RunHeader<'_>) {}
//!     fn event(&mut self, event: &Event<'_>) {
//!         self.0 += u64::from(matches!(event.kind, EventKind::StepBegin));
//!     }
//!     fn end(&mut self, _end: &RunFooter<'_>) {}
//!     fn warn(&mut self, _warning: Warning) {}
//! }
//!
//! let mut steps = Steps::default();
//! for transcript in sample() {
//!     transcript.read(PriceTable::embedded(), &mut steps);
//! }
//! assert!(steps.0 > 0);
//! ```
//!
//! # What a reader gives
//!
//! - Events in the order of a run, `RunBegin` first and `RunEnd` last. A model call with its tools is one
//!   step; it stays open for its tool results until the next model call or user turn of the same agent.
//! - `UserMessage` for what a person (or a parent agent) said: never for tool results, system prompts or
//!   notes of the harness.
//! - `at` in milliseconds since the first timestamp, never falling; a format without time stays at 0.
//! - Damage is never fatal and never silent: what can be read is read, the rest is a [`Warning`].
//!
//! # Features
//!
//! - `sqlite`: formats that are SQLite databases. SQLite is built in.
//!
//! # Where next
//!
//! Start with [`walk`], [`Transcript`] and [`RunSink`]; [`export`] writes runs in other forms, and [`FORMATS`] lists the
//! formats. A format is one file of this crate and one row of that table; the contract test picks it up with its example
//! in `tests/data/<id>/`. The crate `endstop-replay` judges policies on these events. The minimum Rust version is 1.95.

mod agent_file;
mod aider;
mod anthropic;
mod archive;
mod atif;
mod autogen;
mod builder;
mod call_charge;
mod claude_code;
mod cline;
mod codex;
mod copilot_cli;
#[cfg(feature = "sqlite")]
mod cursor;
mod discover;
mod document;
mod endstop_trace;
pub mod export;
mod formats;
mod gemini_cli;
mod groups;
mod head;
mod inspect_ai;
mod intercode;
mod layout;
mod limits;
mod lines;
mod litellm;
mod mast_ag2;
mod merge;
mod messages;
mod mini_swe_agent;
mod openai_chat;
mod opencode;
#[cfg(feature = "sqlite")]
mod opencode_db;
mod openhands;
mod openhands_calls;
mod openhands_events;
mod otlp;
mod part;
mod paths;
mod pi;
mod qwen_code;
mod reading;
mod recent;
mod scan;
#[cfg(feature = "sqlite")]
mod sqlite;
mod step;
mod supplies;
mod swe_agent;
mod tau2;
mod text;
mod time;
mod timeline;
mod vscode_chat;
mod warning;
mod writer;

use endstop_core::Event;
use endstop_price::PriceTable;

pub use discover::{DiscoverError, Found, default_homes, detect, walk};
pub use endstop_price::CostIs;
pub use formats::{FORMATS, Format, Home, format};
pub use head::Head;
pub use limits::MAX_LINE_BYTES;
pub use part::Part;
pub use supplies::Supplies;
pub use warning::{Warning, WarningKind};

/// The source of a reader.
///
/// [`Transcript::read`] makes it; see the example of [`Transcript`].
#[derive(Clone, Copy, Debug)]
pub struct Source<'s> {
    /// The file.
    pub main: &'s Part,
    /// Files that belong to the same run: those of its sub-agents.
    pub children: &'s [Part],
    /// Prices for calls that carry no charge.
    pub prices: &'s PriceTable,
}

/// A file, with the files of its sub-agents, whose format is known.
///
/// ```
/// use endstop_price::PriceTable;
/// use endstop_transcript::export::{Target, export};
/// use endstop_transcript::{Part, Transcript, format};
///
/// let text = concat!(
///     "{\"endstop_trace\":1,\"run\":\"nightly-17\"}\n",
///     "{\"at\":0,\"event\":\"run_begin\"}\n{\"at\":9,\"event\":\"run_end\"}\n",
/// );
/// let main = Part::bytes("nightly.jsonl", text.as_bytes());
/// let transcript = Transcript { format: format("endstop").unwrap(), main, children: Vec::new() };
/// let mut runs = Vec::new();
/// let prices = PriceTable::embedded();
/// let warnings = export(&transcript, prices, Target::Endstop, &mut |run| runs.push(run.id));
/// assert_eq!((runs, warnings.len()), (vec!["nightly-17".to_owned()], 0));
/// ```
#[derive(Clone, Debug)]
pub struct Transcript {
    /// The format.
    pub format: &'static Format,
    /// The file.
    pub main: Part,
    /// Files that belong to the same run.
    pub children: Vec<Part>,
}

impl Transcript {
    /// Streams all runs into `sink`. Calls whose cost is not recorded are priced by `prices`.
    pub fn read(&self, prices: &PriceTable, sink: &mut dyn RunSink) {
        let source = Source { main: &self.main, children: &self.children, prices };
        self.format.read(&source, sink);
    }
}

/// The receiver of the runs of a transcript: `begin`, its events, `end`, and so on; warnings arrive at any time.
///
/// See the example of [the crate](crate).
pub trait RunSink {
    /// A run begins.
    fn begin(&mut self, run: &RunHeader<'_>);
    /// Something happened in it.
    fn event(&mut self, event: &Event<'_>);
    /// An act was refused by the run's limits of that time. A sink that does not distinguish it takes it as begun.
    fn refused(&mut self, event: &Event<'_>) {
        self.event(event);
    }
    /// The run is over.
    fn end(&mut self, end: &RunFooter<'_>);
    /// Something could not be read, or not be trusted.
    fn warn(&mut self, warning: Warning);
    /// The texts that it reads in the next event: fewer after another one, perhaps. A reader may be faster if few are
    /// wanted; it need not be, and it need not ask more than once.
    fn wants(&self) -> Wants {
        Wants::default()
    }
}

/// The texts that a sink reads. In place of any other text, a reader may give one of the same length in bytes.
/// Everything by default.
///
/// ```
/// use endstop_transcript::Wants;
///
/// // A sink that only counts steps returns this from `RunSink::wants`.
/// let wants = Wants { words: false, results: false };
/// assert_ne!(wants, Wants::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// The text of model responses.
    pub words: bool,
    /// Arguments and results of tool calls.
    pub results: bool,
}

impl Default for Wants {
    fn default() -> Self {
        Self { words: true, results: true }
    }
}

/// The known facts about a run before its first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunHeader<'a> {
    /// The run's name, stable over replays: a session id, an instance, `task/trial`, or the file's stem.
    pub id: &'a str,
    /// The [`Format::id`].
    pub format: &'static str,
    /// The file.
    pub file: &'a str,
    /// The model, if the file names it ahead of its calls.
    pub model: Option<&'a str>,
}

/// The known facts about a run after its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFooter<'a> {
    /// Whether the run succeeded, if the file says so.
    pub outcome: Option<bool>,
    /// The kind of its cost.
    pub cost_is: CostIs,
    /// The model that answered most calls.
    pub model: Option<&'a str>,
}

/// A file that ships: its name and its bytes.
type SampleFile = (&'static str, &'static [u8]);

/// The transcripts that ship: format, file, files of sub-agents.
const SAMPLES: &[(&str, SampleFile, &[SampleFile])] = &[
    ("endstop", ("agents.jsonl", include_bytes!("../data/sample/agents.jsonl")), &[]),
    (
        "claude-code",
        ("claude-code-session.jsonl", include_bytes!("../data/sample/claude-code-session.jsonl")),
        &[(
            "claude-code-session/subagents/agent-5f2c.jsonl",
            include_bytes!("../data/sample/claude-code-session/subagents/agent-5f2c.jsonl"),
        )],
    ),
    ("openai-chat", ("chat-results.json", include_bytes!("../data/sample/chat-results.json")), &[]),
];

/// Returns ten runs in three formats: agents that reach their end, that search in circles, that run the same
/// failing test again and again, and one whose sub-agent does not stop.
#[must_use]
pub fn sample() -> Vec<Transcript> {
    let part = |(name, bytes): SampleFile| Part::bytes(format!("sample/{name}"), bytes);
    let rows = SAMPLES.iter().filter_map(|(id, main, children)| {
        let children = children.iter().map(|child| part(*child)).collect();
        Some(Transcript { format: format(id)?, main: part(*main), children })
    });
    rows.collect()
}
