//! A model that answers with what a recorded run answered.

use std::path::Path;

use endstop_core::event::Source;
use endstop_core::units::Cost;
use endstop_core::{Event, EventKind};
use thiserror::Error;

use super::{Model, ModelRequest, ModelStream, ScriptedModel, ScriptedResponse};
use crate::limits::{MAX_NAMED_RUNS, MAX_REPLAYED_BYTES, MAX_REPLIES};
use endstop_price::PriceTable;
use endstop_transcript::{
    CostIs, DiscoverError, RunFooter, RunHeader, RunSink, Transcript, Warning, walk,
};

/// The tool of a call that the transcript counts but does not describe.
pub const UNRECORDED_TOOL: &str = "unrecorded";

/// The arguments of a call whose arguments the transcript does not keep.
const NO_ARGUMENTS: &str = "{}";

/// Replies of one recorded run, played one after another for any request. After the last, every call is an error that
/// no retry can resolve.
///
/// - Any format of [`FORMATS`](endstop_transcript::FORMATS) is read. Only responses to the run itself count: not
///   those to its sub-agents, and not the requests that failed.
/// - A reply has the text, the tokens, the finish reason and the model that the transcript has. It has a cost only if
///   the provider billed every call of the run; otherwise the price table applies.
/// - Tool calls come in the order in which the run began them, with the ids `call_1` and so on. Where the
///   format keeps no arguments they are `{}`; of parallel calls of the same tool, the arguments may be
///   exchanged. A call that is counted but not described is one of the tool [`UNRECORDED_TOOL`], so that a
///   reply which asked for something is not taken for the last.
///
/// ```
/// use endstop::model::{Model, ReplayModel};
/// use endstop::transcript::sample;
///
/// let model = ReplayModel::read(&sample()[0], None)?;
/// assert!(model.replies() > 0 && !model.name().is_empty());
/// assert!(ReplayModel::read(&sample()[0], Some("no such run")).is_err());
/// # Ok::<(), endstop::model::ReplayModelError>(())
/// ```
#[derive(Debug)]
pub struct ReplayModel {
    run: String,
    replies: usize,
    warnings: Vec<Warning>,
    answers: ScriptedModel,
}

/// Why a transcript cannot answer.
#[derive(Debug, Error)]
pub enum ReplayModelError {
    /// It does not exist, or is not a transcript.
    #[error(transparent)]
    Transcript(#[from] DiscoverError),
    /// It has no run of this name.
    #[error("`{file}` has no run `{run}`; it has {known}")]
    NoSuchRun {
        /// The file.
        file: String,
        /// The requested name.
        run: String,
        /// The first runs that it has.
        known: String,
    },
    /// No run in it has a reply.
    #[error("`{file}` has no model response")]
    NoReplies {
        /// The file.
        file: String,
    },
    /// The run is larger than [`MAX_REPLIES`], or than the bytes of one that memory keeps.
    #[error("run `{run}` of `{file}` is too large to replay")]
    TooLarge {
        /// The file.
        file: String,
        /// The run.
        run: String,
    },
}

impl ReplayModel {
    /// Reads a file: the run of this name, or the first that has a reply.
    ///
    /// # Errors
    ///
    /// Returns [`ReplayModelError`] if the file cannot be read, or has no such run, or no reply.
    pub fn open(path: &Path, run: Option<&str>) -> Result<Self, ReplayModelError> {
        let found = walk(&[path.to_owned()])?;
        let name = path.display().to_string();
        Self::from_transcripts(&name, &found.transcripts, run)
    }

    /// Like [`open`](Self::open), for a transcript that was already found.
    ///
    /// # Errors
    ///
    /// Returns [`ReplayModelError`] if it does not have such a run, or no reply.
    pub fn read(transcript: &Transcript, run: Option<&str>) -> Result<Self, ReplayModelError> {
        Self::from_transcripts(transcript.main.name(), std::slice::from_ref(transcript), run)
    }

    fn from_transcripts(
        file: &str,
        transcripts: &[Transcript],
        run: Option<&str>,
    ) -> Result<Self, ReplayModelError> {
        let mut gatherer = Gatherer { wanted: run.map(str::to_owned), ..Gatherer::default() };
        for transcript in transcripts {
            transcript.read(PriceTable::embedded(), &mut gatherer);
        }
        let file = || file.to_owned();
        let Some(found) = gatherer.found else {
            return Err(match run {
                Some(run) if !gatherer.saw_wanted => {
                    let known = gatherer.known.join(", ");
                    ReplayModelError::NoSuchRun { file: file(), run: run.to_owned(), known }
                }
                _ => ReplayModelError::NoReplies { file: file() },
            });
        };
        if found.is_too_large {
            return Err(ReplayModelError::TooLarge { file: file(), run: found.run });
        }
        let name = found.model.unwrap_or_else(|| "replay".to_owned());
        let mut answers = ScriptedModel::new(name).described_as(format!("run `{}`", found.run));
        let replies = found.replies.len();
        for reply in found.replies {
            answers = answers.reply(reply);
        }
        Ok(Self { run: found.run, replies, warnings: gatherer.warnings, answers })
    }

    /// Returns the run that answers.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Returns how many replies it has.
    #[must_use]
    pub const fn replies(&self) -> usize {
        self.replies
    }

