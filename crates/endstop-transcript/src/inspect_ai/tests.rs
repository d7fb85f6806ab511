//! Rules of Inspect's logs, sample by sample.

use endstop_core::{Event, EventKind};

use super::*;
use crate::{RunFooter, RunHeader, Source, Warning};
use endstop_price::PriceTable;

/// The events of all runs by their names, with what matters of each; and the warnings.
#[derive(Default)]
struct Told {
    events: Vec<String>,
    outcomes: Vec<Option<bool>>,
    warnings: Vec<WarningKind>,
}

impl RunSink for Told {
    fn begin(&mut self, _: &RunHeader<'_>) {}

    fn event(&mut self, event: &Event<'_>) {
        let at = event.at.0;
        self.events.push(match event.kind {
            EventKind::UserMessage => format!("{at} user"),
            EventKind::AttemptFailed { .. } => format!("{at} attempt failed"),
            EventKind::Reply { usage, cost, tool_calls, .. } => {
                format!("{at} reply {:?} {cost:?} {tool_calls}", usage.map(|usage| usage.total()))
            }
            EventKind::ToolEnd { tool, result, failed, .. } => {
                format!("{at} {tool} {result} {failed}")
            }
            EventKind::ToolRefused { tool } => format!("{at} refused {tool}"),
            EventKind::ChildBegin { .. } => format!("{at} child"),
            EventKind::ChildEnd => format!("{at} child end"),
            _ => return,
        });
    }

    fn end(&mut self, end: &RunFooter<'_>) {
        self.outcomes.push(end.outcome);
    }

    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning.kind);
    }
}

fn told(sample: &str) -> Told {
    let log = format!(r#"{{"version":2,"status":"success","eval":{{}},"samples":[{sample}]}}"#);
    assert!(detect(&Head::new(log.as_bytes(), b"")));
    let part = Part::bytes("x.json", log.into_bytes());
    let source = Source { main: &part, children: &[], prices: PriceTable::embedded() };
    let mut told = Told::default();
    crate::format("inspect-ai").unwrap().read(&source, &mut told);
    told
}

fn events(events: &str) -> Told {
    told(&format!(r#"{{"id":1,"epoch":1,"events":[{events}]}}"#))
}

/// A model event of one call `c1`, or of none.
fn model(extra: &str, calls: bool) -> String {
    let calls = if calls { r#"[{"id":"c1","function":"f","arguments":{}}]"# } else { "null" };
    format!(
        r#"{{"event":"model","model":"x/y","output":{{"choices":[{{"message":{{"id":"m1","content":"","tool_calls":{calls}}}}}]}}{extra}}}"#
    )
}

#[test]
fn scores_that_tell_decide_and_contradictions_do_not() {
    for (scores, outcome) in [
        (r#"{"a":{"value":"C"}}"#, Some(true)),
        (r#"{"a":{"value":1.0},"b":{"value":true}}"#, Some(true)),
        (r#"{"a":{"value":"I"},"b":{"value":0.5}}"#, Some(false)),
        (r#"{"a":{"value":0},"b":{"value":false}}"#, Some(false)),
        (r#"{"a":{"value":"C"},"b":{"value":"I"}}"#, None),
        (r#"{"a":{"value":"P"},"b":{"value":"N"},"c":{"value":{"d":1}},"e":{}}"#, None),
        ("{}", None),
        ("null", None),
    ] {
        let told = told(&format!(r#"{{"id":1,"epoch":1,"scores":{scores}}}"#));
        assert_eq!(told.outcomes, [outcome], "{scores}");
    }
    assert_eq!(told(r#"{"id":1,"epoch":1,"score":{"value":"C"}}"#).outcomes, [Some(true)]);
}

#[test]
fn a_reply_from_the_cache_cost_nothing_and_a_failed_call_has_no_reply() {
    let read = events(&model(r#","cache":"read""#, false));
    assert_eq!(read.events, ["0 reply Some(0) Some(Known(Money(0))) 0"]);
    let failed = events(r#"{"event":"model","model":"x/y","output":{"choices":[]},"error":"503"}"#);
    assert_eq!(failed.events, ["0 attempt failed"]);
}

#[test]
fn results_without_an_event_are_those_of_the_conversation() {
    let messages = r#"[{"role":"tool","tool_call_id":"c1","content":"ok"}]"#;
    let call = model("", true);
    let sample = format!(r#"{{"id":1,"epoch":1,"messages":{messages},"events":[{call}]}}"#);
    assert_eq!(told(&sample).events, ["0 reply None Some(Unpriced) 1", "0 f ok false"]);
}

#[test]
fn what_people_said_are_turns_and_what_the_harness_said_is_not() {
    let messages = r#"[{"role":"user","content":"in","source":"input"},{"role":"user","content":"go on"},
        {"role":"user","content":"wait","source":"operator"},{"role":"assistant","id":"m1","content":""}]"#;
    let call = model(r#","timestamp":"2026-11-02T10:00:01Z""#, false);
    let typed = r#"{"event":"input","input":"x","timestamp":"2026-11-02T10:00:00Z"}"#;
    let sample = format!(
        r#"{{"id":1,"epoch":1,"input":"in","messages":{messages},"events":[{typed},{call}]}}"#
    );
    let expected = ["0 user", "0 user", "0 user", "1000 reply None Some(Unpriced) 0"];
    assert_eq!(told(&sample).events, expected);
}

#[test]
fn old_logs_hold_a_sub_agents_events_in_the_tools() {
    let (outer, inner) = (model("", true), model("", false));
    let tool =
        format!(r#"{{"event":"tool","id":"c1","function":"f","result":"r","events":[{inner}]}}"#);
    let step = |action| format!(r#"{{"event":"step","type":"scorer","action":"{action}"}}"#);
    let graded = [step("begin"), inner.clone(), step("end")].join(",");
    let told = events(&format!("{outer},{tool},{graded}"));
    let reply = |calls| format!("0 reply None Some(Unpriced) {calls}");
    let expected =
        [reply(1), "0 f r false".into(), "0 child".into(), reply(0), "0 child end".into()];
    assert_eq!(told.events, expected);
    assert!(told.warnings.is_empty());
}

#[test]
fn a_call_that_nobody_asked_for_is_told() {
    let told = events(r#"{"event":"tool","id":"c9","function":"f","result":"r"}"#);
    assert_eq!(told.warnings, [WarningKind::LateLine]);
}

#[test]
fn other_archives_and_documents_are_not_claimed() {
    for head in [&b"PK\x03\x04"[..], b"PK\x03\x04..........................word/document.xml"] {
        assert!(!detect(&Head::new(head, b"")));
    }
    for text in [r#"{"version":2}"#, r#"[{"version":2,"status":"","eval":{}}]"#, "{}"] {
        assert!(!detect(&Head::new(text.as_bytes(), b"")), "{text}");
    }
}
