//! Tests of chat completions.
