//! Recorded runs of benchmarks and of message lists, if they are present: counts and sums that were
//! found independently.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use endstop_transcript::{CostIs, FORMATS, Head, Part, Transcript};

use crate::real_data::traces;
use crate::sink::{Keep, Seen};

fn sum(keep: &Keep, of: impl Fn(&Seen) -> u64) -> u64 {
    keep.runs.iter().map(of).sum()
}

/// How often each tool has a result.
fn tools(keep: &Keep) -> BTreeMap<String, u64> {
    let mut tools = BTreeMap::new();
    for line in keep.runs.iter().flat_map(|run| &run.lines) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        if line["event"] == "tool_end" {
            *tools.entry(line["tool"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    tools
}

/// Entries of `trajectory`, and in the one file without it assistant messages of `history`; the function's
/// name if the history has a message with the same text, or otherwise the first word of the action.
#[test]
fn swe_agent_trajectories_are_read() {
    let Some(keep) = traces("swe-agent") else { return };
    assert_eq!((keep.runs.len(), keep.steps()), (22, 232));
    assert_eq!((sum(&keep, |run| run.tools), sum(&keep, |run| run.results)), (232, 232));
    assert_eq!((keep.tokens(), sum(&keep, |run| run.turns)), (0, 22));
    let tools = tools(&keep);
    let often = [("edit", 46), ("submit", 29), ("python", 25), ("open", 19), ("bash", 15)];
    for (tool, count) in often {
        assert_eq!(tools[tool], count, "{tool}");
    }
    assert!(keep.runs.iter().all(|run| run.outcome.is_none() && run.refused == 0));
    assert!(keep.warnings.is_empty(), "{:?}", keep.warnings);
}

/// `max_reward` is 1 for 762 tasks of the file with ten turns and for 94 of the other.
#[test]
fn intercode_tasks_have_their_outcomes() {
    let Some(keep) = traces("intercode") else { return };
    let outcomes = |outcome| keep.runs.iter().filter(|run| run.outcome == Some(outcome)).count();
    assert_eq!(keep.runs.len(), 2 * 1_034);
    assert_eq!((outcomes(true), outcomes(false)), (762 + 94, 272 + 940));
    let (steps, failed) = (5_867 + 1_034, 1_691 + 913);
    assert_eq!((keep.steps(), sum(&keep, |run| run.tools)), (steps, steps));
    assert_eq!(
        (sum(&keep, |run| run.results), sum(&keep, |run| run.failed_tools)),
        (steps, failed)
    );
    assert_eq!((keep.tokens(), sum(&keep, |run| run.turns)), (0, 2 * 1_034));
    let ids: std::collections::BTreeSet<&str> = keep.runs.iter().map(|run| &*run.id).collect();
    assert_eq!(ids.len(), keep.runs.len());
    assert_eq!(tools(&keep).into_iter().collect::<Vec<_>>(), [("sql".to_owned(), steps)]);
    assert!(keep.warnings.is_empty(), "{:?}", keep.warnings);
}

/// The sums of `cost` and `usage` over assistant messages, which are those of `agent_cost`. Each simulation
/// has one assistant message more, the greeting.
#[test]
fn tau2_runs_cost_what_the_agent_cost() {
    let Some(keep) = traces("tau2") else { return };
    let of = |run: &Seen| (run.steps, run.tools, run.turns, run.tokens, run.cost.to_string());
    let found: Vec<_> = keep.runs.iter().map(of).collect();
    let told =
        |steps, tools, turns, tokens, cost: &str| (steps, tools, turns, tokens, cost.to_owned());
    let expected = [
        told(12, 8, 5, 78_555, "$0.0180226"),
        told(12, 8, 5, 77_714, "$0.0177687"),
        told(9, 9, 5, 59_528, "$0.0144574"),
        told(13, 8, 6, 86_571, "$0.0197707"),
    ];
    assert_eq!(found, expected);
    let outcomes: Vec<_> = keep.runs.iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes, [Some(true), Some(true), Some(false), Some(true)]);
    assert_eq!((sum(&keep, |run| run.results), sum(&keep, |run| run.failed_tools)), (33, 0));
    assert!(keep.runs.iter().all(|run| run.cost_is == Some(CostIs::Billed)));
    // From its `start_time` to its last message, 11 microseconds before its `end_time`.
    assert!(keep.runs[0].lines.last().unwrap().contains("\"at\":52869,"));
    assert!(keep.warnings.is_empty(), "{:?}", keep.warnings);
}

/// The messages that the lines of a Claude Code session wrap are those of the API. Found with: the last
/// line's usage by `message.id`, and the blocks of all lines, of the session's own file.
#[test]
fn messages_of_a_session_read_as_responses() {
    let name = "claude-code/spotter/4d5611e5-241a-462a-8d15-5122611a9569.jsonl";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    let Ok(text) = fs::read_to_string(path) else {
        println!("skipped: no recorded session in ../shared/traces/{name}");
        return;
    };
    let message = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_message = ["assistant", "user"].iter().any(|kind| line["type"] == *kind);
        let model = &line["message"]["model"];
        (is_message && line["isMeta"] != true && model != "<synthetic>")
            .then(|| line["message"].to_string())
    };
    let messages: Vec<String> = text.lines().filter_map(message).collect();
    for (file, text) in [
        ("messages.jsonl", messages.join("\n")),
        ("messages.json", format!("[{}]", messages.join(",\n"))),
        ("messages.json", format!("{{\"messages\":[{}]}}", messages.join(","))),
    ] {
        let head = Head::new(text.as_bytes(), b"");
        let format = FORMATS.iter().find(|format| format.detect(&head)).unwrap();
        assert_eq!(format.id(), "anthropic-responses");
        let main = Part::bytes(file, text.into_bytes());
        let keep = Keep::of(&Transcript { format, main, children: Vec::new() });
        assert!(keep.faults().is_empty() && keep.warnings.is_empty(), "{:?}", keep.warnings);
        let [run] = &keep.runs[..] else { panic!("{} runs", keep.runs.len()) };
        assert_eq!((run.steps, run.tokens, run.output), (139, 12_127_036, 28_755));
        assert_eq!((run.tools, run.results, run.failed_tools), (150, 150, 5));
        assert_eq!((run.turns, run.cost_is), (4, Some(CostIs::Computed)));
    }
}

/// All files below a directory.
fn files(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => files(&path, found),
            path => found.push(path),
        }
    }
}

