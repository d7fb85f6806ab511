//! One file while it is read: what its reader needs to know, and where its warnings go.

use std::fmt::Display;
use std::io::Read as _;

use endstop_price::PriceTable;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Source;
use super::call_charge::{CallCharge, ModelCall, charge_of};
use super::document::{Element, Wanted, each_element, look_for};
use super::limits::{MAX_CHILD_FILES, MAX_ELEMENT_BYTES};
use super::lines::JsonLines;
use super::part::Part;
use super::step::{Full, ModelResponse};
use super::supplies::Supplies;
use super::warning::{WarningKind, Warnings};

/// The file that is read, and the line that was reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'s> {
    /// The [`Format::id`](super::Format::id).
    pub(crate) format: &'static str,
    pub(crate) supplies: Supplies,
    pub(crate) part: &'s Part,
    /// The line that warnings are about; `None` for the whole file.
    pub(crate) line: Option<u64>,
    /// Files of the run's sub-agents.
    pub(crate) children: &'s [Part],
    pub(crate) prices: &'s PriceTable,
    pub(crate) warnings: &'s Warnings,
}

impl<'s> Reading<'s> {
    pub(crate) const fn new(
        (format, supplies): (&'static str, Supplies),
        source: &Source<'s>,
        warnings: &'s Warnings,
    ) -> Self {
        let (part, children, prices) = (source.main, source.children, source.prices);
        Self { format, supplies, part, line: None, children, prices, warnings }
    }

    /// Of a part alone, for tests.
    #[cfg(test)]
    pub(crate) fn of_part(part: &'s Part, warnings: &'s Warnings) -> Self {
        let source = Source { main: part, children: &[], prices: PriceTable::embedded() };
        Self::new(("test", Supplies::default()), &source, warnings)
    }

    /// The same file at this line.
    pub(crate) const fn at(self, line: Option<u64>) -> Self {
        Self { line, ..self }
    }

    /// Another file of the same run.
    pub(crate) const fn of(self, part: &'s Part) -> Self {
        Self { part, line: None, ..self }
    }

    /// The files of the run's sub-agents, as many as are read.
    pub(crate) fn child_files(self) -> impl Iterator<Item = Self> {
        if self.children.len() > MAX_CHILD_FILES {
            self.warn(WarningKind::TooLarge, || {
                format!("more than {MAX_CHILD_FILES} files of sub-agents; the rest is not read")
            });
        }
        self.children.iter().take(MAX_CHILD_FILES).map(move |part| self.of(part))
    }

    /// The same, with warnings that go elsewhere.
    pub(crate) const fn telling(self, warnings: &'s Warnings) -> Self {
        Self { warnings, ..self }
    }

    /// The file's lines.
    pub(crate) fn lines(&self) -> JsonLines<'s> {
        JsonLines::open(self.part, self.warnings)
    }

    /// Hands over the elements of the list that the document is or holds under these keys, see [`Wanted`].
    pub(crate) fn each_item(&self, list: &[&str], take: &mut dyn FnMut(&RawValue)) {
        let wanted = Wanted { list, beside: &[] };
        each_element(self.part, wanted, self.warnings, &mut |element| {
            if let Element::Item(item) = element {
                take(item);
            }
        });
    }

    /// Hands over the one document that the file is, as a whole, for formats that keep many small files. A cut or a
    /// fault is a warning.
    pub(crate) fn whole(&self, take: &mut dyn FnMut(&RawValue)) {
        let most = u64::try_from(MAX_ELEMENT_BYTES).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        let read = self.part.open();
        let read = read.and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut bytes));
        if let Err(error) = read {
            return self.warn(WarningKind::Unreadable, || format!("cannot be read: {error}"));
        }
        if bytes.len() > MAX_ELEMENT_BYTES {
            let limit = MAX_ELEMENT_BYTES >> 20;
            return self.warn(WarningKind::TooLarge, || format!("larger than {limit} MiB"));
        }
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        match serde_json::from_slice::<&RawValue>(text) {
            Ok(document) => take(document),
            // Every complete document ends with a bracket.
            Err(error) if error.is_eof() || !text.trim_ascii_end().ends_with(b"}") => {
                self.warn(WarningKind::Truncated, || {
                    "the file ends in the middle of its document".to_owned()
                });
            }
            Err(error) => self.warn(WarningKind::Malformed, || format!("not a document: {error}")),
        }
    }

    /// Looks for keys next to the list. Faults are reported when the list is read.
    pub(crate) fn look_for(&self, keys: &[&str], take: &mut dyn FnMut(&str, &RawValue)) {
        look_for(self.part, keys, take);
    }

    /// Adds a warning about the current line.
    pub(crate) fn warn(&self, kind: WarningKind, message: impl FnOnce() -> String) {
        self.warnings.add(kind, self.part.name(), self.line, message);
    }

    /// Warns if something did not fit in its step.
    pub(crate) fn check(&self, added: Result<(), Full>) {
        if added == Err(Full) {
            self.warn_full();
        }
    }

    /// Warns that a step is [`Full`](super::timeline::Full).
    pub(crate) fn warn_full(&self) {
        self.warn(WarningKind::TooLarge, || {
            "a step holds more than is kept; the rest of it is dropped".to_owned()
        });
    }

    /// Reads a record. If it is not of this format, the warning is `wrong` and why.
    pub(crate) fn parse<'a, T: Deserialize<'a>>(
        &self,
        raw: &'a RawValue,
        wrong: impl Display,
    ) -> Option<T> {
        self.parse_text(raw.get(), wrong)
    }

    /// Like [`parse`](Self::parse), for a text that holds JSON.
    pub(crate) fn parse_text<'a, T: Deserialize<'a>>(
        &self,
        text: &'a str,
        wrong: impl Display,
    ) -> Option<T> {
        let warn = |error| self.warn(WarningKind::Malformed, || format!("{wrong}: {error}"));
        serde_json::from_str(text).map_err(warn).ok()
    }

    /// Reads a usage report, unless it is absent or null. `name` is what warnings call it.
    pub(crate) fn usage<'a, T: Deserialize<'a>>(
        &self,
        raw: Option<&'a RawValue>,
        name: impl Display,
    ) -> Option<T> {
        let raw = raw.map(RawValue::get).filter(|raw| *raw != "null")?;
        let warn = |error| self.warn(WarningKind::BadNumber, || format!("{name}: {error}"));
        serde_json::from_str(raw).map_err(warn).ok()
    }

    /// A response of this model with what its call used and cost, if there is a report of that. `name` is what warnings call
    /// the report.
    pub(crate) fn reply(
        &self,
        model: Option<impl Into<String>>,
        call: Option<ModelCall<'_>>,
        name: impl Display,
    ) -> ModelResponse {
        let mut reply = ModelResponse::unpriced(model);
        if let Some(call) = call {
            self.price(&mut reply, &call, name);
        }
        reply
    }

    /// Sets usage and cost of a response from its usage report. `name` is what warnings call the report.
    pub(crate) fn price(
        &self,
        reply: &mut ModelResponse,
        call: &ModelCall<'_>,
        name: impl Display,
    ) -> CallCharge {
        let model = call.model.or(reply.model.as_deref());
        let charge = charge_of(&ModelCall { model, ..*call }, self.prices);
        if let Some(problem) = &charge.problem {
            self.warn(WarningKind::BadNumber, || format!("{name}: {problem}"));
        }
        (reply.usage, reply.cost, reply.source) = (charge.usage, Some(charge.cost), charge.source);
        charge
    }
}
