//! Tests of `tail`.

use super::*;
use crate::golden_file::golden;

fn said(printed: &mut Printed, run: &Value) -> String {
    let mut out = Vec::new();
    printed.print(run, "r", false, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().filter(|line| !line.contains("0 steps")).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_change_has_one_line() {
    let run = |status: &str, reason: &str, pause: Value| json!({ "status": status, "pause": pause, "report": { "reason": reason } });
    let mut printed = Printed::default();
    let completed = run("completed", "completed", Value::Null);
    assert_eq!(said(&mut printed, &completed), "r: completed");
    // No call has met this pause yet; then one does.
    let pause = json!({ "by": "ann", "why": "lunch" });
    assert_eq!(
        said(&mut printed, &run("completed", "", pause.clone())),
        "r: paused: by ann: lunch"
    );
    assert_eq!(said(&mut printed, &run("paused", "", pause)), "");
    let resumed = run("in_progress", "", Value::Null);
    assert_eq!(said(&mut printed, &resumed), "r: resumed\nr: in_progress");
    let stopped = run("stopped", "steps_limit", Value::Null);
    assert_eq!(said(&mut printed, &stopped), "r: stopped: steps_limit");
}

/// A run that spends, warns, is paused and resumed, and stops.
#[test]
fn the_form_of_a_line_stays() {
    let run = |steps: u64, usd: &str, status: &str, more: Value| {
        let rule = json!({
            "action": "warn", "id": "soon", "trips": steps > 1, "tree": { "text": "steps >= 2" },
        });
        let mut run = json!({
            "status": status,
            "pause": null,
            "waits_for": null,
            "report": {
                "reason": null,
                "spend": { "usd": usd },
                "totals": { "steps": steps, "tokens": steps * 60 },
                "verdict": { "primary": null, "rules": [rule] },
            },
        });
        if status == "stopped" {
            run["report"]["reason"] = json!("user_requested");
            run["report"]["verdict"]["primary"] = json!({ "message": "enough" });
        }
        run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        run
    };
    let pause = json!({ "pause": { "by": "ann", "why": "lunch" } });
    let waits = json!({ "waits_for": "budget me until tomorrow" });
    let runs = [
        run(1, "0.0000081", "in_progress", json!({})),
        run(2, "0.0000162", "paused", pause),
        run(2, "0.0000162", "in_progress", waits),
        run(2, "0.0000162", "in_progress", json!({})),
        run(2, "0.0000162", "stopped", json!({})),
    ];
    for (name, as_json) in [("tail-lines.txt", false), ("tail-lines.jsonl", true)] {
        let (mut printed, mut out) = (Printed::default(), Vec::new());
        for run in &runs {
            printed.print(run, "nightly", as_json, &mut out).unwrap();
        }
        golden(name, &String::from_utf8(out).unwrap(), &[]);
    }
}
