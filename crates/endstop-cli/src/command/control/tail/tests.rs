//! Tests of `tail`.

use super::*;

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
