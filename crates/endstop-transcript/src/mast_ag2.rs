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

use super::act::{Act, Full, Reply, Step};
use super::document::{Element, Wanted, each_element};
use super::part::Part;
use super::player::Player;
use super::warning::{WarningKind, Warnings};
use super::writer::Closing;
use super::{Format, Head, RunHeader, RunSink, Source, Supplies};

/// The format.
pub(super) struct MastAg2;

impl Format for MastAg2 {
    fn id(&self) -> &'static str {
        "mast-ag2"
    }

    fn describe(&self) -> &'static str {
        "lists of MAST records of AG2 chats, {\"trace_id\", \"mas_name\", \"trace\"}"
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let keys = head.document().filter(|keys| keys.in_list);
        keys.is_some_and(|keys| keys.have(&["trace_id", "mas_name", "trace"]))
    }

    fn supplies(&self) -> Supplies {
        Supplies::default()
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        let part = source.main;
        let wanted = Wanted { list: &["records"], beside: &[] };
        each_element(part, wanted, &mut warnings, &mut |element, warnings| {
            if let Element::Item(item) = element {
                read_record(item, part, sink, warnings);
            }
        });
        warnings.send(sink);
    }
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

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn read_record(item: &RawValue, part: &Part, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let chat = serde_json::from_str::<Record<'_>>(item.get()).and_then(|record| {
        let id = record.trace_id.map(RawValue::get).unwrap_or_default();
        let id = serde_json::from_str::<Text<'_>>(id).map_or(Cow::Borrowed(id), |text| text.0);
        let id = id.into_owned();
        let trace = serde_json::from_str::<Text<'_>>(record.trace.get());
        let trace = trace.map_or(Cow::Borrowed(record.trace.get()), |text| text.0);
        Ok((id, serde_json::from_str::<Chat>(&trace)?))
    });
    let (id, chat) = match chat {
        Ok(chat) => chat,
        Err(error) => {
            let message = || format!("not a chat of separate messages: {error}");
            return warnings.add(WarningKind::Malformed, part.name(), None, message);
        }
    };
    let header = RunHeader { id: &id, format: MastAg2.id(), file: part.name(), model: None };
    let mut player = Player::new(sink, header);
    for (place, said) in chat.trajectory.into_iter().enumerate() {
        if place == 0 {
            player.act(Act::User(None));
            continue;
        }
        let mut step = Step::begin(None);
        step.answer(None, Reply::default());
        let text = match said.content {
            Some(Value::String(text)) => text,
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        if !text.is_empty() && step.say(None, text) == Err(Full) {
            warnings.add(WarningKind::TooLarge, part.name(), None, || {
                "a step holds more than is kept; the rest of it is dropped".to_owned()
            });
        }
        player.act(Act::Step(Box::new(step)));
    }
    player.end(Closing::default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunFooter, Warning};
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
        assert!(MastAg2.detect(&Head::new(text.as_bytes(), b"")));
        let part = Part::bytes("r.json", text.into_bytes());
        let mut told = Told::default();
        let source = Source { main: &part, children: &[], prices: PriceTable::embedded() };
        MastAg2.read(&source, &mut told);
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
        assert!(!MastAg2.detect(&Head::new(labels, b"")));
    }
}
