//! Finds what a trip record says of a rule, in few words.

use endstop_core::Truth;
use endstop_core::policy::Action;
use endstop_core::trip_record::{NodeRecord, TripRecord};

use super::text::clean_to;

/// Columns of a rule's words.
const RULE: usize = 120;

/// The rules of `action` that hold, each with a leaf that does: `ask-first (cost >= $1.00 is $1.20)`.
pub(super) fn holding(verdict: &TripRecord, action: Action) -> String {
    let rules = verdict.rules.iter().filter(|rule| rule.trips && rule.action == action);
    let words = rules.map(|rule| match first_true(&rule.tree) {
        Some(leaf) => {
            let observed = leaf.observed.as_ref();
            let is = observed.map(|value| format!(" is {value}")).unwrap_or_default();
            format!("{} ({}{is})", rule.id, leaf.text)
        }
        None => rule.id.clone(),
    });
    clean_to(&words.collect::<Vec<_>>().join(", "), RULE)
}

fn first_true(node: &NodeRecord) -> Option<&NodeRecord> {
    if node.state != Truth::True {
        return None;
    }
    // What stands under a `not` is false where the whole is true.
    node.parts.iter().find_map(first_true).or(Some(node))
}
