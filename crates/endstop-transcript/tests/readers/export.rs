//! Exported files can be read again, and say the same.

use std::path::{Path, PathBuf};

use endstop_core::units::Cost;
use endstop_core::wire::v1::trace::{Kind, Line};
use endstop_price::PriceTable;
use endstop_transcript::export::{Exported, Target, export};
use endstop_transcript::{FORMATS, Part, Transcript, format, sample, walk};
use serde_json::Value;

use crate::file::golden;
use crate::sink::{Keep, Seen};

fn written(transcript: &Transcript, target: Target) -> Vec<Exported> {
    let mut runs = Vec::new();
    export(transcript, PriceTable::embedded(), target, &mut |run| runs.push(run));
    runs
}

/// Reads the exported file, in the format that recognizes it.
fn read(exported: &Exported, target: Target) -> Seen {
    let name = format!("written.{}", target.ending());
    let bytes = exported.text.clone().into_bytes();
    let head = endstop_transcript::Head::new(&bytes, b"");
    let ids: Vec<&str> = FORMATS.iter().filter(|f| f.detect(&head)).map(|f| f.id()).collect();
    assert_eq!(ids, [target.value()], "{}", exported.id);
    let main = Part::bytes(name, bytes);
    let format = format(target.value()).unwrap();
    let mut keep = Keep::of(&Transcript { format, main, children: Vec::new() });
    assert!(keep.faults().is_empty(), "{}: {:?}", exported.id, keep.faults());
    assert!(keep.warnings.is_empty(), "{}: {:?}", exported.id, keep.warnings);
    assert_eq!(keep.runs.len(), 1, "{}", exported.id);
    keep.runs.remove(0)
}

/// The events of the run itself, or of its sub-agents, in order: texts, replies, results.
fn deeds(run: &Seen, descendant: bool) -> Vec<String> {
    let mut deeds = Vec::new();
    let mut words = String::new();
    for text in &run.lines {
        let line: Line<'_> = serde_json::from_str(text).unwrap();
        if line.descendant != descendant {
            continue;
        }
        match &line.kind {
            Kind::Piece { text } => words.push_str(text),
            Kind::AttemptFailed { .. } => words.clear(),
            Kind::Reply { model, usage, cost, finish, .. } => {
                let words = std::mem::take(&mut words);
                // Nothing known of the cost is as good as no price.
                let cost = cost.filter(|cost| *cost != Cost::Unpriced);
                deeds.push(format!("{words:?} {model:?} {usage:?} {cost:?} {finish:?}"));
            }
            Kind::ToolEnd { .. } | Kind::UserMessage => deeds.push(format!("{:?}", line.kind)),
            _ => {}
        }
    }
    // Side by side, sub-agents have no order.
    if descendant {
        deeds.sort();
    }
    deeds
}

fn failed_attempts(run: &Seen) -> usize {
    run.lines.iter().filter(|line| line.contains("\"attempt_failed\"")).count()
}

fn check(run: &Seen, again: &Seen) {
    let what = &run.id;
    let counts = |run: &Seen| {
        let steps = [run.steps, run.own_steps, run.turns, run.children];
        let tools = [run.tools, run.results, run.refused, run.failed_tools];
        (steps, tools, [run.tokens, run.output, run.calls_billed_or_priced], failed_attempts(run))
    };
    assert_eq!(again.id, run.id);
    assert_eq!(counts(again), counts(run), "{what}");
    assert_eq!((again.cost, again.outcome), (run.cost, run.outcome), "{what}");
    assert_eq!(again.cost_is, run.cost_is, "{what}");
    assert_eq!(again.model, run.model, "{what}");
    for descendant in [false, true] {
        let (again, run) = (deeds(again, descendant), deeds(run, descendant));
        assert_eq!(again.len(), run.len(), "{what}");
        for (again, run) in again.iter().zip(&run) {
            assert_eq!(again, run, "{what}");
        }
    }
}

