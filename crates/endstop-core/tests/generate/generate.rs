//! The inputs of the differential tests.

pub(crate) mod adversarial;
pub(crate) mod condition;
pub(crate) mod rules;
pub(crate) mod stream;
pub(crate) mod trees;
pub(crate) mod vocabulary;
