//! Recorded runs, where they are at hand: counts and sums that were found independently.
