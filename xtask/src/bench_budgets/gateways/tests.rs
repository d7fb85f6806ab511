//! Tests of `gateways`.

use serde_json::json;

use super::*;

fn live(reason: Option<&str>, status: &str) -> Value {
    let totals = json!({ "steps": 16, "tokens": 300 });
    let spend = json!({ "usd": "0.25" });
    json!({ "report": { "totals": totals, "spend": spend, "reason": reason, "status": status } })
}

fn replay(reason: Option<&str>, status: &str) -> Value {
    let primary = reason.map(|reason| json!({ "reason": reason }));
    let run = json!({ "steps": 16, "tokens": 300, "cost_usd": "0.25" });
    json!({ "run": run, "verdict": { "primary": primary, "status": status } })
}

#[test]
fn the_end_of_a_run_is_compared_as_far_as_a_replay_knows_it() {
    let stopped = Some("steps_limit");
    for (told, replayed) in [
        (live(stopped, "stopped"), replay(stopped, "stopped")),
        (live(None, "in_progress"), replay(None, "in_progress")),
        (live(Some("cost_limit"), "stopped"), replay(None, "in_progress")),
        (live(Some("cost_limit"), "stopped"), replay(Some("cost_limit"), "in_progress")),
    ] {
        assert_eq!(difference(&told, &replayed), None);
    }
    for (told, replayed) in [
        (live(stopped, "stopped"), replay(None, "in_progress")),
        (live(None, "in_progress"), replay(stopped, "stopped")),
        (live(stopped, "stopped"), replay(stopped, "failed")),
        (live(Some("killed"), "stopped"), replay(stopped, "stopped")),
        (live(Some("error"), "failed"), replay(None, "in_progress")),
    ] {
        assert!(difference(&told, &replayed).is_some(), "{told} {replayed}");
    }
}

#[test]
fn numbers_of_a_run_are_compared_exactly() {
    let told = live(None, "in_progress");
    for (at, value) in [
        ("/run/steps", json!(15)),
        ("/run/tokens", json!(299)),
        ("/run/cost_usd", json!("0.250000000001")),
    ] {
        let mut replayed = replay(None, "in_progress");
        *replayed.pointer_mut(at).unwrap() = value;
        assert!(difference(&told, &replayed).is_some(), "{at}");
    }
    assert_eq!(difference(&json!({}), &replay(None, "in_progress")), None, "it is not shown");
}
