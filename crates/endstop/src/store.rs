//! Stores of saved runs and their traces.
