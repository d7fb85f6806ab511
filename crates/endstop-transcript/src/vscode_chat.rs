//! Chats of VS Code (Copilot Chat): `chatSessions/<session>.json`, the same exported, and `chatSessions/<session>.jsonl`,
//! a log of changes to such a document.
//!
//! - A request is a user turn. Each of its `toolCallRounds` is one model call; without rounds it is one call, with the
//!   words and tools of `response`.
//! - The tokens of a request are those of its last call alone, so the tokens of calls are unknown, as is money.
//! - In the log, a line of kind 0 is a whole document, one of kind 1 sets what a path leads to, one of kind 2 adds to a
//!   list, and one of kind 3 deletes. A request is over when the next one is added.
//!
//! More than 250 lines because it is a document, or a log of changes to it, which are applied to find what it says in
//! the end.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value, json};

use super::builder::RunBuilder;
use super::document::{Element, Wanted, each_element};
use super::head::ends_of;
use super::limits::MAX_NESTING;
use super::reading::Reading;
use super::recent::{Recent, digest};
use super::step::{Full, ModelResponse, Step};
use super::time::Time;
use super::warning::WarningKind;
use super::{Head, RunSink};

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let is_chat = |text: &str| head.mentions(text);
    let document = head.document().is_some_and(|keys| {
        !keys.in_list
            && keys.have(&["requests"])
            && (keys.have(&["responderUsername"])
                || keys.have(&["sessionId"])
                || is_chat("\"requestId\""))
    });
    let mut lines = head.lines();
    document || (lines.any(|keys| keys.have(&["kind", "v"])) && is_chat("\"requests\""))
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let (head, _) = ends_of(reading.part).unwrap_or_default();
    let head = Head::new(&head, b"");
    let is_log = match head.bytes().trim_ascii_start().first() {
        Some(b'{') => head.document().is_some_and(|keys| keys.have(&["kind", "v"])),
        first => first.is_some(),
    };
    let run = RunBuilder::new(reading, sink);
    let mut chat = VscodeChat { run, seen: Recent::default() };
    if is_log {
        read_log(reading, &mut chat)
    } else {
        read_document(reading, &mut chat)
    }
    chat.run.end();
}

fn read_document(reading: Reading<'_>, chat: &mut VscodeChat<'_, '_>) {
    let mut id = None;
    reading.look_for(&["sessionId"], &mut |_, value| id = serde_json::from_str(value.get()).ok());
    chat.run.set_id(|| id);
    let wanted = Wanted { list: &["requests"], beside: &[] };
    each_element(reading.part, wanted, reading.warnings, &mut |element| {
        if let Element::Item(item) = element {
            let request = reading.parse::<VscodeRequest>(item, "not a request of this format");
            chat.request(request);
        }
    });
}

/// A line of the log.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Change<'a> {
    kind: Option<u8>,
    k: Option<&'a RawValue>,
    v: Option<&'a RawValue>,
    i: Option<u64>,
}

/// The requests of the document that the log changes, from the first that is not over.
#[derive(Default)]
struct Pending {
    /// The number of those that are over.
    over: u64,
    requests: Vec<Value>,
}

fn read_log(reading: Reading<'_>, chat: &mut VscodeChat<'_, '_>) {
    let mut pending = Pending::default();
    let mut lines = reading.lines();
    while lines.advance() {
        let Some(change) = lines.parse::<Change<'_>>() else { continue };
        let reading = reading.at(Some(lines.number()));
        chat.run.at_line(lines.number());
        let wrong = "not a change of this format";
        let value = change.v.and_then(|v| reading.parse::<Value>(v, wrong));
        match (change.kind, value) {
            (Some(0), Some(Value::Object(mut document))) => {
                pending.finish(0, chat);
                let id = document.get("sessionId").and_then(Value::as_str).map(str::to_owned);
                chat.run.set_id(|| id);
                let requests = match document.remove("requests") {
                    Some(Value::Array(requests)) => requests,
                    _ => Vec::new(),
                };
                pending = Pending { over: 0, requests };
                pending.finish(1, chat);
            }
            (Some(kind @ 1..=3), value) => {
                let path = change.k.and_then(|k| reading.parse::<Vec<Value>>(k, wrong));
                pending.change(kind, &path.unwrap_or_default(), value, change.i);
                pending.finish(1, chat);
            }
            _ => {}
        }
    }
    pending.finish(0, chat);
}

