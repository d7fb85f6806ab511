//! Gemini CLI sessions: one JSON document, or since 2026 JSON lines of the same messages.
//!
//! - A message of type `gemini` with a model, tokens or tool calls is one model call. In lines it is written
//!   again whenever it grows; the last writing counts.
//! - `$rewindTo` takes messages out of the conversation; their calls were made and paid for all the same.
//!   `$set` repeats what is known. Neither is an event.
//! - `tokens.input` includes the cached ones, `output` excludes the thoughts.
//! - A message is stamped when it is first written, which without words is when its tools are done: the time
//!   of a reply is then the latest that it can be.
//! - A tool failed if its status is `error` or `cancelled`.
//! - A sub-agent has a file of its own, in a folder named by its parent's session.

mod gather;
mod record;

use std::path::{Path, PathBuf};

use self::gather::Gather;
use self::record::Record;
use super::act::{Act, Time};
use super::document::{Element, Wanted, each_element, holds_several, look_for};
use super::lanes::{self, Lane};
use super::lines::JsonLines;
use super::part::Part;
use super::warning::{WarningKind, Warnings};
use super::writer::{Closing, RunWriter};
use super::{Format, Head, Home, RunHeader, RunSink, Source, Supplies};
use endstop_price::PriceTable;

/// The folder of a project's sessions.
const CHATS: &str = "chats";

/// How many characters of its session's id a file's name ends with.
const SHORT_ID: usize = 8;

/// How many lines tell whether a file is one of lines.
const SAMPLE_LINES: usize = 3;

/// The most sub-agent files of one run; more than that is no session.
const MAX_CHILDREN: usize = 10_000;

/// The format.
pub(super) struct GeminiCli;

impl Format for GeminiCli {
    fn id(&self) -> &'static str {
        "gemini-cli"
    }

    fn describe(&self) -> &'static str {
        "Gemini CLI sessions, `~/.gemini/tmp/<project>/chats/session-*.json` and `.jsonl`"
    }

    fn homes(&self) -> &'static [Home] {
        &[Home { variable: "GEMINI_CLI_HOME", otherwise: &[""], below: &[".gemini/tmp"] }]
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let keys = head.document().filter(|keys| !keys.in_list);
        keys.is_some_and(|keys| keys.have(&["sessionId", "projectHash"]))
    }

    fn supplies(&self) -> Supplies {
        Supplies {
            tokens: true,
            money: true,
            time: true,
            tool_failures: true,
            subagents: true,
            ..Supplies::default()
        }
    }

    fn parent(&self, path: &Path, _head: &Head<'_>) -> Option<PathBuf> {
        let folder = path.parent()?;
        let chats =
            folder.parent().filter(|chats| chats.file_name().is_some_and(|n| n == CHATS))?;
        let short: String = folder.file_name()?.to_str()?.chars().take(SHORT_ID).collect();
        let mut sessions = sessions_of(chats, &short);
        sessions.sort();
        sessions.pop()
    }

    fn companions(&self, path: &Path) -> Vec<PathBuf> {
        let entries = path.parent().map(std::fs::read_dir);
        let (Some(Ok(entries)), Some(stem)) = (entries, path.file_stem().and_then(|s| s.to_str()))
        else {
            return Vec::new();
        };
        let Some((_, short)) = stem.rsplit_once('-') else { return Vec::new() };
        let folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
        folders.filter(|path| name_of(path).starts_with(short)).collect()
    }

    fn shadowed_by(&self, path: &Path) -> Option<PathBuf> {
        // A session that is taken up again is copied to lines and goes on there.
        path.extension().filter(|ending| *ending == "json").map(|_| path.with_extension("jsonl"))
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        match source.children.is_empty() {
            true => stream(source, sink, &mut warnings),
            false => merge(source, sink, &mut warnings),
        }
        warnings.send(sink);
    }
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The session files in a folder whose names end with the short id.
fn sessions_of(chats: &Path, short: &str) -> Vec<PathBuf> {
    let Ok(entries) = chats.read_dir() else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let is_session = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        stem.rsplit_once('-').is_some_and(|(_, id)| id == short) && path.is_file()
    };
    paths.filter(is_session).collect()
}

/// Plays a session without sub-agents while it is read.
fn stream(source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let mut sink = Some(sink);
    let mut writer: Option<RunWriter<'_>> = None;
    read_part(source.main, source.prices, warnings, &mut |act, session, first| {
        if let Some(sink) = sink.take() {
            writer = Some(RunWriter::begin(sink, &header(source.main, session), first));
        }
        if let Some(writer) = &mut writer {
            writer.act(&act);
        }
    });
    if let Some(writer) = writer {
        writer.end(Closing { has_money: true, ..Closing::default() });
    }
}

