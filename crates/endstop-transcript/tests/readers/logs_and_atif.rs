//! Rules of spend logs and of ATIF that the examples do not show.

use endstop_transcript::{CostIs, Part, Transcript, WarningKind, format};
use serde_json::{Value, json};

use crate::sink::Keep;

fn read(id: &str, document: &Value) -> Keep {
    let main = Part::bytes("file.json", document.to_string().into_bytes());
    let keep = Keep::of(&Transcript { format: format(id).unwrap(), main, children: Vec::new() });
    assert!(keep.faults().is_empty(), "{:?}", keep.faults());
    keep
}

fn row(id: &str, session: Option<&str>, second: u64, spend: Value) -> Value {
    json!({
        "request_id": id, "session_id": session, "spend": spend, "call_type": "acompletion",
        "startTime": format!("2026-11-01T12:00:{second:02}Z"), "model": "gpt-4o-mini",
        "endTime": format!("2026-11-01T12:00:{second:02}.5Z"), "prompt_tokens": 10,
        "completion_tokens": 1,
    })
}

#[test]
fn sessions_that_are_mixed_in_a_log_are_runs_of_their_own() {
    let keep = read(
        "litellm",
        &json!([
            row("1", Some("a"), 9, json!(0.25)),
            row("2", None, 3, json!(1)),
            row("3", Some("b"), 5, json!(0.5)),
            row("4", Some("a"), 1, json!(0.125)),
            row("5", Some("b"), 6, json!(0.5)),
        ]),
    );
    let runs: Vec<_> =
        keep.runs.iter().map(|r| (r.id.as_str(), r.steps, r.cost.to_string())).collect();
    let expected = [("2", 1, "$1.00"), ("a", 2, "$0.375"), ("b", 2, "$1.00")];
    assert_eq!(runs, expected.map(|(id, steps, cost)| (id, steps, cost.to_owned())));
    assert!(keep.runs[1].lines[3].contains("\"wall\":1793534401000"), "{}", keep.runs[1].lines[3]);
}

#[test]
fn a_spend_that_is_no_amount_is_told_and_computed() {
    for bad in [json!(-1), json!("x"), json!(1e30)] {
        let keep = read("litellm", &json!([row("1", None, 1, bad.clone())]));
        assert_eq!(keep.warnings[0].kind, WarningKind::BadNumber, "{bad}");
        assert_eq!(keep.runs[0].cost_is, Some(CostIs::Computed), "{bad}");
    }
    let keep = read("litellm", &json!([row("1", None, 1, Value::Null)]));
    assert_eq!((keep.warnings.len(), keep.runs[0].cost_is), (0, Some(CostIs::Computed)));
}

fn trajectory(id: &str, steps: &Value, children: &[Value]) -> Value {
    json!({
        "schema_version": "ATIF-v1.7", "trajectory_id": id, "steps": steps,
        "agent": {"name": "x", "version": "1"}, "subagent_trajectories": children,
    })
}

#[test]
fn sub_agents_that_nothing_refers_to_are_played_at_the_end() {
    let step = json!([{"step_id": 1, "source": "agent", "message": "Hi."}]);
    let grandchild = trajectory("c", &step, &[]);
    let keep = read("atif", &trajectory("a", &step, &[trajectory("b", &step, &[grandchild])]));
    let run = &keep.runs[0];
    assert_eq!((run.id.as_str(), run.steps, run.own_steps, run.children), ("a", 3, 1, 2));
    assert!(run.lines.iter().any(|line| line.contains("\"child_begin\",\"depth\":2")));
}

#[test]
fn a_chain_of_sub_agents_has_an_end() {
    let step = json!([{"step_id": 1, "source": "agent", "message": "Hi."}]);
    let chain =
        (0..40).fold(trajectory("z", &step, &[]), |inner, _| trajectory("y", &step, &[inner]));
    let keep = read("atif", &chain);
    assert_eq!(keep.runs[0].children, 16);
    assert_eq!(keep.warnings[0].kind, WarningKind::TooLarge);
}

#[test]
fn metrics_may_tell_money_alone_and_copied_steps_do_not_count() {
    let steps = json!([
        {"step_id": 1, "source": "agent", "message": "", "metrics": {"cost_usd": 0.5},
         "extra": {"endstop": 7, "finish_reason": 8}},
        {"step_id": 2, "source": "agent", "message": "", "is_copied_context": true,
         "metrics": {"cost_usd": 2}},
        {"step_id": 3, "source": "agent", "message": "", "metrics": null},
        {"step_id": 4, "source": "user", "message": [{"type": "text", "text": "On."}]},
    ]);
    let run = &read("atif", &trajectory("a", &steps, &[])).runs[0];
    assert_eq!((run.steps, run.turns, run.cost.to_string().as_str()), (2, 1, "$0.50"));
    assert_eq!(run.cost_is, Some(CostIs::Unknown));
}
