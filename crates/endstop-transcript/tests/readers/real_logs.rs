//! Recorded runs in the formats of traces and logs, if they are present: counts and sums that were found
//! independently.

use std::path::Path;

use endstop_price::PriceTable;
use endstop_transcript::{CostIs, FORMATS, Head, walk};

use crate::sink::Keep;

fn traces() -> Option<std::path::PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: no recorded runs in ../shared/traces");
    None
}

/// Summed over the spans of the file: 13 of `chat` with 76,608 tokens in and 1,947 out, 8 of `execute_tool`,
/// one `invoke_agent`; $0.20 and $0.50 a million make the cost. The other file has no GenAI attributes.
#[test]
fn otlp_spans_are_steps_and_tools() {
    let Some(directory) = traces() else { return };
    let found = walk(&[directory.join("otlp")]).unwrap();
    assert_eq!(found.transcripts.len(), 1);
    let keep = Keep::all(&found.transcripts, PriceTable::embedded());
    assert!(keep.faults().is_empty() && keep.warnings.is_empty(), "{:?}", keep.warnings);
    let [run] = &keep.runs[..] else { panic!("{}", keep.runs.len()) };
    assert_eq!((run.steps, run.tools, run.results, run.failed_tools), (13, 8, 8, 0));
    assert_eq!((run.tokens, run.output), (78_555, 1_947));
    assert_eq!((run.turns, run.children, run.outcome), (1, 0, None));
    assert_eq!(
        (run.cost.to_decimal().as_str(), run.cost_is),
        ("0.0162951", Some(CostIs::Computed))
    );
}

/// No recorded file of another format is taken for one of these.
#[test]
fn recorded_files_of_other_formats_are_not_claimed() {
    let Some(directory) = traces() else { return };
    let mut directories = vec![directory];
    let mut files = 0;
    while let Some(directory) = directories.pop() {
        for path in directory.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let (head, tail) = (
                &bytes[..bytes.len().min(64 << 10)],
                &bytes[bytes.len().saturating_sub(4 << 10)..],
            );
            let head = Head::new(head, tail);
            let ids: Vec<&str> =
                FORMATS.iter().filter(|format| format.detect(&head)).map(|f| f.id()).collect();
            let ours = ["otlp", "litellm", "atif"];
            let is_ours = path.ends_with("otlp/otlp-genai-constructed.json");
            let claimed = ids.iter().any(|id| ours.contains(id));
            assert_eq!(claimed, is_ours, "{}: {ids:?}", path.display());
            assert!(!is_ours || ids.len() == 1, "{ids:?}");
            files += 1;
        }
    }
    assert!(files > 50, "{files}");
}
