//! What live runs share: the ledger, cancellation, the tree of runs, and the plan of a model call.
