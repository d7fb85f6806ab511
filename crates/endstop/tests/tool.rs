//! Tools: functions, schemas, answers.

#[path = "tool/function.rs"]
mod function;
