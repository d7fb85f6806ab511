//! Recorded agent runs: one reader a format, writers, and discovery of the files that tools leave.
