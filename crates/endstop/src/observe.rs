//! Sinks of what a run does: console, status line, trace file, OpenTelemetry.
//!
//! An [`Observer`] sees every event that a run's decision core processes, in that order, so that a recorded run gives
//! the same decisions when it is replayed. The events of a descendant are seen twice: as its own, and with
//! [`Source::Descendant`](endstop_core::event::Source::Descendant) by each of its ancestors.
//!
//! No sink reads a clock: what it prints or stores comes from the times of the events.

mod console;
mod dry_run;
mod fan_out;
#[cfg(feature = "otel")]
mod otel;
mod screen;
mod status;
mod text;

pub use endstop_runtime::observe::{
    CostUncertainty, Detail, Observation, Observer, REPORT_VERSION, RefusedCall, Remedy, Report,
    Reporter, RunInfo, SettledCall, Spend, SpendCertainty, Spender, SubAgent, Totals, clean,
    clean_lines,
};
pub use endstop_runtime::trace::{
    Flush, Recorded, Recording, TraceProblems, TraceRecorder, push_seen, push_trace_line,
    trace_header, trace_line,
};

pub use console::ConsoleObserver;
pub use dry_run::{DryRunObserver, DryRunStop};
pub use fan_out::Observers;
#[cfg(feature = "otel")]
pub use otel::OtelObserver;
pub use screen::Screen;
pub use status::{Nearness, NextUp, Standing, StatusLine, StatusView, plan_text, render};
pub use text::truncate;
