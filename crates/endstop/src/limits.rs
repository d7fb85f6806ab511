//! The limits of the loop, each with its reason.

use std::time::Duration;

/// The longest reply that is kept, in bytes; a longer one is cut.
pub(crate) const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;
/// The most tool calls of one reply; a reply with more is cut.
pub(crate) const MAX_CALLS_OF_REPLY: usize = 1_024;
/// The longest answer that is kept of a tool call, in bytes: more than a model reads. The rest is cut.
pub(crate) const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// The time of all hooks together that begin when the run is aborted already: enough to write something down.
pub(crate) const HOOK_GRACE: Duration = Duration::from_secs(10);
/// A connection that breaks later than this was made: the provider may have worked on the request, and
/// reasoning that nobody sees is charged too.
pub(crate) const LONGEST_CONNECTING: Duration = Duration::from_secs(5);
