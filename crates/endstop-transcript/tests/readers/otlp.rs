//! Rules of OTLP spans that the examples do not show.

use endstop_transcript::{Part, Transcript, WarningKind, format};
use serde_json::{Value, json};

use crate::sink::Keep;

fn read(spans: &[Value]) -> Keep {
    let document = json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]});
    let main = Part::bytes("spans.json", document.to_string().into_bytes());
    let keep =
        Keep::of(&Transcript { format: format("otlp").unwrap(), main, children: Vec::new() });
    assert!(keep.faults().is_empty(), "{:?}", keep.faults());
    keep
}

/// A span that begins and ends at these seconds.
fn span(
    trace: &str,
    ids: (&str, &str),
    seconds: (u64, u64),
    attributes: &[(&str, Value)],
) -> Value {
    let nanos = |seconds: u64| (seconds * 1_000_000_000).to_string();
    let attributes: Vec<Value> =
        attributes.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    json!({
        "traceId": trace, "spanId": ids.0, "parentSpanId": ids.1, "attributes": attributes,
        "startTimeUnixNano": nanos(seconds.0), "endTimeUnixNano": nanos(seconds.1),
    })
}

fn text(text: &str) -> Value {
    json!({"stringValue": text})
}

fn chat(trace: &str, ids: (&str, &str), seconds: (u64, u64), tokens: Value) -> Value {
    let operation = ("gen_ai.operation.name", text("chat"));
    let usage = ("gen_ai.usage.input_tokens", tokens);
    let output = ("gen_ai.usage.output_tokens", json!({"intValue": "1"}));
    span(trace, ids, seconds, &[operation, usage, output])
}

fn count(number: u64) -> Value {
    json!({"intValue": number.to_string()})
}

#[test]
fn traces_that_are_mixed_in_a_file_are_runs_of_their_own() {
    let keep = read(&[
        chat("aa", ("1", ""), (20, 21), count(5)),
        chat("bb", ("1", ""), (10, 11), count(7)),
        chat("aa", ("2", ""), (12, 13), count(11)),
    ]);
    let runs: Vec<_> =
        keep.runs.iter().map(|run| (run.id.as_str(), run.steps, run.tokens)).collect();
    assert_eq!(runs, [("bb", 1, 8), ("aa", 2, 18)]);
}

#[test]
fn a_call_within_a_call_is_told_twice_and_counted_once() {
    let outer = span("aa", ("1", ""), (1, 9), &[("gen_ai.operation.name", text("chat"))]);
    let link = span("aa", ("2", "1"), (2, 8), &[]);
    let keep = read(&[outer, link, chat("aa", ("3", "2"), (3, 7), count(5))]);
    assert_eq!((keep.runs[0].steps, keep.runs[0].tokens), (1, 6));
    let outer = chat("aa", ("1", ""), (1, 9), count(5));
    let keep = read(&[outer, chat("aa", ("3", "1"), (3, 7), count(5))]);
    assert_eq!((keep.runs[0].steps, keep.runs[0].tokens), (1, 6));
}

#[test]
fn counts_that_are_none_are_told_and_are_not_zero() {
    for bad in [json!({"intValue": "-5"}), json!({"intValue": "x"}), json!({"doubleValue": 1.5})] {
        let keep = read(&[chat("aa", ("1", ""), (1, 2), bad.clone())]);
        assert_eq!((keep.runs[0].steps, keep.runs[0].tokens), (1, 0), "{bad}");
        assert_eq!(keep.warnings[0].kind, WarningKind::BadNumber, "{bad}");
        assert!(!keep.runs[0].lines.iter().any(|line| line.contains("\"usage\"")), "{bad}");
    }
}

#[test]
fn agents_below_agents_are_deeper() {
    let agent =
        |ids, seconds| span("aa", ids, seconds, &[("gen_ai.operation.name", text("invoke_agent"))]);
    let keep = read(&[
        agent(("1", ""), (1, 100)),
        agent(("2", "1"), (2, 90)),
        agent(("3", "2"), (3, 80)),
        chat("aa", ("4", "3"), (4, 5), count(5)),
        chat("aa", ("5", "1"), (91, 92), count(5)),
    ]);
    let run = &keep.runs[0];
    assert_eq!((run.children, run.steps, run.own_steps, run.turns), (2, 2, 1, 3));
    assert!(run.lines.iter().any(|line| line.contains("\"child_begin\",\"depth\":2")));
}

#[test]
fn parents_that_go_in_circles_end() {
    let keep = read(&[
        chat("aa", ("1", "2"), (1, 2), count(5)),
        span("aa", ("2", "1"), (1, 2), &[("gen_ai.operation.name", text("invoke_agent"))]),
        chat("aa", ("3", "3"), (3, 4), count(5)),
    ]);
    assert!(keep.runs[0].steps >= 1);
}

#[test]
fn cached_tokens_are_known_by_their_underscored_names() {
    let call = |read: &str, written: &str| {
        read_one(&[
            ("gen_ai.operation.name", text("chat")),
            ("gen_ai.response.model", text("claude-sonnet-4-5")),
            ("gen_ai.provider.name", text("anthropic")),
            ("gen_ai.usage.input_tokens", count(1_000)),
            ("gen_ai.usage.output_tokens", count(10)),
            (read, count(600)),
            (written, count(100)),
        ])
    };
    let dotted =
        call("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_creation.input_tokens");
    for (read, written) in [
        ("gen_ai.usage.cache_read_input_tokens", "gen_ai.usage.cache_creation_input_tokens"),
        ("gen_ai.usage.cached_input_tokens", "gen_ai.usage.cache_write_input_tokens"),
    ] {
        assert_eq!(call(read, written), dotted);
    }
}

/// The events of a trace of one call.
fn read_one(attributes: &[(&str, Value)]) -> String {
    read(&[span("aa", ("1", ""), (1, 2), attributes)]).as_trace()
}
