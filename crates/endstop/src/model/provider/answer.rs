//! One answer: from the events of `genai` and the frames of the stream to the events of a model.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::unfold;
use genai::adapter::AdapterKind;
use genai::chat::{ChatStream, ChatStreamEvent, ContentPart, StreamEnd, ToolCall as WireCall};
use serde_json::{Value, json};

use super::facts::{Tap, is_chat};
use super::{ProviderModel, failure, request};
use crate::limits::MAX_RESPONSE_BYTES;
use crate::message::ToolCall;
use crate::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelStream, ReportedUsage,
};

/// The error for a stream whose frames came apart.
const TORN: &str = "a line end came in two pieces, and a part of the answer may be lost";

pub(super) fn stream<'a>(model: &'a ProviderModel, request: ModelRequest<'a>) -> ModelStream<'a> {
    let first = ResponsePhase::Asked(request);
    Box::pin(unfold(first, move |phase| async move {
        let mut answer = match phase {
            ResponsePhase::Asked(request) => match begin(model, &request).await {
                Ok(answer) => Box::new(answer),
                Err(error) => return Some((Err(error), ResponsePhase::Over)),
            },
            ResponsePhase::Answering(answer) => answer,
            ResponsePhase::Over => return None,
        };
        match answer.next().await {
            Ok(event @ ModelEvent::End(_)) => Some((Ok(event), ResponsePhase::Over)),
            Ok(event) => Some((Ok(event), ResponsePhase::Answering(answer))),
            Err(error) => Some((Err(error), ResponsePhase::Over)),
        }
    }))
}

enum ResponsePhase<'a> {
    Asked(ModelRequest<'a>),
    Answering(Box<ProviderResponse<'a>>),
    Over,
}

struct ProviderResponse<'a> {
    model: &'a ProviderModel,
    stream: ChatStream,
    tap: Arc<Tap>,
    /// The tool calls so far, from the pieces of the stream.
    calls: Vec<WireCall>,
    queue: VecDeque<ModelEvent>,
    /// The last report of usage that was passed on.
    reported: Option<ReportedUsage>,
    /// Why the stream failed, once what it reported before is passed on.
    failed: Option<ModelError>,
}

async fn begin<'a>(
    model: &'a ProviderModel,
    request: &ModelRequest<'_>,
) -> Result<ProviderResponse<'a>, ModelError> {
    let tap = Arc::new(Tap::new(model.kind));
    let (chat, options) = request::build(model, request);
    let options = options.with_raw_frame_sink_arc(Arc::clone(&tap) as Arc<_>);
    let target = model.target.clone();
    let begun = model.client.exec_chat_stream(target, chat, Some(&options)).await;
    let begun = begun.map_err(|error| failure::of(&error, None, model))?;
    Ok(ProviderResponse {
        model,
        stream: begun.stream,
        tap,
        calls: Vec::new(),
        queue: VecDeque::new(),
        reported: None,
        failed: None,
    })
}

