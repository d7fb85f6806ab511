//! The ledger: a tree of budgets that cannot be overshot.

/// Stands here until the ledger is in place.
#[derive(Clone, Debug)]
pub struct Budget;
