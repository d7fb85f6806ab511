//! The inputs of the print and parse tests.

pub(crate) mod condition;
#[expect(dead_code, reason = "the words of generated runs are not needed here")]
pub(crate) mod vocabulary;
