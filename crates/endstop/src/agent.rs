//! The agent loop: a driver of the decision core that calls a model, runs tools and stops for the right reason.

/// What a sub-agent shares with the run that begins it.
#[derive(Debug)]
pub(crate) struct Scope;
