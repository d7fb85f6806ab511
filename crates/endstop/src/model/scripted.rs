//! A model whose responses are given in advance: for tests, demonstrations and benchmarks.

mod play;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::play::ScriptedStream;
use super::scripted_response::ScriptedResponse;
use super::{Model, ModelError, ModelErrorKind, ModelRequest, ModelStream, ToolChoice};
use crate::limits::MAX_REMEMBERED;
use crate::message::Message;
use crate::tool::ToolSpec;

/// A model that plays responses: given one by one, or made by a function of the request.
///
/// It needs no network and no clock but tokio's, so it works on paused time. Calls count from the first poll
/// of their stream.
///
/// ```
/// use endstop::model::{Model, ScriptedModel, ScriptedResponse};
/// use serde_json::json;
///
/// let model = ScriptedModel::new("scripted")
///     .reply(ScriptedResponse::call("counter", json!({ "step": 1 })).usage(100, 10))
///     .reply(ScriptedResponse::text("done").usage(120, 2));
/// assert_eq!(model.name(), "scripted");
/// assert_eq!(model.calls(), 0);
/// ```
pub struct ScriptedModel {
    name: String,
    provider: String,
    /// The source whose responses are used up.
    described: String,
    max_output_tokens: Option<u64>,
    script: Script,
    remember: usize,
    counts: Counts,
    requests: Mutex<VecDeque<RecordedRequest>>,
}

type Answerer = dyn Fn(&ModelRequest<'_>, u64) -> ScriptedResponse + Send + Sync;

enum Script {
    List { replies: Vec<Arc<ScriptedResponse>>, first: u64, repeats_last: bool },
    Function(Box<Answerer>),
}

#[derive(Default)]
struct Counts {
    started: AtomicU64,
    finished: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    in_flight: AtomicU64,
    most_in_flight: AtomicU64,
}

/// A request as it was seen by a [`ScriptedModel`].
///
/// ```
/// use std::sync::Arc;
/// use endstop::agent::AgentLoop;
/// use endstop::core::condition::named::max_steps;
/// use endstop::model::{ScriptedModel, ScriptedResponse};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Arc::new(ScriptedModel::new("scripted").reply(ScriptedResponse::text("Yes.")).remember(10));
/// let agent = AgentLoop::builder("answerer")
///     .instructions("Be brief.")
///     .shared_model(model.clone())
///     .stop_when(max_steps(5))
///     .build()?;
/// agent.run("Is it raining?").await?;
/// let requests = model.requests();
/// assert_eq!((requests.len(), requests[0].system.as_str()), (1, "Be brief."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRequest {
    /// [`ModelRequest::system`].
    pub system: String,
    /// [`ModelRequest::messages`].
    pub messages: Vec<Message>,
    /// [`ModelRequest::tools`].
    pub tools: Vec<ToolSpec>,
    /// [`ModelRequest::tool_choice`].
    pub tool_choice: ToolChoice,
    /// [`ModelRequest::max_output_tokens`].
    pub max_output_tokens: Option<u64>,
}

impl ScriptedModel {
    /// Bytes of text that are taken for one token if a response reports no usage.
    pub const BYTES_PER_TOKEN: u64 = 4;

    /// Creates a model without responses; add them with [`reply`](Self::reply).
    pub fn new(name: impl Into<String>) -> Self {
        let script = Script::List { replies: Vec::new(), first: 0, repeats_last: false };
        Self::with_script(name.into(), script)
    }

