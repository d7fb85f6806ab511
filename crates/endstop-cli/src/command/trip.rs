//! A trip record, in few words.
//!
//! A separate file because `run`, `serve` and `agent` say it alike.

use endstop::core::condition::gauge::Unit;
use endstop::core::expr::amount_text;
use endstop::core::policy::Action;
use endstop::core::run::WindowReset;
use endstop::core::trip_record::{RuleRecord, TripRecord};
use endstop::core::units::Money;
use endstop::ledger::Amounts;
use endstop::observe::clean;

use crate::output::{money, tokens};

/// The pause rules that trip.
pub(super) fn pausing(record: &TripRecord) -> impl Iterator<Item = &RuleRecord> {
    record.rules.iter().filter(|rule| rule.action == Action::Pause && rule.trips)
}

/// `ask: cost >= $1.00 is $1.20`.
pub(super) fn why(rule: &RuleRecord) -> String {
    let leaf = rule.tree.first_true();
    let observed = leaf.and_then(|leaf| leaf.observed.as_ref());
    let observed = observed.map(|value| format!(" is {value}")).unwrap_or_default();
    let text = leaf.map_or("", |leaf| leaf.text.as_str());
    format!("{}: {text}{observed}", rule.id)
}

/// `the 5h window of the plan resets (2026-11-30T12:00:00Z)`.
pub(super) fn reset_text(reset: &WindowReset) -> String {
    let at = amount_text(reset.at.0, Unit::WallTime);
    format!("the {} window of the plan resets ({})", clean(&reset.window), at.trim_matches('"'))
}

/// The note on the amounts settled beyond the limits; `None` if there are none.
pub(super) fn overshoot(overshoot: &Amounts) -> Option<String> {
    let cost = (overshoot.cost > Money::ZERO).then(|| money(overshoot.cost));
    let of_tokens = (overshoot.tokens > 0).then(|| tokens(overshoot.tokens));
    let parts: Vec<String> = cost.into_iter().chain(of_tokens).collect();
    let text = parts.join(", ");
    (!parts.is_empty()).then(|| format!("overshoot: {text} beyond the limit, by calls in flight"))
}