    /// Returns the problems in reading the transcript.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Calls that were started.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.answers.calls()
    }

    /// Begins at this reply, counted from 0: for a run that continues in another process.
    #[must_use]
    pub fn starting_at(mut self, reply: u64) -> Self {
        self.answers = self.answers.starting_at(reply);
        self
    }
}

impl Model for ReplayModel {
    fn name(&self) -> &str {
        self.answers.name()
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> ModelStream<'a> {
        self.answers.stream(request)
    }
}

/// Takes the replies of one run.
#[derive(Default)]
struct Gatherer {
    wanted: Option<String>,
    saw_wanted: bool,
    known: Vec<String>,
    warnings: Vec<Warning>,
    current: Option<Gathered>,
    found: Option<Gathered>,
}

#[derive(Default)]
struct Gathered {
    run: String,
    model: Option<String>,
    replies: Vec<ScriptedResponse>,
    is_too_large: bool,
    bytes: usize,
    text: String,
    open: Option<Open>,
}

/// A reply whose tool calls are still to come.
struct Open {
    reply: ScriptedResponse,
    /// How many calls the reply asks for.
    asked: usize,
    calls: Vec<RecordedCall>,
}

/// A tool call of the reply that has begun.
struct RecordedCall {
    tool: String,
    arguments: Option<String>,
}

impl Gathered {
    fn weigh(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        self.is_too_large |= self.bytes > MAX_REPLAYED_BYTES || self.replies.len() >= MAX_REPLIES;
        !self.is_too_large
    }

    fn event(&mut self, kind: &EventKind<'_>) {
        match kind {
            EventKind::StepBegin => self.close(),
            EventKind::Piece { text } if self.weigh(text.len()) => self.text.push_str(text),
            EventKind::AttemptFailed { .. } => self.text.clear(),
            EventKind::Reply { .. } => self.reply(kind),
            EventKind::ToolBegin { tool } | EventKind::ToolRefused { tool } => {
                let fits = self.weigh(tool.len());
                if let Some(open) = self.open.as_mut().filter(|_| fits) {
                    open.calls.push(RecordedCall { tool: (*tool).to_owned(), arguments: None });
                }
            }
            EventKind::ToolEnd { tool, arguments, .. } if self.weigh(arguments.len()) => {
                let calls = self.open.iter_mut().flat_map(|open| &mut open.calls);
                let mut calls = calls.filter(|call| call.arguments.is_none());
                if let Some(call) = calls.find(|call| call.tool == *tool) {
                    call.arguments = Some((*arguments).to_owned());
                }
            }
            EventKind::StepEnd => self.close(),
            _ => {}
        }
    }

    fn reply(&mut self, kind: &EventKind<'_>) {
        let EventKind::Reply { model, usage, cost, finish, tool_calls } = kind else { return };
        self.close();
        self.model = self.model.take().or_else(|| model.map(str::to_owned));
        let mut reply = ScriptedResponse::text(std::mem::take(&mut self.text));
        reply = match usage {
            Some(usage) => reply.tokens(*usage),
            None => reply.without_usage(),
        };
        reply = match finish {
            Some(finish) => reply.finish(*finish),
            None => reply.without_finish(),
        };
        if let Some(model) = model {
            reply = reply.answered_by(*model);
        }
        if let Some(Cost::Known(cost)) = cost {
            reply = reply.cost(*cost);
        }
        let asked = usize::try_from(*tool_calls).unwrap_or(usize::MAX);
        self.open = Some(Open { reply, asked, calls: Vec::new() });
    }

    fn close(&mut self) {
        let Some(Open { mut reply, asked, calls }) = self.open.take() else { return };
        if !self.weigh(0) {
            return;
        }
        let known = calls.len();
        for call in calls {
            let arguments = call.arguments.filter(|text| !text.trim().is_empty());
            let arguments = arguments.unwrap_or_else(|| NO_ARGUMENTS.to_owned());
            reply = reply.raw_tool_call(call.tool, arguments);
        }
        if known == 0 && asked > 0 {
            reply = reply.raw_tool_call(UNRECORDED_TOOL, NO_ARGUMENTS);
        }
        self.replies.push(reply);
    }
}

impl RunSink for Gatherer {
    fn begin(&mut self, run: &RunHeader<'_>) {
        if self.known.len() < MAX_NAMED_RUNS {
            self.known.push(format!("`{}`", run.id));
        }
        let is_wanted = self.wanted.as_deref().is_none_or(|wanted| wanted == run.id);
        self.saw_wanted |= is_wanted;
        if is_wanted && self.found.is_none() {
            let (run, model) = (run.id.to_owned(), run.model.map(str::to_owned));
            self.current = Some(Gathered { run, model, ..Gathered::default() });
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        if let (Some(current), Source::Own) = (&mut self.current, event.source) {
            current.event(&event.kind);
        }
    }

    fn end(&mut self, end: &RunFooter<'_>) {
        let Some(mut run) = self.current.take() else { return };
        run.close();
        if end.cost_is != CostIs::Billed {
            run.replies = run.replies.into_iter().map(ScriptedResponse::without_cost).collect();
        }
        if !run.replies.is_empty() || run.is_too_large {
            self.found = Some(run);
        }
    }

    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
}