    /// Returns a model that makes each response from the request and from the number of calls before it.
    pub fn from_fn(
        name: impl Into<String>,
        answer: impl Fn(&ModelRequest<'_>, u64) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        Self::with_script(name.into(), Script::Function(Box::new(answer)))
    }

    fn with_script(name: String, script: Script) -> Self {
        Self {
            name,
            provider: String::new(),
            described: "the script".to_owned(),
            max_output_tokens: None,
            script,
            remember: 0,
            counts: Counts::default(),
            requests: Mutex::default(),
        }
    }

    /// Adds the answer to the next call. A call beyond the last response is an error that no retry can resolve. Does
    /// nothing to a model made of a function.
    #[must_use]
    pub fn reply(mut self, reply: ScriptedResponse) -> Self {
        if let Script::List { replies, .. } = &mut self.script {
            replies.push(Arc::new(reply));
        }
        self
    }

    /// Repeats the last response for every further call.
    #[must_use]
    pub fn repeat_last(mut self) -> Self {
        if let Script::List { repeats_last, .. } = &mut self.script {
            *repeats_last = true;
        }
        self
    }

    /// Begins at this response, counted from 0: for a run that continues in another process.
    #[must_use]
    pub fn starting_at(mut self, reply: u64) -> Self {
        if let Script::List { first, .. } = &mut self.script {
            *first = reply;
        }
        self
    }

    /// Sets the provider, by which prices are looked up.
    #[must_use]
    pub fn provider_name(mut self, provider: impl Into<String>) -> Self {
        self.provider = provider.into();
        self
    }

    /// The subject of the error after the last response.
    #[cfg(feature = "transcripts")]
    pub(super) fn described_as(mut self, described: String) -> Self {
        self.described = described;
        self
    }

    /// Sets [`Model::max_output_tokens`].
    #[must_use]
    pub fn output_bound(mut self, tokens: u64) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Records the last `count` requests, at most [`MAX_REMEMBERED`]. Without it none is copied.
    #[must_use]
    pub fn remember(mut self, count: usize) -> Self {
        self.remember = count.min(MAX_REMEMBERED);
        self
    }

    /// Calls that were started.
    pub fn calls(&self) -> u64 {
        self.counts.started.load(Ordering::SeqCst)
    }

    /// Calls that were answered to the end.
    pub fn finished(&self) -> u64 {
        self.counts.finished.load(Ordering::SeqCst)
    }

    /// Calls that failed or were cut by the script.
    pub fn failed(&self) -> u64 {
        self.counts.failed.load(Ordering::SeqCst)
    }

    /// Calls that the caller dropped before they ended.
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::SeqCst)
    }

    /// Calls that have begun and neither ended nor been dropped.
    pub fn in_flight(&self) -> u64 {
        self.counts.in_flight.load(Ordering::SeqCst)
    }

    /// Returns the most calls that were in flight at once.
    pub fn most_in_flight(&self) -> u64 {
        self.counts.most_in_flight.load(Ordering::SeqCst)
    }

    /// Returns the recorded requests, oldest first. Empty without [`remember`](Self::remember).
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.lock_requests().iter().cloned().collect()
    }

    fn lock_requests(&self) -> MutexGuard<'_, VecDeque<RecordedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and finds its response.
    fn begin(&self, request: &ModelRequest<'_>) -> Result<Arc<ScriptedResponse>, ModelError> {
        let index = self.counts.started.fetch_add(1, Ordering::SeqCst);
        let in_flight = self.counts.in_flight.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        self.counts.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
        if self.remember > 0 {
            let mut requests = self.lock_requests();
            while requests.len() >= self.remember {
                requests.pop_front();
            }
            requests.push_back(RecordedRequest::of(request));
        }
        match &self.script {
            Script::Function(answer) => Ok(Arc::new(answer(request, index))),
            Script::List { replies, first, repeats_last } => {
                let at = usize::try_from(first.saturating_add(index)).unwrap_or(usize::MAX);
                let last = replies.last().filter(|_| *repeats_last);
                replies.get(at).or(last).cloned().ok_or_else(|| {
                    let message =
                        format!("{} has {} responses and no more", self.described, replies.len());
                    ModelError::new(ModelErrorKind::Rejected, message)
                })
            }
        }
    }

    fn end_of_call(&self, outcome: &AtomicU64) {
        outcome.fetch_add(1, Ordering::SeqCst);
        self.counts.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

impl RecordedRequest {
    fn of(request: &ModelRequest<'_>) -> Self {
        Self {
            system: request.system.to_owned(),
            messages: request.messages.to_vec(),
            tools: request.tools.to_vec(),
            tool_choice: request.tool_choice,
            max_output_tokens: request.max_output_tokens,
        }
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn provider(&self) -> &str {
        &self.provider
    }

    fn max_output_tokens(&self) -> Option<u64> {
        self.max_output_tokens
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> ModelStream<'a> {
        Box::pin(ScriptedStream::new(self, request))
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        f.debug_struct("ScriptedModel").field("name", name).field("calls", &self.calls()).finish()
    }
}
