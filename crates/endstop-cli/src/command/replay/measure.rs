//! The saving of a stop, in the best measure that the runs have: money, or tokens, or steps.

use endstop::core::units::Money;
use endstop_price::CostIs;
use endstop_replay::{Effect, RunReport, Unpriced};

use crate::limits::MAX_NAMED_MODELS;
use crate::output::{count, counted, money, short};

/// A measure of what runs spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Money,
    Tokens,
    Steps,
}

impl Measure {
    /// The best one that these runs have.
    pub(super) fn of(runs: &[RunReport]) -> Self {
        if knows_money(runs) {
            return Self::Money;
        }
        if runs.iter().any(|run| run.tokens > 0) { Self::Tokens } else { Self::Steps }
    }

    /// The amount saved, as an integer of the measure.
    pub(super) const fn saved(self, effect: &Effect) -> u64 {
        match self {
            Self::Money => effect.saved.picos(),
            Self::Tokens => effect.tokens_saved,
            Self::Steps => effect.steps_saved,
        }
    }

    /// The total spend, as an integer of the measure.
    pub(super) const fn spent(self, effect: &Effect) -> u64 {
        match self {
            Self::Money => effect.cost.picos(),
            Self::Tokens => effect.tokens,
            Self::Steps => effect.steps,
        }
    }

    /// An amount for people, without the noun if a table's header has it.
    pub(super) fn amount(self, amount: u64) -> String {
        match self {
            Self::Money => money(Money::from_picos(amount)),
            Self::Tokens => short(amount),
            Self::Steps => count(amount),
        }
    }

    /// The measure's noun; money shows its sign instead.
    pub(super) const fn noun(self) -> &'static str {
        match self {
            Self::Money => "",
            Self::Tokens => " tokens",
            Self::Steps => " steps",
        }
    }

    /// The header of a column of savings.
    pub(super) const fn header(self) -> &'static str {
        match self {
            Self::Money => "saved",
            Self::Tokens => "tokens saved",
            Self::Steps => "steps saved",
        }
    }

    /// `$4.10 of $21.30`, `120 of 497 steps`.
    pub(super) fn saved_of(self, effect: &Effect) -> String {
        let (saved, spent) = (self.saved(effect), self.spent(effect));
        format!("{} of {}{}", self.amount(saved), self.amount(spent), self.noun())
    }
}

/// Whether some runs report money. Formats without usage do not, and unknown spend is not zero; neither does a run
/// with calls that have no price.
pub(super) fn knows_money(runs: &[RunReport]) -> bool {
    let tells = |run: &RunReport| run.cost_is != CostIs::Unknown || run.cost.is_some();
    runs.iter().any(|run| run.unpriced_calls == 0 && tells(run))
}

/// `3 of 40 runs have 41 calls without a price (`x`, `y`): no dollars count them`; `None` if each call has one.
pub(super) fn without_price(runs: &[RunReport]) -> Option<String> {
    let Unpriced { runs: some, calls, models } = Unpriced::of(runs);
    if calls == 0 {
        return None;
    }
    let names: Vec<String> =
        models.iter().take(MAX_NAMED_MODELS).map(|model| format!("`{model}`")).collect();
    let more = match models.len().saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "{} of {} with {} without a price ({}{more}): their dollars are not in what is saved",
        count(some),
        counted(runs.len() as u64, "run"),
        counted(calls, "call"),
        names.join(", "),
    ))
}

/// A share for people: `21%`, `0.4%`, `0%`; none of nothing is `-`.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let tenths = (u128::from(part) * 1_000 + u128::from(whole / 2)) / u128::from(whole);
    match tenths {
        0 if part > 0 => "< 0.1%".to_owned(),
        1..100 if !tenths.is_multiple_of(10) => format!("{}.{}%", tenths / 10, tenths % 10),
        _ => format!("{}%", (tenths + 5) / 10),
    }
}

/// `3 of 35`, or `-` of nothing.
pub(super) fn of(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{} of {}", count(part), count(whole)) }
}
