//! The expression language: `steps >= 25 or cost >= $2.00`.
//!
//! Tightest first: comparison; `within`; `not`; `then` (left-associative); `and` or `or`, which never mix
//! without parentheses. `|`, `&`, `!` and their doubled forms read as `or`, `and`, `not`.

mod error;
mod lex;
mod literal;
mod parse;
mod print;

pub use error::Diagnostic;
pub(crate) use error::did_you_mean;
pub(crate) use literal::{Literal, LiteralValue, pattern_text, quoted, wall_text};
pub use parse::parse;
pub(crate) use parse::seconds;
pub use print::Amount;
