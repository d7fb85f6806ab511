//! Tests of `mast_ag2`.

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
