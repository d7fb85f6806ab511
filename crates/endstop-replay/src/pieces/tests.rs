//! Read in pieces, a file gives what it gives as a whole.

use std::io::{self, Read};

use proptest::prelude::*;
use proptest::sample::select;

use super::super::policy_set::PolicySet;
use super::super::recorder::{Detail, Recorder};
use super::*;
use endstop_core::Event;
use endstop_price::PriceTable;
use endstop_transcript::{Part, RunFooter, RunHeader, RunSink, format};

/// Everything that a reader says, as text.
#[derive(Debug, Default, PartialEq)]
struct Said {
    runs: Vec<String>,
    warnings: Vec<Warning>,
}

impl RunSink for Said {
    fn begin(&mut self, run: &RunHeader<'_>) {
        self.runs.push(format!("{run:?}"));
    }
    fn event(&mut self, event: &Event<'_>) {
        self.runs.push(format!("{event:?}"));
    }
    fn end(&mut self, end: &RunFooter<'_>) {
        self.runs.push(format!("{end:?}"));
    }
    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
}

fn transcript(main: Part) -> Transcript {
    Transcript { format: format("endstop").unwrap(), main, children: Vec::new() }
}

fn read(transcript: &Transcript) -> Said {
    let mut said = Said::default();
    transcript.read(PriceTable::embedded(), &mut said);
    said
}

fn apart(whole: &Transcript, about: u64) -> Pieces<'_> {
    let pieces: Vec<_> =
        whole.format.pieces(&whole.main, about).into_iter().map(transcript).collect();
    Pieces { whole, left: AtomicUsize::new(pieces.len()), pieces }
}

fn read_apart(pieces: &Pieces<'_>) -> Said {
    let (mut runs, mut warnings) = (Vec::new(), Vec::new());
    for part in pieces.parts() {
        let said = read(part);
        runs.extend(said.runs);
        warnings.push(said.warnings);
    }
    Said { runs, warnings: pieces.warnings(warnings) }
}

