//! Logs of Inspect: one JSON document, or an `.eval` archive with one document for each sample.
//!
//! - A sample in one epoch is a run. Its `model` events are steps, its `tool` events their results. A scorer's model
//!   calls grade the run and do not belong to it.
//! - A model call inside the span of a tool is a sub-agent's. The same applies to calls of a tool's own events in old
//!   logs.
//! - The turns of the user are those of the sample's input, what a person typed in, and an operator's
//!   messages. Other user messages are the harness's.
//! - A sample without events is read from its messages: its tokens and times are then unknown.
//! - A response that Inspect took from its own cache cost nothing.
//! - Retries are failed attempts; the call that a person or a rule did not approve is refused.
//! - A run succeeded if all its clear scores agree: `C`, true and 1, against `I`, false and 0. Partial and other
//!   scores, and scores that contradict each other, leave it unknown.
//!
//! More than 250 lines because it reads archives or documents, whose events refer to each other by spans, and samples
//! that have messages alone.

mod assembler;
mod record;
mod report;

use serde_json::Value;
use serde_json::value::RawValue;

use self::assembler::InspectAssembler;
use self::record::{Attachments, InspectMessage, Sample, name};
use super::archive::{ZIP_MAGIC, each_entry};
use super::builder::RunBuilder;
use super::document::warn_of;
use super::part::Part;
use super::reading::Reading;
use super::text::present;
use super::warning::WarningKind;
use super::{Head, RunSink};

/// The beginnings of the name of an archive's first entry.
const DIRECTORIES: [&[u8]; 3] = [b"_journal/", b"samples/", b"header.json"];

/// Where the name of an archive's first entry stands, in bytes.
const FIRST_NAME: usize = 30;

pub(crate) fn detect(head: &Head<'_>) -> bool {
    if head.bytes().starts_with(ZIP_MAGIC) {
        let first = head.bytes().get(FIRST_NAME..).unwrap_or_default();
        return DIRECTORIES.iter().any(|directory| first.starts_with(directory));
    }
    let keys = head.object();
    keys.is_some_and(|keys| keys.have(&["version", "status", "eval"]))
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    if is_archive(reading.part) {
        return read_archive(reading, sink);
    }
    reading.each_item(&["samples"], &mut |item| {
        if let Some(sample) = reading.parse(item, "not a sample of this format") {
            read_sample(&sample, reading, sink);
        }
    });
}

/// A file that cannot be opened is none; reading it as a document tells why.
fn is_archive(part: &Part) -> bool {
    let mut magic = [0; 2];
    let read = part.open().and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && ZIP_MAGIC.starts_with(&magic)
}

fn read_archive(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let is_sample = |name: &str| {
        let name = name.strip_prefix("samples/");
        name.is_some_and(|name| is_whole_sample(name) || name.ends_with("/sample.json"))
    };
    let mut take = |name: &str, bytes: &[u8]| {
        if !is_whole_sample(name.trim_start_matches("samples/")) {
            return reading.warn(WarningKind::UnknownVersion, || {
                format!("`{name}` is a sample in pieces, which is not read")
            });
        }
        match serde_json::from_slice(bytes) {
            Ok(sample) => read_sample(&sample, reading, sink),
            Err(error) => warn_of(&error, reading.part, reading.warnings),
        }
    };
    each_entry(reading.part, &is_sample, &mut take, reading.warnings);
}

fn is_whole_sample(name: &str) -> bool {
    name.ends_with(".json") && !name.contains('/')
}

fn read_sample(sample: &Sample<'_>, reading: Reading<'_>, sink: &mut dyn RunSink) {
    let messages = sample.messages.iter().flatten();
    let messages: Vec<InspectMessage<'_>> = messages
        .filter_map(|message| reading.parse(message, "not a message of this format"))
        .collect();
    // Samples of different logs have the same names.
    let id = format!("{}/{}/{}", reading.part.stem(), name(sample.id), name(sample.epoch));
    let run = RunBuilder::new(reading, sink).named(Some(id));
    let mut sample_run = InspectAssembler::new(run, Attachments::of(sample), &messages);
    sample_run.input(turns_of(sample.input));
    let old = sample.transcript.as_ref().and_then(|transcript| transcript.events.as_deref());
    sample_run.events(sample.events.as_deref().or(old).unwrap_or_default());
    if !sample_run.has_steps() {
        sample_run.messages(messages);
    }
    sample_run.end(outcome_of(sample));
}

/// How many turns of the user a sample begins with: one text, or a list of messages.
fn turns_of(input: Option<&RawValue>) -> usize {
    let messages = present(input).map(serde_json::from_str::<Vec<InspectMessage<'_>>>);
    match messages {
        Some(Ok(messages)) => {
            messages.iter().filter(|message| message.role.as_deref() == Some("user")).count()
        }
        Some(Err(_)) => 1,
        None => 0,
    }
}

fn outcome_of(sample: &Sample<'_>) -> Option<bool> {
    let read = |raw| present(raw).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let scores = match read(sample.scores) {
        Some(Value::Object(scores)) => scores.into_iter().map(|(_, score)| score).collect(),
        // Versions before scores had names.
        _ => Vec::from_iter(read(sample.score)),
    };
    let mut outcomes = scores.iter().filter_map(|score| succeeded(score.get("value")?));
    let first = outcomes.next()?;
    outcomes.all(|outcome| outcome == first).then_some(first)
}

fn succeeded(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::String(value) => match value.as_str() {
            "C" => Some(true),
            "I" => Some(false),
            _ => None,
        },
        Value::Number(value) if value.as_f64() == Some(1.0) => Some(true),
        Value::Number(value) if value.as_f64() == Some(0.0) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
