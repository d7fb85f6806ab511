//! Runs of any transcript written as something else: ATIF, or Endstop's own trace.
//!
//! ```
//! use endstop_transcript::export::{Target, export};
//! use endstop_transcript::sample;
//! use endstop_price::PriceTable;
//!
//! let mut files = Vec::new();
//! for transcript in sample() {
//!     export(&transcript, PriceTable::embedded(), Target::Atif, &mut |run| files.push(run));
//! }
//! assert_eq!(files.len(), 10);
//! assert!(files[0].text.starts_with("{\"schema_version\":\"ATIF-v1.7\""));
//! ```

mod atif;

use endstop_core::Event;
use endstop_core::wire::v1::trace::{Header, Line, VERSION};

use crate::{CostIs, RunFooter, RunHeader, RunSink, Transcript, Warning};
use endstop_price::PriceTable;

/// The output format of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// ATIF v1.7, one JSON document per run. It has no place for the text of a user, which events do not carry, or
    /// for facts, signals, approvals and handoffs: those are dropped and counted. Times within a step become the time
    /// at which it began.
    Atif,
    /// Endstop's trace, JSON lines: every event as it is.
    Endstop,
}

impl Target {
    /// Returns the stable name: `atif`, `endstop`.
    #[must_use]
    pub const fn value(self) -> &'static str {
        match self {
            Self::Atif => "atif",
            Self::Endstop => "endstop",
        }
    }

    /// Returns the ending of a file's name, without its dot.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Atif => "json",
            Self::Endstop => "jsonl",
        }
    }
}

/// A run that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The run's name.
    pub id: String,
    /// The file's text; it ends with a line feed.
    pub text: String,
    /// The number of events that the format has no place for.
    pub dropped: u64,
}

/// Reads a transcript and hands over its runs, each as soon as it is read. Calls whose cost is not recorded are
/// priced by `prices`. Returns the warnings of the reader.
pub fn export(
    transcript: &Transcript,
    prices: &PriceTable,
    target: Target,
    each: &mut dyn FnMut(Exported),
) -> Vec<Warning> {
    let mut exporter =
        Exporter { target, prices: prices.version(), run: None, warnings: Vec::new(), each };
    transcript.read(prices, &mut exporter);
    exporter.warnings
}

struct Exporter<'e> {
    target: Target,
    /// The version of the price table.
    prices: &'e str,
    run: Option<Run>,
    warnings: Vec<Warning>,
    each: &'e mut dyn FnMut(Exported),
}

/// A run that is being read.
struct Run {
    id: String,
    dropped: u64,
    form: ExportForm,
}

enum ExportForm {
    /// The events' lines; what the header says is known only at the end.
    Trace(String),
    Atif(Box<atif::Builder>),
}

/// Whether the line could be written.
fn push(lines: &mut String, line: &Line<'_>) -> bool {
    let Ok(line) = serde_json::to_string(line) else { return false };
    lines.push_str(&line);
    lines.push('\n');
    true
}

impl RunSink for Exporter<'_> {
    fn begin(&mut self, run: &RunHeader<'_>) {
        let form = match self.target {
            Target::Atif => ExportForm::Atif(Box::new(atif::Builder::new(run))),
            Target::Endstop => ExportForm::Trace(String::new()),
        };
        self.run = Some(Run { id: run.id.to_owned(), dropped: 0, form });
    }

    fn event(&mut self, event: &Event<'_>) {
        let Some(run) = &mut self.run else { return };
        let has_place = match &mut run.form {
            ExportForm::Atif(builder) => builder.event(event),
            ExportForm::Trace(lines) => push(lines, &Line::from_event(event)),
        };
        run.dropped += u64::from(!has_place);
    }

    fn refused(&mut self, event: &Event<'_>) {
        let Some(run) = &mut self.run else { return };
        // Elsewhere there is only what happened.
        let ExportForm::Trace(lines) = &mut run.form else { return };
        let line = Line { refused: true, ..Line::from_event(event) };
        run.dropped += u64::from(!push(lines, &line));
    }

    fn end(&mut self, end: &RunFooter<'_>) {
        let Some(run) = self.run.take() else { return };
        let text = match run.form {
            ExportForm::Atif(builder) => builder.finish(end),
            ExportForm::Trace(lines) => {
                let is_computed = matches!(end.cost_is, CostIs::Computed | CostIs::LowerBound);
                let header = Header {
                    endstop_trace: VERSION,
                    run: run.id.as_str().into(),
                    model: end.model.map(Into::into),
                    cost_is: Some(end.cost_is.value().into()),
                    prices: is_computed.then(|| self.prices.into()),
                };
                serde_json::to_string(&header).map(|header| format!("{header}\n{lines}"))
            }
        };
        // Texts and numbers alone cannot fail to be written.
        let text = text.unwrap_or_default();
        (self.each)(Exported { id: run.id, text, dropped: run.dropped });
    }

    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
}