impl ProviderResponse<'_> {
    async fn next(&mut self) -> Result<ModelEvent, ModelError> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Ok(event);
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            let received = self.receive().await;
            self.pass_report();
            let taken = match received {
                Ok(event) => self.take(event),
                Err(error) => Err(error),
            };
            self.failed = taken.err();
        }
    }

    /// Queues a report of usage that differs from the last one.
    fn pass_report(&mut self) {
        let facts = self.tap.facts();
        if let Some(reported) = facts.reported().filter(|it| self.reported.as_ref() != Some(it)) {
            self.reported = Some(reported.clone());
            self.queue.push_back(ModelEvent::Usage(Box::new(reported.clone())));
        }
    }

    /// Queues what an event brings.
    fn take(&mut self, event: Option<ChatStreamEvent>) -> Result<(), ModelError> {
        match event {
            Some(ChatStreamEvent::Chunk(piece)) if !piece.content.is_empty() => {
                self.queue.push_back(ModelEvent::Text(piece.content));
            }
            Some(ChatStreamEvent::ReasoningChunk(piece)) if !piece.content.is_empty() => {
                self.queue.push_back(ModelEvent::Reasoning(piece.content));
            }
            Some(ChatStreamEvent::ToolCallChunk(piece)) if !is_chat(self.model.kind) => {
                self.note(piece.tool_call);
            }
            Some(ChatStreamEvent::End(end)) => self.end(Some(end))?,
            Some(_) => {}
            None => self.end(None)?,
        }
        Ok(())
    }

    /// The next event of the stream, in time.
    async fn receive(&mut self) -> Result<Option<ChatStreamEvent>, ModelError> {
        loop {
            let (frames, bytes) = self.progress();
            if bytes > MAX_RESPONSE_BYTES {
                let message = format!("the answer is longer than {MAX_RESPONSE_BYTES} bytes");
                return Err(self.with_usage(ModelError::new(ModelErrorKind::Malformed, message)));
            }
            let timeouts = self.model.timeouts;
            let limit = if frames == 0 { timeouts.first } else { timeouts.between };
            let next = tokio::time::timeout(limit, self.stream.next()).await;
            if self.tap.facts().is_torn {
                let error = ModelError::new(ModelErrorKind::Malformed, TORN);
                return Err(self.with_usage(error));
            }
            match next {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(event))) => return Ok(Some(event)),
                Ok(Some(Err(error))) => {
                    let told = self.tap.facts().error.clone();
                    let error = failure::of(&error, told.as_ref(), self.model);
                    return Err(self.with_usage(error));
                }
                // Some frames produce no event, but they are signs of life.
                Err(_) if self.progress().0 > frames => {}
                Err(_) => {
                    let message = format!("nothing came for {limit:?}");
                    return Err(self.with_usage(ModelError::new(ModelErrorKind::TimedOut, message)));
                }
            }
        }
    }

    fn progress(&self) -> (u64, usize) {
        let facts = self.tap.facts();
        (facts.frames, facts.bytes)
    }

    /// The usage that the provider has reported for a failed request is charged, if the report is complete.
    fn with_usage(&self, mut error: ModelError) -> ModelError {
        error.usage = self.tap.facts().usage();
        error
    }

    /// A piece of a tool call holds all of it so far.
    fn note(&mut self, call: WireCall) {
        match self.calls.iter_mut().find(|known| known.call_id == call.call_id) {
            Some(known) => *known = call,
            None => self.calls.push(call),
        }
    }

    fn end(&mut self, end: Option<StreamEnd>) -> Result<(), ModelError> {
        let error = self.tap.facts().error.clone();
        if let Some(error) = error {
            return Err(self.with_usage(failure::of_body(&error, self.model.api)));
        }
        if !self.is_whole(end.as_ref()) {
            return Err(self.with_usage(failure::truncated()));
        }
        let is_chat = is_chat(self.model.kind);
        if is_chat && self.tap.facts().response().is_full() {
            let error = ModelError::new(ModelErrorKind::Malformed, "the answer is too long");
            return Err(self.with_usage(error));
        }
        let end = end.unwrap_or_default();
        let mut told = self.tap.facts().end();
        let stop = end.captured_stop_reason.map(|reason| reason.raw().to_owned());
        told.finish = told.finish.or(stop);
        let parts = end.captured_content.map(genai::chat::MessageContent::into_parts);
        if is_chat {
            self.queue.extend(self.tap.facts().calls().into_iter().map(ModelEvent::ToolCall));
        }
        let mut calls = Vec::new();
        for part in parts.unwrap_or_default() {
            match part {
                ContentPart::ToolCall(call) => calls.push(call),
                other => told.opaque.extend(request::kept(self.model.kind, &other)),
            }
        }
        if self.model.kind == AdapterKind::Anthropic {
            request::pair_thinking(&mut told.opaque);
        }
        for call in calls {
            if self.model.kind == AdapterKind::Gemini
                && let Some(signatures) = &call.thought_signatures
            {
                told.opaque.push(json!({
                    "type": request::CALL_SIGNATURES, "id": call.call_id, "signatures": signatures,
                }));
            }
            let arguments = self.arguments(&call);
            let (id, tool) = (call.call_id, call.fn_name);
            self.queue.push_back(ModelEvent::ToolCall(ToolCall { id, tool, arguments }));
        }
        self.queue.push_back(ModelEvent::End(Box::new(told)));
        Ok(())
    }

    /// Whether the answer is complete. `genai` makes up an end for some providers whose stream breaks off, and none
    /// for servers that leave out the last frame.
    fn is_whole(&self, end: Option<&StreamEnd>) -> bool {
        let facts = self.tap.facts();
        let response = facts.response();
        // Of a prompt that it blocks, Gemini says why and sends no answer.
        let is_blocked = self.model.kind == AdapterKind::Gemini && response.output_bytes == 0;
        let is_ended = response.finish.is_some() || (response.is_whole && end.is_some());
        end.is_some_and(|end| end.captured_stop_reason.is_some()) || (is_ended && !is_blocked)
    }

    /// The arguments as the model wrote them: `genai` reads them and keeps the text only of the pieces.
    fn arguments(&self, call: &WireCall) -> String {
        let text = |call: &WireCall| call.fn_arguments.as_str().map(str::to_owned);
        let noted = self.calls.iter().find(|known| known.call_id == call.call_id).and_then(text);
        let same = noted.filter(|noted| {
            serde_json::from_str::<Value>(noted).is_ok_and(|read| read == call.fn_arguments)
        });
        same.or_else(|| text(call)).unwrap_or_else(|| call.fn_arguments.to_string())
    }
}
