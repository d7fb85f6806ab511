//! Tests of the adapters.
