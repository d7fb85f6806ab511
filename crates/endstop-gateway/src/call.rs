//! One call, from the request to its settlement.
