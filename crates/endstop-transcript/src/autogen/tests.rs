//! Rules of AutoGen's results.

use endstop_core::{Event, EventKind};

use super::*;
use crate::{CostIs, Part, RunFooter, RunHeader, Source, Warning};
use endstop_price::PriceTable;

/// The events, and the known cost.
#[derive(Default)]
struct Told {
    events: Vec<String>,
    costs: Vec<CostIs>,
}

impl RunSink for Told {
    fn begin(&mut self, _: &RunHeader<'_>) {}

    fn event(&mut self, event: &Event<'_>) {
        self.events.push(match event.kind {
            EventKind::UserMessage => "user".to_owned(),
            EventKind::Piece { text } => text.to_owned(),
            EventKind::Reply { usage, .. } => format!("{:?}", usage.map(|usage| usage.total())),
            _ => return,
        });
    }

    fn end(&mut self, end: &RunFooter<'_>) {
        self.costs.push(end.cost_is);
    }

    fn warn(&mut self, warning: Warning) {
        panic!("{warning}");
    }
}

fn told(text: &str) -> Told {
    assert!(detect(&Head::new(text.as_bytes(), b"")), "{text}");
    let part = Part::bytes("result.json", text.as_bytes().to_vec());
    let source = Source { main: &part, children: &[], prices: PriceTable::embedded() };
    let mut told = Told::default();
    crate::format("autogen").unwrap().read(&source, &mut told);
    told
}

#[test]
fn only_what_a_model_was_asked_for_is_a_call() {
    let say = |source: &str, kind: &str, usage: &str| {
        format!(
            r#"{{"source":"{source}","type":"{kind}","content":"{source}","models_usage":{usage}}}"#
        )
    };
    let messages = [
        say("user", "TextMessage", "null"),
        say("coder", "TextMessage", r#"{"prompt_tokens":7,"completion_tokens":2}"#),
        say("executor", "TextMessage", "null"),
        say("boss", "UserInputRequestedEvent", "null"),
        say("boss", "TextMessage", "null"),
        say("coder", "TextMessage", r#"{"prompt_tokens":0,"completion_tokens":0}"#),
        say("coder", "ThoughtEvent", "null"),
    ];
    let told = told(&format!(r#"{{"messages":[{}],"stop_reason":null}}"#, messages.join(",")));
    assert_eq!(told.events, ["user", "coder", "Some(9)", "user", "coder", "None"]);
    assert_eq!(told.costs, [CostIs::Unknown]);
}

#[test]
fn chats_of_others_are_not_claimed() {
    for text in [
        r#"{"messages":[{"role":"user","content":"x"}]}"#,
        r#"[{"role":"user","content":"models_usage"}]"#,
    ] {
        assert!(!detect(&Head::new(text.as_bytes(), b"")), "{text}");
    }
}

#[test]
fn a_run_begins_at_its_first_message_of_whatever_kind() {
    #[derive(Default)]
    struct Times(Vec<u64>);
    impl RunSink for Times {
        fn begin(&mut self, _: &RunHeader<'_>) {}
        fn event(&mut self, event: &Event<'_>) {
            self.0.push(event.at.0);
        }
        fn end(&mut self, _: &RunFooter<'_>) {}
        fn warn(&mut self, warning: Warning) {
            panic!("{warning}");
        }
    }
    let text = r#"[{"source":"memory","type":"MemoryQueryEvent","models_usage":null,"created_at":"2026-11-02T10:00:00Z"},
        {"source":"user","type":"TextMessage","models_usage":null,"created_at":"2026-11-02T10:00:02Z","content":"x"}]"#;
    let part = Part::bytes("result.json", text.as_bytes());
    let mut times = Times::default();
    let source = Source { main: &part, children: &[], prices: PriceTable::embedded() };
    crate::format("autogen").unwrap().read(&source, &mut times);
    // It begins, the user speaks, it ends.
    assert_eq!(times.0, [0, 2_000, 2_000]);
}
