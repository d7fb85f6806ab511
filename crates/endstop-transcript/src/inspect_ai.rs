//! Logs of Inspect: one JSON document, or an `.eval` archive with one document for each sample.
//!
//! - A sample in one epoch is a run. Its `model` events are steps, its `tool` events their results. What a
//!   scorer asks of a model grades the run and is no part of it.
//! - A model call inside the span of a tool is a sub-agent's; so are those of a tool's own events in old logs.
//! - The turns of the user are those of the sample's input, what a person typed in, and an operator's
//!   messages. Other user messages are the harness's.
//! - A sample without events is read from its messages: its tokens and times are then unknown.
//! - A reply that Inspect took from its own cache cost nothing.
//! - Retries are failed attempts; the call that a person or a rule did not approve is refused.
//! - A run succeeded if all its scores that tell say so: `C`, true and 1, against `I`, false and 0. Partial
//!   and other scores do not tell, nor do scores that contradict each other.

mod bill;
mod gather;
mod record;

use serde_json::Value;
use serde_json::value::RawValue;

use self::gather::Gather;
use self::record::{Attachments, Message, Sample, name, present};
use super::archive::{ZIP_MAGIC, each_entry};
use super::document::{Element, Wanted, each_element, warn_of};
use super::lanes;
use super::part::Part;
use super::warning::{WarningKind, Warnings};
use super::writer::{Closing, RunWriter};
use super::{Format, Head, RunHeader, RunSink, Source, Supplies};

/// What an archive's first entry begins with in its name.
const FOLDERS: [&[u8]; 3] = [b"_journal/", b"samples/", b"header.json"];

/// Where the name of an archive's first entry stands, in bytes.
const FIRST_NAME: usize = 30;

/// The format.
pub(super) struct InspectAi;

impl Format for InspectAi {
    fn id(&self) -> &'static str {
        "inspect-ai"
    }

    fn describe(&self) -> &'static str {
        "logs of Inspect evaluations, `logs/*.eval` and `.json`, one run for each sample and epoch"
    }

    fn kept(&self) -> &'static str {
        "`logs/` of the project, or `$INSPECT_LOG_DIR`"
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        if head.bytes().starts_with(ZIP_MAGIC) {
            let first = head.bytes().get(FIRST_NAME..).unwrap_or_default();
            return FOLDERS.iter().any(|folder| first.starts_with(folder));
        }
        let keys = head.document().filter(|keys| !keys.in_list);
        keys.is_some_and(|keys| keys.have(&["version", "status", "eval"]))
    }

    fn supplies(&self) -> Supplies {
        Supplies {
            tokens: true,
            money: true,
            time: true,
            tool_failures: true,
            retries: true,
            finish: true,
            subagents: true,
            interventions: false,
        }
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        match is_archive(source.main) {
            true => read_archive(source, sink, &mut warnings),
            false => read_log(source, sink, &mut warnings),
        }
        warnings.send(sink);
    }
}

/// A file that cannot be opened is none; reading it as a document tells why.
fn is_archive(part: &Part) -> bool {
    let mut magic = [0; 2];
    let read = part.open().and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && ZIP_MAGIC.starts_with(&magic)
}

fn read_archive(source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let is_sample = |name: &str| {
        let name = name.strip_prefix("samples/");
        name.is_some_and(|name| is_whole_sample(name) || name.ends_with("/sample.json"))
    };
    each_entry(
        source.main,
        &is_sample,
        &mut |name, bytes, warnings| {
            if !is_whole_sample(name.trim_start_matches("samples/")) {
                let message = || format!("`{name}` is a sample in pieces, which is not read");
                return warnings.add(
                    WarningKind::UnknownVersion,
                    source.main.name(),
                    None,
                    message,
                );
            }
            match serde_json::from_slice(bytes) {
                Ok(sample) => read_sample(&sample, source, sink, warnings),
                Err(error) => warn_of(&error, source.main, warnings),
            }
        },
        warnings,
    );
}

fn is_whole_sample(name: &str) -> bool {
    name.ends_with(".json") && !name.contains('/')
}

fn read_log(source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let wanted = Wanted { list: &["samples"], beside: &[] };
    each_element(source.main, wanted, warnings, &mut |element, warnings| {
        let Element::Item(item) = element else { return };
        match serde_json::from_str(item.get()) {
            Ok(sample) => read_sample(&sample, source, sink, warnings),
            Err(error) => {
                let message = || format!("not a sample of this format: {error}");
                warnings.add(WarningKind::Malformed, source.main.name(), None, message);
            }
        }
    });
}

fn read_sample(
    sample: &Sample<'_>,
    source: &Source<'_>,
    sink: &mut dyn RunSink,
    warnings: &mut Warnings,
) {
    let mut messages: Vec<Message<'_>> = Vec::new();
    for message in sample.messages.iter().flatten() {
        match serde_json::from_str(message.get()) {
            Ok(message) => messages.push(message),
            Err(error) => {
                let message = || format!("not a message of this format: {error}");
                warnings.add(WarningKind::Malformed, source.main.name(), None, message);
            }
        }
    }
    let attachments = Attachments::of(sample);
    let mut gather = Gather::new(source.main, source.prices, attachments, &messages);
    gather.input(turns_of(sample.input));
    let old = sample.transcript.as_ref().and_then(|transcript| transcript.events.as_deref());
    gather.events(sample.events.as_deref().or(old).unwrap_or_default(), warnings);
    if !gather.has_steps() {
        gather.messages(messages);
    }
    let run = gather.finish(warnings);
    // Samples of different logs have the same names.
    let id = format!("{}/{}/{}", source.main.stem(), name(sample.id), name(sample.epoch));
    let header = RunHeader {
        id: &id,
        format: InspectAi.id(),
        file: source.main.name(),
        model: run.model.as_deref(),
    };
    let mut writer = RunWriter::begin(sink, &header, run.first);
    lanes::play(&mut writer, &run.own, &run.children);
    let outcome = outcome_of(sample);
    writer.end(Closing { outcome, has_money: true, ..Closing::default() });
}

/// How many turns of the user a sample begins with: one text, or a list of messages.
fn turns_of(input: Option<&RawValue>) -> usize {
    let messages = present(input).map(serde_json::from_str::<Vec<Message<'_>>>);
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
    let mut verdicts = scores.iter().filter_map(|score| succeeded(score.get("value")?));
    let first = verdicts.next()?;
    verdicts.all(|verdict| verdict == first).then_some(first)
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
#[path = "inspect_ai_tests.rs"]
mod tests;
