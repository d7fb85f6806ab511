//! Codex rollouts: JSON lines of `timestamp`, `type`, `payload`.
//!
//! - A model call is what the model wrote between two reports of usage (`token_count`). New versions write
//!   the report after the call's items, old ones just ahead of them. Without reports an item that comes
//!   after a tool's output begins the next call.
//! - A report's `last_token_usage` counts; where it is absent, the difference of the totals, which may
//!   start afresh. A report with the same totals as the one before it is a repetition.
//! - A fork or a spawned thread begins with a copy of its parent's lines, restamped in one burst or with
//!   their own, older times. They were paid for in the parent's run and are not counted again.
//! - A tool failed if its output says so: an exit code other than 0, or `success` false.
//! - The model is that of the last `turn_context`.

mod gather;
mod record;
mod usage;

use std::path::{Component, Path, PathBuf};

use self::gather::Gather;
use self::record::Record;
use super::lines::JsonLines;
use super::warning::Warnings;
use super::writer::{Closing, RunWriter};
use super::{Format, Head, Home, RunHeader, RunSink, Source, Supplies};

/// The folder for sessions that were put away, and the one where they were.
const ARCHIVE: &str = "archived_sessions";
const ACTIVE: &str = "sessions";

/// The format.
pub(super) struct Codex;

impl Format for Codex {
    fn id(&self) -> &'static str {
        "codex"
    }

    fn describe(&self) -> &'static str {
        "Codex rollouts, `~/.codex/sessions/<year>/<month>/<day>/rollout-*.jsonl`"
    }

    fn homes(&self) -> &'static [Home] {
        &[Home { variable: "CODEX_HOME", otherwise: &[".codex"], below: &[ACTIVE, ARCHIVE] }]
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        head.lines().any(|keys| keys.have(&["timestamp", "type", "payload"]))
    }

    fn supplies(&self) -> Supplies {
        Supplies {
            tokens: true,
            money: true,
            time: true,
            tool_failures: true,
            ..Supplies::default()
        }
    }

    fn shadowed_by(&self, path: &Path) -> Option<PathBuf> {
        let is_archive = |part: &Component<'_>| part.as_os_str() == ARCHIVE;
        let last = path.components().filter(is_archive).count().checked_sub(1)?;
        let mut seen = 0;
        let swap = |part: Component<'_>| {
            if !is_archive(&part) {
                return part.as_os_str().to_owned();
            }
            seen += 1;
            if seen == last + 1 { ACTIVE.into() } else { part.as_os_str().to_owned() }
        };
        Some(path.components().map(swap).collect())
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        play(source, sink, &mut warnings);
        warnings.send(sink);
    }
}

fn play(source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let mut lines = JsonLines::open(source.main, warnings);
    let mut gather = Gather::new(source.prices);
    let mut sink = Some(sink);
    let mut writer: Option<RunWriter<'_>> = None;
    let mut is_over = false;
    while !is_over {
        is_over = !lines.advance(warnings);
        if is_over {
            gather.finish(&lines, warnings);
        } else if let Some(record) = lines.parse::<Record<'_>>(warnings) {
            gather.take(&record, &lines, warnings);
        }
        while let Some(act) = gather.next() {
            if let Some(sink) = sink.take() {
                let header = RunHeader {
                    id: gather.session().unwrap_or(source.main.stem()),
                    format: Codex.id(),
                    file: source.main.name(),
                    model: gather.model(),
                };
                writer = Some(RunWriter::begin(sink, &header, gather.first()));
            }
            if let Some(writer) = &mut writer {
                writer.act(&act);
            }
        }
    }
    if let Some(writer) = writer {
        writer.end(Closing { has_money: true, ..Closing::default() });
    }
}
