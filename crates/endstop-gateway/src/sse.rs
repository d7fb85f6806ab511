//! Events of a stream, told apart without copying.

/// One event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'e> {
    /// The `event` field; empty where there is none.
    pub name: &'e str,
    /// The `data` fields, joined by line feeds.
    pub data: &'e str,
}
