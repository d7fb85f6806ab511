//! Trace lines read back as the events they were written from.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::event::{EventKind, NewLimit};
use crate::signal::StopReason;
use crate::units::TokenUsage;

fn round_trip(kind: EventKind<'_>) {
    let event = Event {
        at: Millis(7),
        wall: WallTime(1_793_534_400_000),
        source: Source::Descendant,
        kind,
    };
    let text = serde_json::to_string(&Line::from_event(&event)).unwrap();
    let line: Line<'_> = serde_json::from_str(&text).unwrap();
    assert_eq!(line.as_event(), event, "{text}");
}

#[test]
fn every_kind_is_read_as_it_was_written() {
    let signal = StopSignal::new(StopReason::ErrorForbade).with_message("disk full");
    let usage =
        TokenUsage { input: 1, cache_read: 2, cache_write: 3, cache_write_1h: 4, output: 5 };
    let picos = Money::from_picos;
    let cost = Some(Cost::Known(picos(1)));
    for kind in [
        EventKind::RunBegin { agent: Some("planner"), depth: 2 },
        EventKind::UserMessage,
        EventKind::StepBegin,
        EventKind::AttemptBegin { next_cost: Some(Cost::Unpriced) },
        EventKind::Reserve { input_tokens: 1, output_tokens: u64::MAX, cost },
        EventKind::Reserve { input_tokens: 0, output_tokens: 0, cost: None },
        EventKind::Piece { text: "a \"quoted\"\nline, ü" },
        EventKind::AttemptFailed { usage: Some(usage), cost },
        EventKind::Reply {
            model: Some("m"),
            usage: Some(usage),
            cost,
            finish: Some("stop"),
            tool_calls: 3,
        },
        EventKind::Reply { model: None, usage: None, cost: None, finish: None, tool_calls: 0 },
        EventKind::ToolReserve { tool: "search", cost: picos(7), held: picos(1) },
        EventKind::ToolReserve { tool: "search", cost: picos(7), held: Money::ZERO },
        EventKind::ToolBegin { tool: "read" },
        EventKind::ToolCost { tool: "search", cost: picos(9_000_000_000_000_000_000) },
        EventKind::ToolEnd { tool: "read", arguments: "{\"a\":1}", result: "\u{0}", failed: true },
        EventKind::ToolRefused { tool: "rm" },
        EventKind::StepEnd,
        EventKind::ChildBegin { depth: 1 },
        EventKind::ChildEnd,
        EventKind::HandOff { to: "writer" },
        EventKind::Fact { name: "score", value: u64::MAX },
        EventKind::Signal { name: "stop", by: "ann", why: "reviewed" },
        EventKind::Signal { name: "stop", by: "", why: "" },
        EventKind::Cancel { message: "no" },
        EventKind::Kill { message: "" },
        EventKind::StopRaised { signal: &signal },
        EventKind::ContinuationRequested { by: "critic" },
        EventKind::Paused,
        EventKind::Resumed,
        EventKind::PauseRequested { by: "ann", why: "lunch" },
        EventKind::PauseRequested { by: "", why: "" },
        EventKind::ResumeRequested { by: "bob", why: "back" },
        EventKind::ResumeRequested { by: "bob", why: "" },
        EventKind::Approved {
            rule: "ask",
            limit: Some(NewLimit::cost(Money::from_picos(9))),
            by: "",
            why: "",
        },
        EventKind::Approved { rule: "ask", limit: None, by: "", why: "" },
        EventKind::Reopened { by: "ann", why: "more agents" },
        EventKind::Reopened { by: "ann", why: "" },
        EventKind::Tick,
        EventKind::RunEnd { succeeded: Some(false) },
        EventKind::RunEnd { succeeded: None },
    ] {
        round_trip(kind);
    }
}

#[test]
fn unknown_keys_are_ignored_and_unknown_kinds_refused() {
    let line: Line<'_> =
        serde_json::from_str(r#"{"at":1,"event":"step_begin","later":[{}]}"#).unwrap();
    assert_eq!(line.as_event(), Event::new(Millis(1), EventKind::StepBegin));
    let error = serde_json::from_str::<Line<'_>>(r#"{"at":1,"event":"teleport"}"#).unwrap_err();
    assert!(error.to_string().contains("unknown variant `teleport`"), "{error}");
}

#[test]
fn what_did_not_begin_and_what_is_an_estimate_are_marked() {
    let begins = Event::new(Millis(1), EventKind::StepBegin);
    for (directive, refused) in [(Directive::Stop, true), (Directive::Finish, false)] {
        let line = Line { estimate: refused, ..Line::answered(&begins, directive) };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(text.contains(r#""refused":true,"estimate":true"#), refused, "{text}");
        let read: Line<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (read.refused, read.estimate, read.as_event()),
            (refused, refused, begins.clone())
        );
    }
    let ended = Event::new(Millis(1), EventKind::StepEnd);
    assert!(!Line::answered(&ended, Directive::Stop).refused);
}

#[test]
fn amounts_and_counts_that_are_none_are_refused() {
    for bad in [
        r#"{"at":1,"event":"reply","cost":"-1"}"#,
        r#"{"at":1,"event":"reply","cost":0.5}"#,
        r#"{"at":1,"event":"reply","cost":"1e3"}"#,
        r#"{"at":1,"event":"reply","usage":{"input":-1}}"#,
        r#"{"at":1,"event":"reply","usage":{"input":1.5}}"#,
        r#"{"at":-1,"event":"step_begin"}"#,
        r#"{"at":1,"event":"reply","tool_calls":"2"}"#,
    ] {
        assert!(serde_json::from_str::<Line<'_>>(bad).is_err(), "{bad}");
    }
}

#[test]
fn text_without_escapes_is_borrowed() {
    let text = r#"{"at":1,"event":"piece","text":"plain words"}"#;
    let line: Line<'_> = serde_json::from_str(text).unwrap();
    assert!(matches!(line.kind, Kind::Piece { text: Cow::Borrowed(_) }));
}

/// Version 1 as it was first written, kept forever: it must read, and write back byte for byte.
#[test]
fn version_1_of_the_trace_is_read_for_ever() {
    let golden = include_str!("../../../../tests/golden/trace-v1.jsonl");
    let mut lines = golden.lines();
    let first = lines.next().unwrap();
    let header: Header<'_> = serde_json::from_str(first).unwrap();
    assert_eq!((header.endstop_trace, &*header.run), (1, "golden"));
    assert_eq!(serde_json::to_string(&header).unwrap(), first);
    let rest: Vec<&str> = lines.collect();
    assert_eq!(rest.len(), 29);
    for text in rest {
        let line: Line<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&line).unwrap(), text);
        assert_eq!(Line::from_event(&line.as_event()), line);
    }
}

#[test]
fn a_tools_cost_is_written_in_dollars() {
    for text in [
        r#"{"at":952,"event":"tool_reserve","tool":"search","cost":"0.05","held":"0.02"}"#,
        r#"{"at":953,"descendant":true,"event":"tool_reserve","tool":"search","cost":"0.05"}"#,
        r#"{"at":960,"unconfirmed":"0.05","event":"tool_cost","tool":"search","cost":"0.05"}"#,
    ] {
        let line: Line<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&line).unwrap(), text);
    }
    let wrong = r#"{"at":960,"event":"tool_cost","tool":"search","cost":"unpriced"}"#;
    assert!(serde_json::from_str::<Line<'_>>(wrong).is_err());
}