fn examples() -> Vec<Transcript> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let directories: Vec<PathBuf> = FORMATS.iter().map(|format| data.join(format.id())).collect();
    let mut transcripts = walk(&directories).unwrap().transcripts;
    transcripts.extend(sample());
    transcripts
}

#[test]
fn a_run_written_as_atif_reads_the_same() {
    for transcript in examples() {
        let keep = Keep::of(&transcript);
        let files = written(&transcript, Target::Atif);
        assert_eq!(files.len(), keep.runs.len());
        for (run, file) in keep.runs.iter().zip(&files) {
            check(run, &read(file, Target::Atif));
        }
    }
}

#[test]
fn a_run_written_as_a_trace_reads_the_same_event_for_event() {
    for transcript in examples() {
        let keep = Keep::of(&transcript);
        for (run, file) in keep.runs.iter().zip(&written(&transcript, Target::Endstop)) {
            let again = read(file, Target::Endstop);
            assert_eq!(again.lines, run.lines, "{}", run.id);
            assert_eq!((&again.id, again.cost_is), (&run.id, run.cost_is));
            assert_eq!(file.dropped, 0);
        }
    }
}

#[test]
fn recorded_runs_written_as_atif_read_the_same() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if !directory.is_dir() {
        println!("skipped: no recorded runs in ../shared/traces");
        return;
    }
    let mut runs = 0;
    for transcript in walk(&[directory]).unwrap().transcripts {
        let keep = Keep::of(&transcript);
        for (run, file) in keep.runs.iter().zip(&written(&transcript, Target::Atif)) {
            check(run, &read(file, Target::Atif));
            runs += 1;
        }
    }
    assert!(runs > 90, "{runs}");
}

/// A session with a sub-agent, and a trace with every event; the first run of each.
#[test]
fn what_is_written_is_what_was_agreed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, path) in [
        ("session", "data/sample/claude-code-session.jsonl"),
        ("events", "tests/data/endstop/example.jsonl"),
    ] {
        let transcript = walk(&[root.join(path)]).unwrap().transcripts.remove(0);
        for target in [Target::Atif, Target::Endstop] {
            let file = written(&transcript, target).remove(0);
            let name = format!("{name}.{}", target.ending());
            // Costs that were computed name the price table, which other changes move.
            let prices = [("prices", "\"PRICES\"")];
            let fixed = if file.text.contains("\"prices\"") { &prices[..] } else { &[] };
            golden(&name, &file.text, fixed);
        }
    }
}

/// The rules that validators of the format hold documents to.
#[test]
fn what_is_written_keeps_the_rules_of_atif() {
    for transcript in examples() {
        for file in written(&transcript, Target::Atif) {
            let document: Value = serde_json::from_str(&file.text).unwrap();
            assert_eq!(document["session_id"], file.id);
            valid(&document);
            let mut ids = Vec::new();
            for child in document["subagent_trajectories"].as_array().into_iter().flatten() {
                valid(child);
                ids.push(child["trajectory_id"].as_str().unwrap());
            }
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), count);
        }
    }
}

fn valid(trajectory: &Value) {
    assert_eq!(trajectory["schema_version"], "ATIF-v1.7");
    assert!(trajectory["agent"]["name"].is_string() && trajectory["agent"]["version"].is_string());
    for (number, step) in (1..).zip(trajectory["steps"].as_array().unwrap()) {
        assert_eq!(step["step_id"], number);
        assert!(step["message"].is_string());
        let is_agent = step["source"] == "agent";
        let for_agents = ["model_name", "tool_calls", "metrics"];
        assert!(is_agent || for_agents.iter().all(|key| step[*key].is_null()), "{step}");
        let calls: Vec<&Value> = step["tool_calls"].as_array().into_iter().flatten().collect();
        assert!(calls.iter().all(|call| call["arguments"].is_object()), "{step}");
        for result in step["observation"]["results"].as_array().into_iter().flatten() {
            let id = &result["source_call_id"];
            assert!(id.is_null() || calls.iter().any(|call| call["tool_call_id"] == *id), "{step}");
        }
    }
}
