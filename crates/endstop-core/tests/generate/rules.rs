//! Random policies: a few rules of every action.

use proptest::prelude::*;
use proptest::sample::select;

use super::condition::{condition, limit};
use crate::naive::{Action, Rule};

const NAMES: [&str; 4] = ["first", "second", "third", "fourth"];
const ACTIONS: [Action; 5] =
    [Action::Stop, Action::Pause, Action::Finish, Action::Retry, Action::Warn];

/// One to four rules, some of them a plain limit as people write them. Many only warn: a run that is
/// stopped immediately shows little.
pub(crate) fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let action =
        prop_oneof![1 => Just(Action::Warn), 2 => Just(Action::Stop), 2 => select(&ACTIONS[..])];
    let condition = prop_oneof![2 => limit().boxed(), 3 => condition().boxed()];
    prop::collection::vec((action, condition), 1..=NAMES.len()).prop_map(|rules| {
        let named = rules.into_iter().zip(NAMES);
        named.map(|((action, condition), name)| Rule { name, action, condition }).collect()
    })
}
