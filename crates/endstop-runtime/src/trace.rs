//! The trace of a run: writing it, and keeping it in memory.

mod recorder;
mod recording;

pub use recorder::{
    Flush, TraceProblems, TraceRecorder, push_seen, push_trace_line, trace_header, trace_line,
};
pub use recording::{Recorded, Recording};
