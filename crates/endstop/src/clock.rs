//! Time for runs: a monotonic clock that goes on over save and resume, and wall time.
