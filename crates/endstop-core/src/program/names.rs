//! The names of a program's rows in a saved run, so that the run can continue under another policy.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::table::{Index, Table};

/// The names of a program's rows, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Names {
    pub(crate) rules: Vec<String>,
    pub(crate) gauges: Vec<String>,
    pub(crate) facts: Vec<String>,
    pub(crate) tools: Vec<String>,
    pub(crate) reported: Vec<String>,
    /// Operators over time without their limit, so that a raised limit finds its counter again. Operators
    /// that differ only in it share a name.
    pub(crate) operators: Vec<String>,
    /// The matchers' states mean something only under the texts and patterns that they were built for.
    pub(crate) texts: u64,
}

/// The rows of a table that was saved under the names `from`, for each name of `to`: `None` for an unknown name. Of
/// rows that share a name, the one that `is_better` than the others. `None` in all if the table has not one row for
/// each name.
pub(crate) fn carried<I: Index, T: Clone>(
    table: Table<I, T>,
    from: &[String],
    to: &[String],
    is_better: impl Fn(&T, &T) -> bool,
) -> Option<Vec<Option<T>>> {
    if table.len() != from.len() {
        return None;
    }
    let rows = table.into_rows().into_vec();
    if from == to {
        return Some(rows.into_iter().map(Some).collect());
    }
    let mut known: BTreeMap<&str, T> = BTreeMap::new();
    for (name, row) in from.iter().zip(rows) {
        match known.entry(name) {
            Entry::Vacant(free) => drop(free.insert(row)),
            Entry::Occupied(mut taken) if is_better(&row, taken.get()) => drop(taken.insert(row)),
            Entry::Occupied(_) => {}
        }
    }
    Some(to.iter().map(|name| known.get(name.as_str()).cloned()).collect())
}