#[test]
fn each_file_is_claimed_by_its_own_format_or_by_none() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if !root.is_dir() {
        println!("skipped: no recorded runs in ../shared/traces");
        return;
    }
    let mut found = Vec::new();
    files(&root, &mut found);
    let mut claims: BTreeMap<String, u64> = BTreeMap::new();
    for path in found {
        let bytes = fs::read(&path).unwrap();
        let tail = if bytes.len() > 65_536 { &bytes[bytes.len() - 4_096..] } else { &[] };
        let head = Head::new(&bytes[..bytes.len().min(65_536)], tail);
        let ids: Vec<&str> = FORMATS
            .iter()
            .filter(|format| format.detect(&head))
            .map(|format| format.id())
            .collect();
        assert!(ids.len() <= 1, "{}: {ids:?}", path.display());
        if let [id] = ids[..] {
            let directory = path.strip_prefix(&root).unwrap().iter().next().unwrap();
            *claims.entry(format!("{} in {}", id, directory.to_str().unwrap())).or_default() += 1;
        }
    }
    for (claim, count) in CLAIMS {
        assert_eq!(claims.get(claim), Some(&count), "{claim}");
    }
    let ours = CLAIMS.map(|(claim, _)| claim.split(' ').next().unwrap());
    let ours = [&ours[..], &["anthropic-messages", "anthropic-responses"]].concat();
    for claim in claims.keys() {
        let id = claim.split(' ').next().unwrap();
        let is_told = CLAIMS.iter().any(|(told, _)| told == claim);
        assert!(is_told || !ours.contains(&id), "{claim}");
    }
}

/// How many files of a directory are of a format.
const CLAIMS: [(&str, u64); 4] = [
    ("intercode in intercode", 2),
    ("openai-chat in openai-chat", 1),
    ("swe-agent in swe-agent", 22),
    ("tau2 in tau2", 1),
];
