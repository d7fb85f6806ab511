//! Limits of the scripted model. It is a test server that anyone on the machine can reach, so every size is bounded.

use std::time::Duration;

/// Bytes of a request's body that are read: what the providers themselves accept.
pub(crate) const MAX_REQUEST: usize = 32 << 20;
/// Connections at the same time; more wait. A load test of a gateway needs thousands.
pub(crate) const MAX_CONNECTIONS: usize = 4_096;
/// Time that a client has to send a request's head, so that idle connections end.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Model calls that the log keeps; the oldest is dropped first. Longer than any test looks back.
pub(crate) const MAX_LOGGED_CALLS: usize = 1_000;
/// Responses to one request; a request that asks for more gets this many. Tests ask for two or three.
pub(crate) const MAX_CHOICES: u64 = 16;

/// Responses that a client can continue by their id; the oldest is dropped first. A test continues its last ones.
pub(crate) const MAX_THREADS: usize = 256;
/// Tools that are kept with such a response: the most that a provider accepts.
pub(crate) const MAX_THREAD_TOOLS: usize = 128;
/// Bytes of their schemas, so that all threads together stay below 16 MiB.
pub(crate) const MAX_THREAD_SCHEMAS: usize = 64 << 10;

/// Levels of a schema that are followed; below, values are as small as they can be.
pub(crate) const MAX_SCHEMA_DEPTH: usize = 24;
/// Elements of an array and characters of a text that are made, whatever the schema asks for.
pub(crate) const MAX_MADE: usize = 256;
/// Values that are made for one schema: a small schema could ask for arrays of arrays of arrays.
pub(crate) const MAX_VALUES: usize = 4_096;

/// The longest part of a property's name in a text that is made for it, in characters: the text stays one line.
pub(crate) const NAME_CHARS: usize = 40;
/// The longest part of a wrong script's name in its error, in characters: a line of a terminal.
pub(crate) const ERROR_CHARS: usize = 80;
/// The longest part of a model's name that a call keeps, in characters: the longest names in use have about 100.
pub(crate) const MODEL_CHARS: usize = 200;

/// Between the half of an answer and the cut, so that the half is sent.
pub(crate) const BEFORE_CUT: Duration = Duration::from_millis(20);
/// How long a slow script waits before a word.
pub(crate) const SLOW_WORD: Duration = Duration::from_millis(200);
