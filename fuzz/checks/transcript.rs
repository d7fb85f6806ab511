//! Every transcript reader: never panics, whatever the bytes, and whatever format they are taken for.

use endstop::core::Event;
use endstop_price::PriceTable;
use endstop_transcript::{FORMATS, Part, RunFooter, RunHeader, RunSink, Transcript, Warning};

#[derive(Default)]
struct Counting {
    runs: u64,
    ends: u64,
    events: u64,
}

impl RunSink for Counting {
    fn begin(&mut self, _run: &RunHeader<'_>) {
        self.runs += 1;
    }

    fn event(&mut self, _event: &Event<'_>) {
        self.events += 1;
    }

    fn end(&mut self, _end: &RunFooter<'_>) {
        self.ends += 1;
    }

    fn warn(&mut self, _warning: Warning) {}
}

/// Panics if the reader breaks its promise.
pub(crate) fn check(bytes: &[u8]) {
    for format in FORMATS {
        let mut counting = Counting::default();
        let main = Part::bytes("fuzz", bytes.to_vec());
        let transcript = Transcript { format, main, children: Vec::new() };
        transcript.read(PriceTable::embedded(), &mut counting);
        assert_eq!(counting.runs, counting.ends, "{}", format.id());
    }
}