impl Pending {
    /// Hands over all requests but the last `left`.
    fn finish(&mut self, left: usize, chat: &mut VscodeChat<'_, '_>) {
        let over = self.requests.len().saturating_sub(left);
        self.over = self.over.saturating_add(over as u64);
        for request in self.requests.drain(..over) {
            let wrong = "not a request of this format";
            let request = serde_json::from_value::<VscodeRequest>(request);
            let reading = chat.run.reading;
            let warn = |error: &serde_json::Error| {
                let kind = WarningKind::Malformed;
                reading.warn(kind, || format!("{wrong}: {error}"));
            };
            chat.request(request.inspect_err(warn).ok());
        }
    }

    fn change(&mut self, kind: u8, path: &[Value], value: Option<Value>, at: Option<u64>) {
        let Some((Value::String(first), rest)) = path.split_first() else { return };
        if first != "requests" || path.len() > MAX_NESTING as usize {
            return;
        }
        let place = |index: u64, over: u64| usize::try_from(index.checked_sub(over)?).ok();
        let Some((index, rest)) = rest.split_first() else {
            let Some(Value::Array(items)) = value else { return };
            if kind == 1 {
                *self = Self { over: 0, requests: items };
            } else {
                let kept = at.map_or(Some(usize::MAX), |at| place(at, self.over)).unwrap_or(0);
                self.requests.truncate(kept);
                self.requests.extend(items);
            }
            return;
        };
        let place = index.as_u64().and_then(|index| place(index, self.over));
        let Some(mut target) = place.and_then(|place| self.requests.get_mut(place)) else { return };
        let Some((last, between)) = rest.split_last() else {
            if let (1, Some(value)) = (kind, value) {
                *target = value;
            }
            return;
        };
        for step in between {
            let Some(next) = entry(target, step) else { return };
            target = next;
        }
        match (kind, value) {
            (1, Some(value)) => {
                if let Some(target) = entry(target, last) {
                    *target = value;
                }
            }
            (2, Some(Value::Array(items))) => {
                let Some(list) = entry(target, last) else { return };
                if !list.is_array() {
                    *list = json!([]);
                }
                let Some(list) = list.as_array_mut() else { return };
                let kept = at.and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
                list.truncate(kept);
                list.extend(items);
            }
            (3, _) => {
                if let (Some(map), Some(key)) = (target.as_object_mut(), last.as_str()) {
                    map.remove(key);
                }
            }
            _ => {}
        }
    }
}

/// The target of a step of a path: a key, which may be missing, or an element, which has to exist.
fn entry<'v>(value: &'v mut Value, step: &Value) -> Option<&'v mut Value> {
    match (value, step) {
        (Value::Object(map), Value::String(key)) => {
            Some(map.entry(key.as_str()).or_insert(Value::Null))
        }
        (Value::Array(list), step) => list.get_mut(usize::try_from(step.as_u64()?).ok()?),
        (value @ Value::Null, Value::String(key)) => {
            *value = json!({});
            value.as_object_mut().map(|map| map.entry(key.as_str()).or_insert(Value::Null))
        }
        _ => None,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VscodeRequest {
    request_id: Option<Value>,
    timestamp: Option<Number>,
    model_id: Option<Value>,
    response: Option<Value>,
    result: Option<Value>,
    model_state: Option<Value>,
}

struct VscodeChat<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    /// Requests that were read, by hashes of their ids: a log may repeat one.
    seen: Recent,
}

