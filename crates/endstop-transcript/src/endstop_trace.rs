//! Endstop's own traces: JSON lines, a header for each run and then its events, as
//! [`endstop_core::wire::v1::trace`] writes them.
//!
//! Events are passed on as they were recorded. Missing ends of a trace are added: for a run whose first event is not
//! `run_begin`, or whose file was truncated before `run_end`.
//!
//! More than 250 lines because pieces of one file are read by several threads, and lines that are as Endstop writes
//! them are read without a parser.

mod canonical;
mod pieces;

use endstop_core::units::{Cost, Millis, WallTime};
use endstop_core::wire::v1::trace::{Header, Line, VERSION};
use endstop_core::{Event, EventKind};
use serde::Deserialize;

use super::lines::JsonLines;
use super::reading::Reading;
use super::warning::WarningKind;
use super::{CostIs, Head, RunFooter, RunHeader, RunSink};
use canonical::Unescaped;

pub(crate) use pieces::of as pieces_of;

pub(crate) fn detect(head: &Head<'_>) -> bool {
    head.lines().any(|keys| keys.have(&["endstop_trace"]))
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let mut lines = reading.lines();
    let mut trace = TraceReader { reading, run: None };
    let mut unescaped = Unescaped::default();
    loop {
        // Most lines need not even be looked for: what is read knows where it ends.
        let (mut ahead, mut passed) = (lines.ahead(), (0, 0));
        loop {
            let mut event = Event::new(Millis(0), EventKind::Tick);
            let Some(length) = canonical::read(ahead, sink.wants(), &mut unescaped, &mut event)
            else {
                break;
            };
            trace.event(&mut event, false, sink);
            let length = length + 1;
            passed = (passed.0 + length, passed.1 + 1);
            ahead = ahead.get(length..).unwrap_or_default();
        }
        if passed.1 > 0 {
            lines.pass(passed.0, passed.1);
            continue;
        }
        if !lines.advance() {
            break;
        }
        let mut event = Event::new(Millis(0), EventKind::Tick);
        let line = lines.utf8().unwrap_or_default();
        match canonical::read(line, sink.wants(), &mut unescaped, &mut event) {
            Some(length) if length == line.len() => trace.event(&mut event, false, sink),
            _ => trace.line(&lines, sink),
        }
    }
    trace.end(sink);
}

struct TraceReader<'s> {
    reading: Reading<'s>,
    run: Option<RecordedRun>,
}

struct RecordedRun {
    at: u64,
    /// The wall time at offset 0.
    began: Option<u64>,
    has_begun: bool,
    has_ended: bool,
    outcome: Option<bool>,
    declared: Option<CostIs>,
    unpriced: bool,
    model: Option<String>,
}

/// How a header of [`VERSION`] begins.
const CURRENT: &[u8] = b"{\"endstop_trace\":1,";

/// Distinguishes a header from an event.
#[derive(Deserialize)]
struct Mark {
    endstop_trace: Option<u32>,
}

impl TraceReader<'_> {
    /// An event before the first header, or after an unknown one, belongs to no run.
    fn event(&mut self, event: &mut Event<'_>, refused: bool, sink: &mut dyn RunSink) {
        if let Some(run) = &mut self.run {
            run.play(event, refused, sink);
        }
    }

    fn line(&mut self, lines: &JsonLines<'_>, sink: &mut dyn RunSink) {
        // A header as it is written is read once, not first for its version.
        if lines.text().starts_with(CURRENT)
            && let Ok(header) = serde_json::from_slice(lines.text())
        {
            self.end(sink);
            return self.begin(&header, sink);
        }
        let Some(mark) = lines.parse::<Mark>() else { return };
        match mark.endstop_trace {
            Some(VERSION) => {
                self.end(sink);
                if let Some(header) = lines.parse() {
                    self.begin(&header, sink);
                }
            }
            Some(version) => {
                self.end(sink);
                lines.warn(WarningKind::UnknownVersion, || {
                    format!("a trace of version {version}; known is {VERSION}")
                });
            }
            None => {
                if let Some(line) = lines.parse::<Line<'_>>() {
                    self.event(&mut line.as_event(), line.refused, sink);
                }
            }
        }
    }

    fn begin(&mut self, header: &Header<'_>, sink: &mut dyn RunSink) {
        let part = self.reading.part;
        let id = if header.run.is_empty() { part.stem() } else { &*header.run };
        let model = header.model.as_deref();
        sink.begin(&RunHeader { id, format: self.reading.format, file: part.name(), model });
        let declared = CostIs::declared(header.cost_is.as_deref());
        self.run = Some(RecordedRun {
            at: 0,
            began: None,
            has_begun: false,
            has_ended: false,
            outcome: None,
            declared,
            unpriced: false,
            model: model.map(str::to_owned),
        });
    }

    fn end(&mut self, sink: &mut dyn RunSink) {
        let Some(mut run) = self.run.take() else { return };
        if !run.has_ended {
            let mut end = Event::new(Millis(run.at), EventKind::RunEnd { succeeded: None });
            run.play(&mut end, false, sink);
        }
        let cost_is =
            if run.unpriced { CostIs::Unknown } else { run.declared.unwrap_or(CostIs::Computed) };
        sink.end(&RunFooter { outcome: run.outcome, cost_is, model: run.model.as_deref() });
    }
}

impl RecordedRun {
    /// A line may leave its wall time out; it is that of the run's first line.
    fn wall_of(&mut self, event: &Event<'_>) -> WallTime {
        if event.wall.0 > 0 {
            self.began.get_or_insert(event.wall.0.saturating_sub(event.at.0));
            return event.wall;
        }
        WallTime(self.began.map_or(0, |began| began.saturating_add(self.at)))
    }

    #[inline]
    fn play(&mut self, event: &mut Event<'_>, refused: bool, sink: &mut dyn RunSink) {
        if self.has_ended {
            return;
        }
        self.at = self.at.max(event.at.0);
        // That of a sub-agent is an event like others.
        let begins = matches!(event.kind, EventKind::RunBegin { .. })
            && event.source == endstop_core::event::Source::Own;
        if begins == self.has_begun {
            if begins {
                return;
            }
            let kind = EventKind::RunBegin { agent: None, depth: 0 };
            sink.event(&Event { wall: event.wall, ..Event::new(Millis(self.at), kind) });
        }
        self.has_begun = true;
        match &event.kind {
            EventKind::Reply { cost, model, .. } => {
                self.unpriced |= !matches!(cost, Some(Cost::Known(_)));
                if self.model.is_none() {
                    self.model = model.map(str::to_owned);
                }
            }
            EventKind::RunEnd { succeeded } => {
                self.has_ended = true;
                self.outcome = *succeeded;
            }
            _ => {}
        }
        event.wall = self.wall_of(event);
        event.at = Millis(self.at);
        if refused { sink.refused(event) } else { sink.event(event) }
    }
}

#[cfg(test)]
mod tests;
