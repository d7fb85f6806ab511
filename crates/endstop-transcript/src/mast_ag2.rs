//! Chats of AG2 (the other line of AutoGen) as records of MAST, the collection of failures of multi-agent
//! systems, hold them.
//!
//! - The first message is the task, each other one is a call of its speaker's model. There is no usage, no
//!   time and no tool.
//! - A record whose trace is one log instead of separate messages is no transcript.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::builder::RunBuilder;
use super::reading::Reading;
use super::step::Reply;
use super::text::word;
use super::{Head, RunSink};

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let keys = head.document().filter(|keys| keys.in_list);
    keys.is_some_and(|keys| keys.have(&["trace_id", "mas_name", "trace"]))
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    reading.each_item(&["records"], &mut |item| read_record(item, reading, sink));
}

/// A record of MAST.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    trace_id: Option<&'a RawValue>,
    /// JSON, or a text that holds it.
    #[serde(borrow)]
    trace: &'a RawValue,
}

#[derive(Deserialize)]
struct Chat {
    trajectory: Vec<Said>,
}

/// A message of AG2.
#[derive(Deserialize)]
struct Said {
    content: Option<Value>,
}

fn read_record(item: &RawValue, reading: Reading<'_>, sink: &mut dyn RunSink) {
    let wrong = "not a chat of separate messages";
    let Some(record) = reading.parse::<Record<'_>>(item, wrong) else { return };
    let trace = record.trace.get();
    let trace = word(Some(record.trace)).unwrap_or(Cow::Borrowed(trace));
    let Some(chat) = reading.parse_text::<Chat>(&trace, wrong) else { return };
    let id = record.trace_id.map(RawValue::get).unwrap_or_default();
    let id = word(record.trace_id).unwrap_or(Cow::Borrowed(id));
    let mut run = RunBuilder::new(reading, sink).named(Some(id));
    for (place, said) in chat.trajectory.into_iter().enumerate() {
        if place == 0 {
            run.user(None);
            continue;
        }
        let step = run.reply(None, Reply::default());
        let text = match said.content {
            Some(Value::String(text)) => text,
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        let added = if text.is_empty() { Ok(()) } else { step.say(None, text) };
        run.check(added);
    }
    run.end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Part, RunFooter, RunHeader, Source, Warning, WarningKind, format};
    use endstop_price::PriceTable;

    /// Ids, numbers of events, kinds of warnings.
    #[derive(Default)]
    struct Told(Vec<String>, usize, Vec<WarningKind>);

    impl RunSink for Told {
        fn begin(&mut self, run: &RunHeader<'_>) {
            self.0.push(run.id.to_owned());
        }

        fn event(&mut self, _: &endstop_core::Event<'_>) {
            self.1 += 1;
        }

        fn end(&mut self, _: &RunFooter<'_>) {}

        fn warn(&mut self, warning: Warning) {
            self.2.push(warning.kind);
        }
    }

    fn told(trace: &str) -> Told {
        let text = format!(r#"[{{"trace_id":"x","mas_name":"AG2","trace":{trace}}}]"#);
        assert!(detect(&Head::new(text.as_bytes(), b"")));
        let part = Part::bytes("r.json", text.into_bytes());
        let mut told = Told::default();
        let source = Source { main: &part, children: &[], prices: PriceTable::embedded() };
        format("mast-ag2").unwrap().read(&source, &mut told);
        told
    }

    #[test]
    fn a_record_may_hold_its_chat_as_text_or_as_json_but_not_as_one_log() {
        let chat = r#"{"trajectory":[{"content":"t"},{"content":"a","name":"A"}]}"#;
        for trace in [chat, &serde_json::to_string(chat).unwrap()] {
            let Told(runs, events, warnings) = told(trace);
            // Begin, turn, five of the step, end.
            assert_eq!((runs, events, warnings), (vec!["x".to_owned()], 8, vec![]));
        }
        let Told(runs, _, warnings) = told(r#"{"trajectory":"all in one"}"#);
        assert_eq!((runs.len(), warnings), (0, vec![WarningKind::Malformed]));
    }

    #[test]
    fn labels_of_records_are_not_claimed() {
        let labels = br#"{"meta":{},"labels":[{"trace_id":"x"}]}"#;
        assert!(!detect(&Head::new(labels, b"")));
    }
}
