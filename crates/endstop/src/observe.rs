//! Sinks of what a run does: console, status line, trace file, OpenTelemetry.
