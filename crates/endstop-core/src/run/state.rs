//! The state of a run: saved as it is, copied as it is.

use serde::{Deserialize, Serialize};

use super::ended::Ended;
use super::overrides::Overrides;
use super::raised::RaisedSignals;
use crate::directive::Status;
use crate::meter::{Meter, WorstCase};
use crate::policy::Action;
use crate::program::{Names, Program, carried};
use crate::signal::StopSignal;
use crate::table::{Index as _, RuleIx, Table};
use crate::trip_record::PauseRequest;

/// The history of a run with one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RuleMarks {
    /// A warn rule has warned.
    pub(super) warned: bool,
    /// An approval has disarmed a pause rule.
    pub(super) disarmed: bool,
}

/// The finish rule that asks for the wrap-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WrapUp {
    pub(super) rule: RuleIx,
    /// The signal that ends the run afterwards, if the rule has not tripped yet. A wrap-up that starts early for money
    /// or tokens may never reach the limit of its rule.
    pub(super) foreseen: Option<StopSignal>,
}

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) status: Status,
    pub(super) meter: Meter,
    pub(super) raised: RaisedSignals,
    pub(super) overrides: Overrides,
    pub(super) marks: Table<RuleIx, RuleMarks>,
    /// The wrap-up, once it has begun.
    pub(super) wrap_up: Option<WrapUp>,
    /// The most that the next own step and the wrap-up after it may spend.
    pub(super) ahead: Option<WorstCase>,
    /// Responses dropped in a row.
    pub(super) retries_in_row: u32,
    pub(super) ended: Option<Ended>,
    /// The pause from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pause: Option<PauseRequest>,
}

impl State {
    pub(super) fn new(program: &Program) -> Self {
        Self {
            meter: Meter::new(program),
            overrides: Overrides::new(program),
            marks: program.rules().rows().iter().map(|_| RuleMarks::default()).collect(),
            ..Self::default()
        }
    }

    /// Whether the run has stopped permanently. One that ended naturally may continue.
    pub(super) fn has_stopped(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| !ended.is_natural())
    }

    pub(super) fn is_disarmed(&self, rule: RuleIx) -> bool {
        self.marks.at(rule).disarmed
    }

    /// Brings the saved state, except for the meter, under a program.
    ///
    /// # Errors
    /// The part that does not go with the names it was saved with.
    pub(super) fn fit(self, from: &Names, program: &Program) -> Result<Self, &'static str> {
        let marks = carried(self.marks, &from.rules, &program.names().rules, |_, _| false);
        let marks = marks.ok_or("marks")?.into_iter().map(Option::unwrap_or_default);
        let wrap_up = match self.wrap_up {
            Some(known) => {
                rule_under(program, from, known.rule)?.map(|rule| WrapUp { rule, ..known })
            }
            None => None,
        };
        Ok(Self {
            marks: marks.collect(),
            wrap_up,
            overrides: self.overrides.fit(from, program).ok_or("overrides")?,
            raised: self.raised.fit(),
            ended: self.ended.map(|ended| ended.fit().ok_or("ended")).transpose()?,
            ahead: self.ahead.filter(|_| program.has_action(Action::Finish)),
            ..self
        })
    }
}

/// The index of a saved rule under another program; `None` if it does not have such a rule.
///
/// # Errors
/// Returns an error if the saved run has no such rule itself.
fn rule_under(
    program: &Program,
    from: &Names,
    rule: RuleIx,
) -> Result<Option<RuleIx>, &'static str> {
    let id = from.rules.get(rule.place()).ok_or("wrap_up")?;
    Ok(program.rule_of_id(id))
}
