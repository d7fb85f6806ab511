//! Saving and restoring a meter: what follows from the rest is left out, and worked out again.
//!
//! A separate file because no event does either.

use super::tally::ToolTally;
use super::{Frame, Meter};
use crate::program::{Class, Names, Program, carried};
use crate::table::Table;

impl Meter {
    /// The meter as it is saved: what follows from the rest is left out.
    pub(crate) fn into_saved(mut self, program: &Program) -> Self {
        self.sync_clocks(program);
        self.sync(program, Class::Live);
        self.sync(program, Class::StepEnd);
        self.compared.drop_derived();
        self.approved.drop_derived();
        self.probed = Table::default();
        self
    }

    /// Brings a meter that was saved under the names `from` under a program, which may be of another policy:
    /// what was not measured is unknown, not zero.
    ///
    /// # Errors
    /// The part that does not go with the names: it has more or fewer rows, or an operator is of another kind.
    pub(crate) fn fit(mut self, from: &Names, program: &Program) -> Result<Self, &'static str> {
        let names = program.names();
        let begun = self.step.begun() > 0;
        let tools = carried(self.tools, &from.tools, &names.tools, |_, _| false);
        let tools = tools.ok_or("tools")?.into_iter();
        let tools = tools.map(|saved| saved.unwrap_or_else(|| ToolTally::uncounted(begun)));
        let reported = carried(self.reported, &from.reported, &names.reported, |_, _| false);
        let reported = reported.ok_or("reported")?.into_iter().map(Option::flatten);
        let texts_go_on = self.words.fit(from, program);
        self.progress.fit(program.needs(), begun);
        let facts = self.facts.fit(from, program, begun, texts_go_on);
        let operators = self.operators.fit(from, program, begun);
        let compared = self.compared.carried(from, names).ok_or("compared")?;
        let mut meter = Self {
            tools: tools.collect(),
            reported: reported.collect(),
            facts: facts.ok_or("facts")?,
            operators: operators.ok_or("operators")?,
            probed: program.probe_names().rows().iter().map(|_| None).collect(),
            compared: Frame::new(program),
            approved: self.approved.fit(program),
            ..self
        };
        meter.sync_all(program);
        meter.compared.restore(program, compared);
        meter.evaluate(program);
        Ok(meter)
    }
}
