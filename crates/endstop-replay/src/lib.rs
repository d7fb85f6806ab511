//! Stop policies over recorded agent runs: replay, sweep, suggest and drift.
