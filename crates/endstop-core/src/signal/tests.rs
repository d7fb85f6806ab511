//! Sections 3 and 4 of docs/semantics.md, row by row.

use alloc::string::ToString;
use alloc::vec;

use serde_json::json;

use super::*;

#[test]
fn reasons_have_the_values_priorities_and_order_of_the_table() {
    let table = [
        ("error", 0, true),
        ("stop_requested", 1, true),
        ("user_requested", 2, true),
        ("steps_limit", 2, true),
        ("tool_calls_limit", 2, true),
        ("messages_limit", 2, true),
        ("cost_limit", 3, true),
        ("token_limit", 3, true),
        ("time_limit", 4, true),
        ("retry_limit", 5, true),
        ("no_progress", 5, true),
        ("handed_off", 6, false),
        ("condition_met", 6, false),
        ("finish_reason", 6, false),
        ("completed", 8, false),
        ("unknown", 9, true),
    ];
    assert_eq!(StopReason::ALL.len(), table.len());
    for (reason, (value, priority, forced)) in StopReason::ALL.iter().zip(table) {
        assert_eq!(
            (reason.value(), reason.priority(), reason.is_forced()),
            (value, priority, forced)
        );
        assert_eq!(value.parse(), Ok(*reason));
    }
    assert!(StopReason::ALL.is_sorted());
}

#[test]
fn an_unknown_reason_is_named_and_the_known_ones_are_listed() {
    let error = "boredom".parse::<StopReason>().unwrap_err().to_string();
    assert!(
        error.starts_with("unknown stop reason `boredom`; known are error, stop_requested,"),
        "{error}"
    );
    assert!(serde_json::from_value::<StopSignal>(json!({"reason": "boredom"})).is_err());
}

#[test]
fn a_signal_is_written_with_all_four_keys() {
    let signal = StopSignal::new(StopReason::CostLimitReached);
    let json = serde_json::to_value(&signal).unwrap();
    assert_eq!(json, json!({"reason": "cost_limit", "message": "", "context": {}, "source": null}));
}

#[test]
fn a_signal_is_read_leniently() {
    for text in [
        json!({"context": [], "source": "", "extra": 1}),
        json!({"context": null}),
        json!({"reason": null}),
        json!({"reason": "completed", "message": null, "context": {}, "source": null}),
    ] {
        let signal: StopSignal = serde_json::from_value(text).unwrap();
        assert_eq!(signal, StopSignal::new(StopReason::Completed));
    }
    assert!(serde_json::from_value::<StopSignal>(json!({"context": [1]})).is_err());
}

#[test]
fn signal_text_is_value_or_value_and_message() {
    let signal = StopSignal::new(StopReason::Unknown);
    assert_eq!(signal.to_string(), "unknown");
    assert_eq!(signal.with_message("who knows").to_string(), "unknown: who knows");
}

#[test]
fn signals_keep_arrival_and_find_the_highest() {
    let first = StopSignal::new(StopReason::NoProgress);
    let user = StopSignal::new(StopReason::UserRequested).with_message("enough");
    let user_later = StopSignal::new(StopReason::UserRequested).with_message("really");
    let steps = StopSignal::new(StopReason::StepsLimitReached);
    let signals: StopSignals =
        vec![first.clone(), steps, user.clone(), user_later].into_iter().collect();
    assert_eq!(signals.first(), Some(&first));
    assert_eq!(signals.highest(), Some(&user));
    assert!(signals.has_any() && !StopSignals::default().has_any());
    assert_eq!(
        signals.to_string(),
        "no_progress | steps_limit | user_requested: enough | user_requested: really"
    );
}

#[test]
fn continuation_explains_itself() {
    let mut continuation = ExecutionContinuation::default();
    assert_eq!(continuation.explain(), "No Stop Signals; Continuation Requested: No");
    continuation.stop_signals.push(StopSignal::new(StopReason::StepsLimitReached));
    assert_eq!(continuation.explain(), "Stop Signals: steps_limit; Continuation Requested: No");
    continuation.is_continuation_requested = true;
    assert_eq!(continuation.explain(), "Stop Signals: steps_limit; Continuation Requested: Yes");
    let json = serde_json::to_value(&continuation).unwrap();
    assert_eq!(json["is_continuation_requested"], true);
    assert_eq!(json["stop_signals"][0]["reason"], "steps_limit");
}

#[test]
fn the_signal_that_a_tool_throws_is_kept_whole() {
    let carried = StopSignal::new(StopReason::ErrorForbade)
        .with_message("disk is full")
        .with_context("free", 0)
        .with_context("path", "/tmp")
        .with_source("disk");
    let mut stop = AgentStop::from(carried);
    stop.message = Some("ignored".to_string());
    stop.context.insert("free".to_string(), json!(1));
    let merged = stop.clone().into_signal("write_file");
    assert_eq!(merged.reason, StopReason::ErrorForbade);
    assert_eq!(merged.message, "disk is full");
    assert_eq!((&merged.context["free"], &merged.context["path"]), (&json!(1), &json!("/tmp")));
    assert_eq!(merged.source.as_deref(), Some("disk"));
    stop.source = Some("mount".to_string());
    assert_eq!(stop.into_signal("write_file").source.as_deref(), Some("mount"));
}

#[test]
fn a_bare_stop_gets_the_default_reason_the_reasons_value_and_the_tools_name() {
    let signal = AgentStop::default().into_signal("counter");
    assert_eq!(signal.reason, StopReason::StopRequested);
    assert_eq!(signal.message, "stop_requested");
    assert_eq!(signal.source.as_deref(), Some("counter"));
}

#[test]
fn a_thrown_stop_prints_its_message() {
    assert_eq!(AgentStop::default().to_string(), "the agent was asked to stop");
    let stop = AgentStop { message: Some("enough".to_string()), ..AgentStop::default() };
    assert_eq!(stop.to_string(), "enough");
}

#[test]
fn signals_are_iterated_in_order_of_arrival() {
    let reasons = [StopReason::NoProgress, StopReason::UserRequested];
    let signals: StopSignals = reasons.map(StopSignal::new).into_iter().collect();
    let seen: vec::Vec<StopReason> = (&signals).into_iter().map(|signal| signal.reason).collect();
    assert_eq!(seen, reasons);
}
