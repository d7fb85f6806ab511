//! The attacks.

mod bodies;
mod elsewhere;
mod media;
mod silent;
mod tools;
mod twice;

use super::assumption::Assumption;
use super::upstream::Serve;

/// The behavior of the clients of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// One after the other, each reads its answer.
    Reads,
    /// The same, and the gateway gives up an upstream that does not answer (`--answer-within`).
    ReadsUntilTimeout,
    /// One after the other, each leaves as soon as its request is at the upstream.
    Leaves,
    /// All at once.
    SideBySide,
}

/// The required end of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// At most the limit is billed, and at most what our books say.
    Bounded,
    /// That, and all tries reach the upstream: nothing may be stopped.
    GoesOn,
    /// More than the limit may be billed where this assumption does not hold.
    RestsOn(Assumption),
}

/// An attack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// By which it is chosen.
    pub(super) name: &'static str,
    /// The attack, in a few words.
    pub(super) what: &'static str,
    /// The limit in cents.
    pub(super) limit: u64,
    pub(super) tries: u64,
    pub(super) client: Client,
    pub(super) path: &'static str,
    /// The body of the request of this number, from 0.
    pub(super) request: fn(u64) -> String,
    pub(super) serve: Serve,
    pub(super) expected: Expected,
}

/// Every attack.
pub(super) fn all() -> Vec<Row> {
    let groups: [&[Row]; 5] =
        [silent::ROWS, media::ROWS, elsewhere::ROWS, tools::ROWS, twice::ROWS];
    groups.concat()
}