impl VscodeChat<'_, '_> {
    fn request(&mut self, request: Option<VscodeRequest>) {
        let Some(request) = request else { return };
        let id = request.request_id.as_ref().and_then(Value::as_str);
        if id.is_some_and(|id| !self.seen.insert(digest(id))) {
            return;
        }
        let begun = request.timestamp.as_ref().and_then(Number::as_u64);
        self.run.user(begun);
        let added = self.answers(&request, begun);
        self.run.check(added);
        let state = request.model_state.as_ref();
        let took =
            request.result.as_ref().and_then(|result| result.pointer("/timings/totalElapsed"));
        let took = took.and_then(Value::as_u64);
        let ended = begun.zip(took).map(|(begun, took)| begun.saturating_add(took));
        let completed = state.and_then(|state| state.get("completedAt")?.as_u64());
        self.run.seen(ended.or(completed));
    }

    fn answers(&mut self, request: &VscodeRequest, begun: Time) -> Result<(), Full> {
        let none = Value::Null;
        let result = request.result.as_ref().unwrap_or(&none);
        let metadata = result.get("metadata").unwrap_or(&none);
        let model = request.model_id.as_ref().and_then(Value::as_str);
        let model = model.map(|model| model.strip_prefix("copilot/").unwrap_or(model));
        let rounds = metadata.get("toolCallRounds").and_then(Value::as_array);
        let rounds = rounds.map(Vec::as_slice).unwrap_or_default();
        let items = request.response.as_ref().and_then(Value::as_array);
        let items = items.map(Vec::as_slice).unwrap_or_default();
        let has_failed = result.get("errorDetails").is_some_and(|details| !details.is_null());
        if rounds.is_empty() {
            if has_failed && items.iter().all(|item| words_of(item).is_none()) {
                return self.run.step_at(begun).fail(begun);
            }
            if items.is_empty() {
                return Ok(());
            }
            let time = if begun.is_some() { self.run.last() } else { None };
            let reply = ModelResponse::of_model(model);
            let step = self.run.reply(time, reply);
            return said_in(items, step);
        }
        let results = metadata.get("toolCallResults").and_then(Value::as_object);
        for round in rounds {
            let time = round.get("timestamp").and_then(Value::as_u64);
            let step = self.run.reply(time, ModelResponse::of_model(model));
            let text = round.get("response").and_then(Value::as_str);
            step.say(time, text.unwrap_or_default())?;
            let calls = round.get("toolCalls").and_then(Value::as_array);
            for call in calls.into_iter().flatten() {
                let text = |name: &str| call.get(name).and_then(Value::as_str).map(str::to_owned);
                let arguments = text("arguments").unwrap_or_default();
                step.call(time, text("id"), text("name").unwrap_or_default(), arguments)?;
            }
            let calls = calls.into_iter().flatten();
            for id in calls.filter_map(|call| call.get("id").and_then(Value::as_str)) {
                if let Some(result) =
                    results.and_then(|results: &Map<String, Value>| results.get(id))
                {
                    step.result_of(id, None, result_text(result), false)?;
                }
            }
        }
        Ok(())
    }
}

/// The words of an item of a response.
fn words_of(item: &Value) -> Option<&str> {
    let text = match item.get("kind").and_then(Value::as_str) {
        None => item.get("value"),
        Some("markdownContent") => item.pointer("/content/value").or_else(|| item.get("value")),
        Some(_) => None,
    };
    text.and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The text and the calls of a response, without the results of tools.
fn said_in(items: &[Value], step: &mut Step) -> Result<(), Full> {
    for item in items {
        step.say(None, words_of(item).unwrap_or_default())?;
        if item.get("kind").and_then(Value::as_str) == Some("toolInvocationSerialized") {
            let text = |name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
            let tool = text("toolId").unwrap_or_default();
            step.call(None, text("toolCallId"), tool, String::new())?;
        }
    }
    Ok(())
}

/// The result of a tool: the texts of its parts, or else the JSON as it is.
fn result_text(result: &Value) -> String {
    let parts = result.get("content").and_then(Value::as_array);
    let texts: Option<Vec<&str>> =
        parts.and_then(|parts| parts.iter().map(|part| part.get("value")?.as_str()).collect());
    texts.map_or_else(|| result.to_string(), |texts| texts.join("\n"))
}
