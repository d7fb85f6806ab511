//! The attacks.

mod bodies;
mod elsewhere;
mod honest;
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
    /// At most the limit is billed, and at most what the ledger says.
    Bounded,
    /// That, and no try reaches the upstream: each is answered with this status and names the thing by this text.
    Refused(u16, &'static str),
    /// That, and all tries reach the upstream: nothing may be stopped.
    GoesOn,
    /// More than the limit may be billed where this assumption does not hold.
    RestsOn(Assumption),
}

/// The refusal of a request whose hold does not fit: the stop response, which says what the call could have cost.
pub(super) const TOO_LARGE: Expected =
    Expected::Refused(200, "Not sent: this request could cost up to $");

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
    /// Whether the policy says that errors of the upstream are free (`on_server_error`).
    pub(super) frees_errors: bool,
    pub(super) path: &'static str,
    /// The body of the request of this number, from 0.
    pub(super) request: fn(u64) -> String,
    pub(super) serve: Serve,
    pub(super) expected: Expected,
}

/// Every attack, and honest requests as the control: a gateway that refused everything would pass the others.
pub(super) fn all() -> Vec<Row> {
    let groups: [&[Row]; 6] =
        [honest::ROWS, silent::ROWS, media::ROWS, elsewhere::ROWS, tools::ROWS, twice::ROWS];
    groups.concat()
}
