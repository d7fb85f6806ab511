//! Compressed answers: round trips under any cut, and data that means harm.
