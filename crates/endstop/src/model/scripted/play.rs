//! The stream of one call of a scripted model.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};

use endstop_core::units::TokenUsage;
use futures_util::Stream;
use tokio::time::Sleep;

use super::ScriptedModel;
use crate::model::scripted_response::{Ending, ScriptedResponse};
use crate::model::{ModelEnd, ModelError, ModelEvent, ModelRequest, ReportedUsage};

/// The stream of one call.
pub(super) struct ScriptedStream<'a> {
    model: &'a ScriptedModel,
    request: ModelRequest<'a>,
    /// None before the first poll.
    reply: Option<Arc<ScriptedResponse>>,
    played: Played,
    wait: Option<Pin<Box<Sleep>>>,
}

/// How much of a response has been given.
#[derive(Default)]
struct Played {
    pieces: u64,
    has_reported: bool,
    reasoning: usize,
    text: usize,
    calls: usize,
    is_over: bool,
}

impl<'a> ScriptedStream<'a> {
    pub(super) fn new(model: &'a ScriptedModel, request: ModelRequest<'a>) -> Self {
        Self { model, request, reply: None, played: Played::default(), wait: None }
    }
}

impl ScriptedStream<'_> {
    fn over(&mut self, outcome: &AtomicU64) {
        self.played.is_over = true;
        self.model.end_of_call(outcome);
    }

    /// The next event, after the time that it takes.
    fn next_event(
        &mut self,
        reply: &ScriptedResponse,
    ) -> Poll<Option<Result<ModelEvent, ModelError>>> {
        let counts = &self.model.counts;
        self.played.pieces = self.played.pieces.saturating_add(1);
        if !std::mem::replace(&mut self.played.has_reported, true)
            && let Some(reported) = reply.reported.clone()
        {
            return Poll::Ready(Some(Ok(ModelEvent::Usage(reported))));
        }
        if let Some(piece) = piece(&reply.reasoning, &mut self.played.reasoning, reply.piece_bytes)
        {
            return Poll::Ready(Some(Ok(ModelEvent::Reasoning(piece))));
        }
        if let Some(piece) = piece(&reply.text, &mut self.played.text, reply.piece_bytes) {
            return Poll::Ready(Some(Ok(ModelEvent::Text(piece))));
        }
        if let Some(call) = reply.calls.get(self.played.calls) {
            self.played.calls += 1;
            return Poll::Ready(Some(Ok(ModelEvent::ToolCall(call.clone()))));
        }
        match &reply.ending {
            // Nothing will wake the task: only dropping the stream ends the call.
            Ending::Stall => Poll::Pending,
            Ending::Cut => {
                self.over(&counts.failed);
                Poll::Ready(None)
            }
            Ending::Fail(error) => {
                self.over(&counts.failed);
                Poll::Ready(Some(Err(error.clone())))
            }
            Ending::End(end) => {
                let end = end_of(reply, end, &self.request);
                self.over(&counts.finished);
                Poll::Ready(Some(Ok(ModelEvent::End(end))))
            }
        }
    }
}

impl Stream for ScriptedStream<'_> {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.played.is_over {
            return Poll::Ready(None);
        }
        let reply = match &this.reply {
            Some(reply) => Arc::clone(reply),
            None => match this.model.begin(&this.request) {
                Ok(reply) => Arc::clone(this.reply.insert(reply)),
                Err(error) => {
                    this.over(&this.model.counts.failed);
                    return Poll::Ready(Some(Err(error)));
                }
            },
        };
        if this.wait.is_none() {
            let delay = if this.played.pieces == 0 { reply.delay } else { reply.piece_delay };
            this.wait = (!delay.is_zero()).then(|| Box::pin(tokio::time::sleep(delay)));
        }
        if let Some(wait) = &mut this.wait {
            ready!(wait.as_mut().poll(context));
            this.wait = None;
        }
        this.next_event(&reply)
    }
}

impl Drop for ScriptedStream<'_> {
    fn drop(&mut self) {
        if self.reply.is_some() && !self.played.is_over {
            self.model.end_of_call(&self.model.counts.dropped);
        }
    }
}

/// The next piece of a text, cut between characters.
fn piece(text: &str, at: &mut usize, bytes: usize) -> Option<String> {
    let rest = text.get(*at..).filter(|rest| !rest.is_empty())?;
    let first = rest.chars().next().map_or(0, char::len_utf8);
    let length = if bytes == 0 { rest.len() } else { bytes.max(first).min(rest.len()) };
    let length = rest.floor_char_boundary(length);
    *at = at.saturating_add(length);
    rest.get(..length).map(str::to_owned)
}

fn end_of(reply: &ScriptedResponse, end: &ModelEnd, request: &ModelRequest<'_>) -> Box<ModelEnd> {
    let mut end = Box::new(end.clone());
    let estimated = || (!reply.hides_usage).then(|| estimated_usage(reply, request));
    let tokens = reply.tokens.or_else(estimated);
    if tokens.is_some() || reply.billed.is_some() {
        let usage = tokens.map(ReportedUsage::from).unwrap_or_default();
        let (reasoning, billed) = (reply.reasoning_tokens, reply.billed);
        end.usage = Some(ReportedUsage { reasoning, billed, ..usage });
    }
    if end.finish.is_none() && !reply.hides_finish {
        let finish = if reply.calls.is_empty() { "stop" } else { "tool_calls" };
        end.finish = Some(finish.to_owned());
    }
    end
}

/// One token for every four bytes, at least one of each class. O(messages): a script for long runs says
/// its usage.
fn estimated_usage(reply: &ScriptedResponse, request: &ModelRequest<'_>) -> TokenUsage {
    let messages = request.messages.iter().map(|message| {
        let calls = message.tool_calls().iter().map(|call| call.tool.len() + call.arguments.len());
        message.text().len().saturating_add(calls.sum())
    });
    let asked = messages.fold(request.system.len(), usize::saturating_add);
    let calls = reply.calls.iter().map(|call| call.tool.len() + call.arguments.len());
    let answered = reply.text.len() + reply.reasoning.len() + calls.sum::<usize>();
    let tokens = |bytes: usize| {
        u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(ScriptedModel::BYTES_PER_TOKEN).max(1)
    };
    TokenUsage { input: tokens(asked), output: tokens(answered), ..TokenUsage::default() }
}
