//! Tests of `endstop_trace`.

use super::*;
use crate::{Part, Source, Warning};
use endstop_price::PriceTable;

/// Lengths of the words that were read, whether wanted or not; first lines and counts of warnings.
#[derive(Default)]
struct Found {
    asked: std::cell::Cell<usize>,
    runs: Vec<String>,
    words: Vec<usize>,
    warned: Vec<(WarningKind, Option<u64>, u64)>,
}

impl RunSink for Found {
    fn begin(&mut self, run: &RunHeader<'_>) {
        self.runs.push(run.id.to_owned());
    }
    fn event(&mut self, event: &Event<'_>) {
        if let EventKind::Piece { text } = event.kind {
            self.words.push(text.len());
        }
    }
    fn end(&mut self, _end: &RunFooter<'_>) {}
    fn warn(&mut self, warning: Warning) {
        self.warned.push((warning.kind, warning.line, warning.count));
    }
    fn wants(&self) -> super::super::Wants {
        self.asked.set(self.asked.get() + 1);
        super::super::Wants { words: self.asked.get().is_multiple_of(2), results: true }
    }
}

fn piece(text: &str) -> Vec<u8> {
    format!("{{\"at\":1,\"event\":\"piece\",\"text\":\"{text}\"}}").into_bytes()
}

#[test]
fn every_line_is_read_whatever_stands_beside_it() {
    let mut lines: Vec<Vec<u8>> = vec![b"{\"endstop_trace\":1,\"run\":\"a\"}".to_vec()];
    let mut expected = Vec::new();
    for length in [0, 1, 200, 4_000, 4_096, 5_000, 300_000, 7] {
        for escapes in 0..3 {
            let text = "w".repeat(length) + &"\\n".repeat(escapes) + "\u{e9}";
            lines.push(piece(&text));
            expected.push(length + escapes + 2);
        }
    }
    lines.push(b" {\"run\":\"b\", \"endstop_trace\":1}".to_vec());
    lines.push([&piece("words")[..], b"\r"].concat());
    expected.push(5);
    let damaged = lines.len() as u64 + 1;
    lines.push(b"{\"at\":1,\"event\":\"piece\",\"text\":\"\xff\"}".to_vec());
    lines.push(b"{\"endstop_trace\":1,\"run\":7}".to_vec());
    lines.push(b"{\"endstop_trace\":1,\"run\":\"c\"}".to_vec());
    lines.push(piece("the last line has no line feed"));
    expected.push(30);
    let main = Part::bytes("x.jsonl", lines.join(&b'\n'));
    let mut found = Found::default();
    let prices = PriceTable::default();
    let source = Source { main: &main, children: &[], prices: &prices };
    crate::format("endstop").unwrap().read(&source, &mut found);
    assert_eq!(found.runs, ["a", "b", "c"]);
    assert_eq!(found.words, expected);
    assert_eq!(found.warned, [(WarningKind::Malformed, Some(damaged), 2)]);
}
