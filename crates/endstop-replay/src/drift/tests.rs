//! Tests of `drift`.

use super::*;

fn baseline(runs: u64, steps: u64, calls: u64, searches: u64) -> Baseline {
    let mut usage = Usage::default();
    let cost = Money::from_picos(runs * PICOS_PER_DOLLAR);
    let kind = KindUsage { runs, steps, tokens: steps * 1_000, cost };
    usage.kinds.insert("coder".to_owned(), kind);
    let cost = Money::from_picos(calls * PICOS_PER_DOLLAR / 10);
    let model = ModelUsage { calls, input_tokens: calls * 900, cost, ..ModelUsage::default() };
    usage.models.insert("m-1".to_owned(), model);
    let tool = ToolUsage { calls: searches, failed: 0, result_bytes: searches * 10 };
    usage.tools.insert("search".to_owned(), tool);
    Baseline { runs, usage }
}

fn drifted(before: &Baseline, now: &Baseline) -> Vec<String> {
    let figures = drift(before, now, 0.2);
    let told = figures.iter().filter(|figure| figure.is_drift);
    told.map(|figure| format!("{} {}", figure.name, figure.what)).collect()
}

#[test]
fn what_rose_beyond_the_tolerance_is_drift() {
    let before = baseline(10, 100, 100, 50);
    assert!(drifted(&before, &before).is_empty());
    assert!(drifted(&before, &baseline(10, 119, 100, 50)).is_empty());
    let more = drifted(&before, &baseline(10, 121, 100, 50));
    assert_eq!(more, ["coder steps per run", "coder tokens per run"]);
    // Twice as many runs of the same kind do not count as drift, and neither does less.
    assert!(drifted(&before, &baseline(20, 200, 200, 100)).is_empty());
    assert!(drifted(&before, &baseline(10, 10, 50, 5)).is_empty());
}

#[test]
fn a_few_calls_more_are_chance_and_many_are_not() {
    let calls = |calls| baseline(10, 100, 100, calls);
    assert!(drifted(&calls(3), &calls(6)).is_empty());
    assert_eq!(drifted(&calls(30), &calls(60)), ["search calls per run"]);
}

#[test]
fn a_new_model_is_drift_and_a_new_tool_is_told() {
    let before = baseline(10, 100, 100, 50);
    let mut now = before.clone();
    let model = now.usage.models["m-1"];
    now.usage.models.insert("m-2".to_owned(), model);
    now.usage.tools.insert("browse".to_owned(), ToolUsage { calls: 9, ..ToolUsage::default() });
    assert_eq!(drifted(&before, &now), ["m-2 calls per run"]);
    let figures = drift(&before, &now, 0.2);
    let of = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap().change;
    assert_eq!((of("m-2"), of("browse")), (Change::New, Change::New));
    let back = drift(&now, &before, 0.2);
    assert!(back.iter().any(|f| f.change == Change::Gone) && back.iter().all(|f| !f.is_drift));
}

#[test]
fn what_is_no_baseline_says_so() {
    let error = |text| Baseline::from_json(text).unwrap_err().to_string();
    assert!(error("x").starts_with("not the JSON of a replay"));
    assert_eq!(error("{\"version\":1,\"runs\":3}"), "it does not record the usage of its runs");
    assert_eq!(error("{\"version\":7}"), "it has version 7; only version 1 is known");
}