fn merge(source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let (mut own, mut id, mut begun) = (Lane::default(), None, None);
    read_part(source.main, source.prices, warnings, &mut |act, session, first| {
        id = id.take().or_else(|| session.map(str::to_owned));
        begun = begun.or(first);
        own.acts.push(act);
    });
    if source.children.len() > MAX_CHILDREN {
        let message =
            || format!("more than {MAX_CHILDREN} files of sub-agents; the rest is not read");
        warnings.add(WarningKind::TooLarge, source.main.name(), None, message);
    }
    let mut children = Vec::new();
    for part in source.children.iter().take(MAX_CHILDREN) {
        let mut lane = Lane::default();
        let mut last = None;
        read_part(part, source.prices, warnings, &mut |act, _, first| {
            if lane.acts.is_empty() {
                begun = begun.or(first);
                lane.acts.push(Act::ChildBegin(first));
            }
            last = act.beats().iter().filter_map(|(time, _)| *time).max().or(last);
            lane.acts.push(act);
        });
        if !lane.acts.is_empty() {
            lane.acts.push(Act::ChildEnd(last));
            children.push(lane);
        }
    }
    if own.acts.is_empty() && children.is_empty() {
        return;
    }
    let mut writer = RunWriter::begin(sink, &header(source.main, id.as_deref()), begun);
    lanes::play(&mut writer, &own, &children);
    writer.end(Closing { has_money: true, ..Closing::default() });
}

fn header<'h>(part: &'h Part, session: Option<&'h str>) -> RunHeader<'h> {
    let id = session.unwrap_or(part.stem());
    RunHeader { id, format: GeminiCli.id(), file: part.name(), model: None }
}

/// What takes the acts of a file: with its session's id, and the time of its first record.
type TakeAct<'t> = dyn FnMut(Act, Option<&str>, Time) + 't;

fn read_part(part: &Part, prices: &PriceTable, warnings: &mut Warnings, take: &mut TakeAct<'_>) {
    let mut gather = Gather::new(part, prices);
    match is_lines(part) {
        true => read_lines(part, &mut gather, warnings, take),
        false => read_json(part, &mut gather, warnings, take),
    }
    gather.finish(warnings);
    gather.drain(take);
}

/// Whether the file is more than one document; where the first is damaged, whether one of the first lines is
/// a whole record.
fn is_lines(part: &Part) -> bool {
    holds_several(part).unwrap_or_else(|| begins_with_line(part))
}

fn begins_with_line(part: &Part) -> bool {
    // The reading itself gives the warnings.
    let mut unheard = Warnings::default();
    let mut lines = JsonLines::open(part, &mut unheard);
    for _ in 0..SAMPLE_LINES {
        if !lines.advance(&mut unheard) {
            return false;
        }
        let record = lines.parse::<Record<'_>>(&mut unheard);
        if record.is_some_and(|record| record.is_line()) {
            return true;
        }
    }
    false
}

fn read_lines(
    part: &Part,
    gather: &mut Gather<'_>,
    warnings: &mut Warnings,
    take: &mut TakeAct<'_>,
) {
    let mut lines = JsonLines::open(part, warnings);
    while lines.advance(warnings) {
        if let Some(record) = lines.parse::<Record<'_>>(warnings) {
            gather.record(record, Some(lines.number()), warnings);
            gather.drain(take);
        }
    }
}

fn read_json(
    part: &Part,
    gather: &mut Gather<'_>,
    warnings: &mut Warnings,
    take: &mut TakeAct<'_>,
) {
    look_for(part, &["sessionId"], &mut |_, value| gather.session(value));
    let wanted = Wanted { list: &["messages"], beside: &[] };
    each_element(part, wanted, warnings, &mut |element, warnings| {
        let Element::Item(item) = element else { return };
        match serde_json::from_str::<Record<'_>>(item.get()) {
            Ok(record) => {
                gather.record(record, None, warnings);
                gather.drain(take);
            }
            Err(error) => {
                let message = || format!("not a message of this format: {error}");
                warnings.add(WarningKind::Malformed, part.name(), None, message);
            }
        }
    });
}

#[cfg(test)]
#[path = "gemini_cli_tests.rs"]
mod tests;