fn bytes_of(part: &Part) -> Vec<u8> {
    let mut bytes = Vec::new();
    part.open().unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

const HEADER: &str = r#"{"endstop_trace":1,"run":"a","model":"m"}"#;
const STEP: &str = r#"{"at":3,"event":"step_begin"}"#;

const BEGINNING: &[u8] = b"{\"endstop_trace\":";

/// Lines that a file may hold: as they are written, otherwise, and damaged.
const LINES: [&str; 24] = [
    HEADER,
    HEADER,
    HEADER,
    r#"{"endstop_trace":1,"run":""}"#,
    r#"{"endstop_trace":1,"run":"b","cost_is":"billed"}"#,
    r#"{"run":"c","endstop_trace":1}"#,
    r#" { "endstop_trace" : 1 , "run" : "d" } "#,
    r#"{"endstop_trace":9,"run":"e"}"#,
    r#"{"endstop_trace":1,"run":"#,
    r#"{"endstop_trace":1,"run":5}"#,
    r#"{"endstop_trace":"one","run":"f"}"#,
    r#"{"endstop_trace":null,"at":4,"event":"step_begin"}"#,
    "\u{feff}{\"endstop_trace\":1,\"run\":\"g\"}",
    r#"{"at":0,"wall":1793534400000,"event":"run_begin","agent":"planner"}"#,
    STEP,
    r#"{"at":5,"event":"attempt_begin"}"#,
    r#"{"at":6,"event":"piece","text":"\n{\"endstop_trace\":1,\"run\":\"no\"}\n"}"#,
    r#"{"at":7,"event":"reply","model":"m","usage":{"input":9,"output":4},"cost":"0.15"}"#,
    r#"{"at":8,"event":"step_end"}"#,
    r#"{"at":9,"event":"run_end","succeeded":true}"#,
    r#"{"at":-1,"event":"step_begin"}"#,
    "not a record",
    "",
    "  ",
];

proptest! {
    #[test]
    fn a_file_in_pieces_is_read_as_the_whole(
        lines in prop::collection::vec(select(LINES.to_vec()), 0..60),
        feed in select(vec!["\n", "\r\n"]),
        begins_with_mark in any::<bool>(),
        cut in 0_usize..60,
        about in 1_u64..1500,
    ) {
        let mark = if begins_with_mark { "\u{feff}" } else { "" };
        let mut text = format!("{mark}{}", lines.join(feed)).into_bytes();
        text.truncate(text.len().saturating_sub(cut));
        let whole = transcript(Part::bytes("runs/some.jsonl", text.clone()));
        let pieces = apart(&whole, about);
        prop_assert_eq!(read_apart(&pieces), read(&whole));

        let bytes: Vec<_> = pieces.parts().iter().map(|part| bytes_of(&part.main)).collect();
        prop_assert_eq!(bytes.concat(), text);
        for later in bytes.iter().skip(1) {
            prop_assert!(later.starts_with(BEGINNING));
        }
        for earlier in bytes.iter().rev().skip(1) {
            prop_assert!(earlier.len() as u64 >= about);
        }
    }
}

#[test]
fn warnings_are_one_for_each_kind_with_the_line_of_the_whole() {
    let run = format!("{HEADER}\n{STEP}\n");
    let damaged = format!("{HEADER}\nno\n\n{STEP}\nno\n");
    let text = format!("{run}{run}{damaged}{run}{damaged}{{\"endstop_trace\":7}}\n{run}{{\"at\":1");
    let whole = transcript(Part::bytes("x.jsonl", text.into_bytes()));
    let pieces = apart(&whole, 1);
    assert_eq!(pieces.parts().len(), 7);
    let said = read_apart(&pieces);
    let warnings: Vec<_> = said.warnings.iter().map(|w| (w.kind, w.line, w.count)).collect();
    let expected = [
        (WarningKind::Malformed, Some(6), 4),
        (WarningKind::Truncated, Some(20), 1),
        (WarningKind::UnknownVersion, Some(17), 1),
    ];
    assert_eq!(warnings, expected);
    assert_eq!(said, read(&whole));
}

#[test]
fn a_header_is_found_wherever_the_reads_end() {
    const READ: usize = 128 << 10;
    for length in (READ - 60..READ + 5).chain([2 * READ - 9, 5 * READ]) {
        let text = format!("{}\n{HEADER}\n{STEP}\n", "x".repeat(length));
        let whole = transcript(Part::bytes("x.jsonl", text.into_bytes()));
        let pieces = apart(&whole, 1);
        let lengths: Vec<_> =
            pieces.parts().iter().map(|part| bytes_of(&part.main).len()).collect();
        assert_eq!(lengths, [length + 1, HEADER.len() + STEP.len() + 2]);
    }
}

#[test]
fn a_long_header_lies_inside_a_piece() {
    let name = "n".repeat(300 << 10);
    let long = format!("{{\"endstop_trace\":1,\"run\":\"{name}\"}}\n{STEP}\n");
    let text = format!("{HEADER}\n{STEP}\n{long}{HEADER}\n{STEP}\n{long}");
    let whole = transcript(Part::bytes("x.jsonl", text.into_bytes()));
    let pieces = apart(&whole, 1);
    assert_eq!(pieces.parts().len(), 2);
    assert_eq!(read_apart(&pieces), read(&whole));
}

#[test]
fn only_what_is_large_and_can_be_read_in_any_order_is_taken_apart() {
    let text = format!("{HEADER}\n{STEP}\n").repeat(1000);
    let length = text.len() as u64;
    let whole = transcript(Part::bytes("x.jsonl", text.clone().into_bytes()));
    let count = |whole: &Transcript, threads, least| {
        let pieces = Pieces::of(whole, threads, least);
        let done = pieces.parts().iter().filter(|_| pieces.part_is_read()).count();
        assert_eq!(done, 1, "an input is done once");
        pieces.parts().len()
    };
    assert_eq!(count(&whole, 2, 1), 8);
    assert_eq!(count(&whole, 4, 1), 16);
    assert_eq!(count(&whole, 2, length / 3), 3);
    assert_eq!(count(&whole, 2, length), 1);
    assert_eq!(count(&whole, 1, 1), 1);

    let open = move || Ok(Box::new(io::Cursor::new(text.clone().into_bytes())) as Box<dyn Read>);
    assert_eq!(count(&transcript(Part::stream("x.jsonl", open)), 2, 1), 1);
    assert_eq!(count(&transcript(Part::file("no/such/file.jsonl")), 2, 1), 1);
    let piece = whole.format.pieces(&whole.main, length / 2).remove(0);
    assert_eq!(count(&transcript(piece), 2, 1), 1);
}

#[test]
fn sums_that_depend_on_their_order_are_left_to_the_whole() {
    let dear = format!("{HEADER}\n{{\"at\":7,\"event\":\"reply\",\"cost\":\"4000000\"}}\n");
    for (runs, is_certain) in [(2, true), (3, false), (9, false)] {
        let whole = transcript(Part::bytes("x.jsonl", dear.repeat(runs).into_bytes()));
        let pieces = apart(&whole, 1);
        assert_eq!(pieces.parts().len(), runs);
        let policies = PolicySet::new(&[]).unwrap();
        let outcomes = BTreeMap::new();
        let record = |part: &Transcript| {
            let mut recorder = Recorder::new(policies.plan(part.format), &outcomes, Detail::Cuts);
            part.read(PriceTable::embedded(), &mut recorder);
            recorder.finish()
        };
        let joined = pieces.join(pieces.parts().iter().map(record));
        assert_eq!(joined.is_some(), is_certain, "{runs} runs");
    }
}
