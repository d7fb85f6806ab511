//! Recorded runs of Inspect, Gemini CLI, OpenHands and AG2: counts and sums that were found independently.

use std::path::Path;

use endstop_transcript::{CostIs, walk};

use crate::real_data::traces;
use crate::sink::{Keep, Seen};

fn sum(keep: &Keep, of: impl Fn(&Seen) -> u64) -> u64 {
    keep.runs.iter().map(of).sum()
}

/// Found with a script over `events`, or otherwise `transcript.events`, of all samples: `model` events outside
/// scorers, `tool_calls` of their first choices, `tool` events, `usage`, `input` and the scores.
#[test]
fn inspect_samples_are_runs_without_their_grading() {
    let Some(keep) = traces("inspect_ai") else { return };
    assert_eq!((keep.runs.len(), keep.steps()), (43, 51));
    assert_eq!((sum(&keep, |run| run.tools), sum(&keep, |run| run.results)), (9, 9));
    assert_eq!((sum(&keep, |run| run.failed_tools), sum(&keep, |run| run.turns)), (0, 47));
    assert_eq!((keep.tokens(), sum(&keep, |run| run.output)), (18_835, 614));
    let outcomes = |outcome| keep.runs.iter().filter(|run| run.outcome == outcome).count();
    assert_eq!((outcomes(Some(true)), outcomes(Some(false)), outcomes(None)), (23, 9, 11));
    assert!(keep.warnings.is_empty(), "{:?}", keep.warnings);
    let browser = keep.runs.iter().find(|run| run.tools == 4).unwrap();
    assert_eq!(browser.cost_is, Some(CostIs::Computed));
    assert_eq!(browser.model.as_deref(), Some("gpt-4o-mini-2024-07-18"));
}

/// Found with a script over the messages: `tokens.total`, `output` + `thoughts`, the states of `toolCalls`, and
/// the counts at $1.25, $0.125 and $10 for a million, which is Gemini 2.5 Pro below 200,000.
#[test]
fn gemini_cli_sessions_cost_what_their_tokens_cost() {
    let Some(keep) = traces("gemini-cli") else { return };
    assert_eq!((keep.runs.len(), keep.steps()), (6, 26));
    assert_eq!((sum(&keep, |run| run.tools), sum(&keep, |run| run.results)), (20, 20));
    assert_eq!((sum(&keep, |run| run.failed_tools), sum(&keep, |run| run.turns)), (3, 8));
    assert_eq!((keep.tokens(), sum(&keep, |run| run.output)), (169_449, 8_011));
    assert_eq!(keep.cost(), "0.2247845".parse().unwrap());
    assert!(keep.runs.iter().all(|run| run.cost_is == Some(CostIs::Computed)));
    assert!(keep.runs.iter().any(|run| run.id == "981c87cb-90ef-4c7f-948d-23173ff43e4e"));
    assert!(keep.warnings.is_empty(), "{:?}", keep.warnings);
}

/// Found with a script over the events: distinct `model_response.id` and agent actions without one, actions
/// other than messages, observations and their exit codes, `usage`, and `metrics.costs`.
#[test]
fn openhands_responses_are_counted_once() {
    let Some(keep) = traces("openhands") else { return };
    assert_eq!((keep.runs.len(), keep.steps()), (9, 145));
    assert_eq!((sum(&keep, |run| run.tools), sum(&keep, |run| run.results)), (142, 142));
    assert_eq!((sum(&keep, |run| run.failed_tools), sum(&keep, |run| run.turns)), (19, 11));
    assert_eq!((keep.tokens(), sum(&keep, |run| run.output)), (1_973_117, 17_045));
    let run = |id: &str| keep.runs.iter().find(|run| run.id == id).unwrap();
    assert_eq!(run("neubig/pr-viewer#1").cost.picos() / 1_000_000, 1_152_933);
    assert_eq!(run("neubig/pr-viewer#5").cost, "0.070713".parse().unwrap());
    assert_eq!(run("tests__runtime__trajs__basic").cost_is, Some(CostIs::Computed));
    assert!(keep.warnings.is_empty(), "{:?}", keep.warnings);
}

/// Found with a script: the messages of each chat, and all but the first of them.
#[test]
fn chats_of_ag2_are_steps_of_their_speakers() {
    let Some(keep) = traces("mast-ag2") else { return };
    assert_eq!((keep.runs.len(), keep.steps()), (24, 133));
    assert_eq!((sum(&keep, |run| run.turns), sum(&keep, |run| run.tools)), (24, 0));
    assert!(keep.runs.iter().any(|run| run.id == "linked-list-merge"));
    assert!(keep.warnings.is_empty(), "{:?}", keep.warnings);
}

/// A format claims only files of its directory.
#[test]
fn recorded_files_are_claimed_by_the_format_of_their_directory() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if !root.is_dir() {
        println!("skipped: no recorded runs in ../shared/traces");
        return;
    }
    let found = walk(std::slice::from_ref(&root)).unwrap();
    for (format, directory, files) in [
        ("mast-ag2", "mast-ag2", 3),
        ("gemini-cli", "gemini-cli", 6),
        ("inspect-ai", "inspect_ai", 19),
        ("openhands", "openhands", 6),
    ] {
        let of_format = found.transcripts.iter().filter(|found| found.format.id() == format);
        let paths: Vec<&Path> = of_format.filter_map(|found| found.main.path()).collect();
        assert!(paths.iter().all(|path| path.starts_with(root.join(directory))), "{paths:?}");
        assert_eq!(paths.len(), files, "{format}: {paths:?}");
    }
}
