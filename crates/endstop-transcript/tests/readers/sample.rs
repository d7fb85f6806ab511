//! The sample that ships.

use std::io::Read;
use std::path::Path;

use endstop_core::units::{Cost, TokenUsage, WallTime};
use endstop_core::wire::v1::trace::{Kind, Line};
use endstop_price::{CallContext, PriceTable, UsageCounts};
use endstop_transcript::{FORMATS, Head, Transcript, WarningKind, sample, walk};

use crate::sink::Keep;

#[test]
fn the_sample_reads_without_fault() {
    let keep = Keep::all(&sample(), PriceTable::embedded());
    assert!(keep.faults().is_empty(), "{:?}", keep.faults());
    assert!(keep.warnings.iter().all(|w| w.kind == WarningKind::LowerBound), "{:?}", keep.warnings);
    let outcomes = |outcome| keep.runs.iter().filter(|run| run.outcome == outcome).count();
    let counts = (outcomes(Some(true)), outcomes(Some(false)), outcomes(None));
    assert_eq!((keep.runs.len(), counts), (10, (5, 4, 1)));
    assert!(keep.runs.iter().all(|run| run.steps >= 3));
    assert_eq!(keep.runs.iter().map(|run| run.children).sum::<u64>(), 4);
}

/// The guide reads the directory, and the command without paths what ships: both are the same runs.
#[test]
fn the_directory_of_the_sample_has_the_runs_that_ship() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample");
    let found = walk(&[directory]).unwrap();
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    let steps = |transcripts: &[Transcript]| {
        let keep = Keep::all(transcripts, PriceTable::embedded());
        let runs = keep.runs.iter().map(|run| (run.id.clone(), run.steps, run.children));
        let mut runs: Vec<_> = runs.collect();
        runs.sort();
        runs
    };
    assert_eq!(steps(&found.transcripts), steps(&sample()));
}

#[test]
fn each_file_of_the_sample_is_of_its_format_alone() {
    for transcript in sample() {
        let mut bytes = Vec::new();
        transcript.main.open().unwrap().read_to_end(&mut bytes).unwrap();
        let head = Head::new(&bytes, b"");
        let detected = FORMATS.iter().filter(|format| format.detect(&head));
        let ids: Vec<&str> = detected.map(|format| format.id()).collect();
        assert_eq!(ids, [transcript.format.id()]);
    }
}

#[test]
fn the_costs_in_the_sample_are_those_of_the_price_table() {
    let keep = Keep::all(&sample()[..1], PriceTable::embedded());
    let mut priced = 0;
    for text in keep.runs.iter().flat_map(|run| &run.lines) {
        let line: Line<'_> = serde_json::from_str(text).unwrap();
        let Kind::Reply { model: Some(model), usage: Some(usage), cost, .. } = &line.kind else {
            continue;
        };
        let counts = UsageCounts::from_token_usage(&TokenUsage::from(*usage)).unwrap();
        let price = PriceTable::embedded().find(None, model).unwrap();
        let total =
            price.price(&counts, WallTime(line.wall), &CallContext::default()).unwrap().total;
        assert_eq!(*cost, Some(Cost::Known(total)), "{text}");
        priced += 1;
    }
    assert!(priced > 60, "{priced}");
}
