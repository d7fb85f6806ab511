//! Tools: functions, schemas, sets, answers, the built-in ones.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the functions that these tests share fail as the tests do"
)]

#[path = "tool/answers.rs"]
mod answers;
#[cfg(unix)]
#[path = "tool/bash.rs"]
mod bash;
#[path = "tool/builtin.rs"]
mod builtin;
#[cfg(unix)]
#[path = "tool/confinement.rs"]
mod confinement;
#[path = "tool/function.rs"]
mod function;
#[path = "tool/schema.rs"]
mod schema;
#[path = "tool/set.rs"]
mod set;
#[path = "tool/support.rs"]
mod support;
