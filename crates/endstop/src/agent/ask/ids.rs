//! Ids of tool calls.

use std::collections::BTreeSet;

use crate::message::ToolCall;

/// Every call needs an id of its own; not every provider gives one.
pub(super) fn name_calls(step: u64, calls: &mut [ToolCall]) {
    if let [call] = &*calls
        && !call.id.is_empty()
    {
        return;
    }
    let mut taken: BTreeSet<String> = calls.iter().map(|call| call.id.clone()).collect();
    let mut seen = BTreeSet::new();
    for (place, call) in calls.iter_mut().enumerate() {
        if call.id.is_empty() || !seen.insert(call.id.clone()) {
            call.id = format!("call_{step}_{place}");
            while !taken.insert(call.id.clone()) {
                call.id.push('_');
            }
        }
    }
}
