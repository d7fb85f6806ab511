//! The trace of a run: its events as lines, written, kept in memory, and replayed.

mod buffer;
mod file;
mod lines;
mod log;
mod open_work;
mod recorder;
mod recording;
mod replay;
mod run_directory;
mod run_log;
#[cfg(feature = "redis")]
mod run_redis;

pub use buffer::{TraceBuffer, TraceHole};
pub use file::TraceFile;
pub use lines::{push_seen, push_trace_line, trace_header, trace_line};
pub use log::TraceLog;
pub use recorder::{Flush, TraceProblems, TraceRecorder};
pub use recording::{Recorded, Recording};
pub use replay::{Replay, Replayed};
pub use run_directory::DirectoryRunLog;
pub use run_log::{AppendError, OpenRun, RunLines, RunLog, RunLogError, SharedRunLog};
#[cfg(feature = "redis")]
pub use run_redis::RedisRunLog;

pub use crate::store::sealed_file::{TraceFileError, TraceLineError};
