//! Claude Code sessions: JSON lines, one file for a session and one for each of its sub-agents.
//!
//! - Lines of one message (same message and request id) are one model call; the last line's usage counts.
//! - Files of sub-agents are children of their session's run, merged by time. A child's line that repeats
//!   a message of the session is not counted again, nor is what `progress` lines embed.
//! - Lines of model `<synthetic>` are no calls; API errors are failed attempts of the next call's step.
//! - Tokens are snapshots taken while the reply streamed: tokens and money are lower bounds.

mod record;
mod stream;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use endstop_core::event::Source as Origin;

use self::record::Peek;
use self::stream::{Lane, Role, Stream, digest};
use super::act::{Act, Beat, Time, parse_time};
use super::lines::JsonLines;
use super::part::Part;
use super::warning::{WarningKind, Warnings};
use super::writer::{Closing, RunWriter};
use super::{Format, Head, Home, RunHeader, RunSink, Source, Supplies};
use endstop_price::PriceTable;

/// The most sub-agent files of one run; more than that is no session.
const MAX_CHILDREN: usize = 10_000;

/// How many lines of a sub-agent's file are searched for its first time.
const FIRST_TIME_LINES: usize = 20;

/// How names of sub-agent files begin, and those of compaction calls.
const AGENT: &str = "agent-";
const COMPACTION: &str = "agent-acompact-";

/// The format.
pub(super) struct ClaudeCode;

impl Format for ClaudeCode {
    fn id(&self) -> &'static str {
        "claude-code"
    }

    fn describe(&self) -> &'static str {
        "Claude Code sessions, `~/.claude/projects/<folder>/<session>.jsonl`"
    }

    fn homes(&self) -> &'static [Home] {
        &[Home {
            variable: "CLAUDE_CONFIG_DIR",
            otherwise: &[".claude", ".config/claude"],
            below: &["projects"],
        }]
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let mut lines =
            head.lines().filter(|keys| keys.have(&["type"]) && !keys.have(&["payload"]));
        lines.any(|keys| ["sessionId", "leafUuid", "snapshot"].iter().any(|key| keys.have(&[key])))
    }

    fn supplies(&self) -> Supplies {
        Supplies {
            tokens: true,
            money: true,
            time: true,
            tool_failures: true,
            retries: true,
            finish: true,
            subagents: true,
            interventions: false,
        }
    }

    fn parent(&self, path: &Path, head: &Head<'_>) -> Option<PathBuf> {
        if !path.file_name()?.to_str()?.starts_with(AGENT) {
            return None;
        }
        let folder = path.parent()?;
        if folder.file_name()? == "subagents" {
            return Some(folder.parent()?.with_extension("jsonl"));
        }
        let mut lines = head.bytes().split(|byte| *byte == b'\n');
        let peek: Peek<'_> = lines.find_map(|line| {
            serde_json::from_slice(line).ok().filter(|peek: &Peek<'_>| peek.session_id.is_some())
        })?;
        Some(folder.join(format!("{}.jsonl", peek.session_id?)))
    }

    fn companions(&self, path: &Path) -> Vec<PathBuf> {
        let mut found = vec![path.with_extension("").join("subagents")];
        let beside = path.parent().map(std::fs::read_dir);
        if let Some(Ok(entries)) = beside {
            let paths = entries.flatten().map(|entry| entry.path());
            found.extend(paths.filter(|path| {
                path.file_name()
                    .and_then(|name| name.to_str())
                    .is_some_and(|n| n.starts_with(AGENT))
            }));
        }
        found
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        let survey = Survey::of(source.main);
        let mut lanes = lanes_of(source, &survey, &mut warnings);
        play(source, &survey, &mut lanes, sink, &mut warnings);
        warnings.send(sink);
    }
}

/// What a first pass over the session's file tells.
#[derive(Default)]
struct Survey {
    session: Option<String>,
    /// Digests of the message ids of the session itself.
    messages: HashSet<u64>,
    has_main: bool,
    has_side: bool,
}

impl Survey {
    fn of(part: &Part) -> Self {
        let mut survey = Self::default();
        // The second pass gives the warnings.
        let mut unheard = Warnings::default();
        let mut lines = JsonLines::open(part, &mut unheard);
        while lines.advance(&mut unheard) {
            let Some(peek) = lines.parse::<Peek<'_>>(&mut unheard) else { continue };
            survey.add(&peek);
        }
        survey
    }

    fn add(&mut self, peek: &Peek<'_>) {
        if self.session.is_none() {
            self.session = peek.session_id.as_deref().map(str::to_owned);
        }
        let kind = peek.kind.as_deref();
        if kind != Some("assistant") && kind != Some("user") {
            return;
        }
        if peek.is_sidechain == Some(true) {
            self.has_side = true;
            return;
        }
        self.has_main = true;
        let id = peek.message.as_ref().and_then(|message| message.id.as_deref());
        self.messages.extend(id.map(digest));
    }
}

/// A file, or the sub-agents' lines of the session's file, with the act whose events come next.
struct LaneOf<'s> {
    part: &'s Part,
    origin: Origin,
    kind: (Lane, Role),
    elsewhere: &'s HashSet<u64>,
    stream: Option<Stream<'s>>,
    act: Option<(Act, std::vec::IntoIter<(Time, Beat)>)>,
    /// The time of the next event, or of the file's first record while it is not open.
    time: u64,
    is_over: bool,
}

impl<'s> LaneOf<'s> {
    fn new(
        part: &'s Part,
        origin: Origin,
        kind: (Lane, Role),
        elsewhere: &'s HashSet<u64>,
    ) -> Self {
        let time = if origin == Origin::Own { 0 } else { first_time(part) };
        Self { part, origin, kind, elsewhere, stream: None, act: None, time, is_over: false }
    }

    const fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Opens the file where that is still to be done, and makes the next event known.
    fn ready(&mut self, prices: &'s PriceTable, warnings: &mut Warnings) {
        while !self.is_over {
            if let Some((_, beats)) = &self.act
                && let Some((time, _)) = beats.as_slice().first()
            {
                self.time = self.time.max(time.unwrap_or(0));
                return;
            }
            let (part, kind, elsewhere) = (self.part, self.kind, self.elsewhere);
            let stream = self
                .stream
                .get_or_insert_with(|| Stream::open(part, kind, elsewhere, prices, warnings));
            self.act = stream.next(warnings).map(|act| {
                let beats = act.beats().into_iter();
                (act, beats)
            });
            if self.act.is_none() {
                self.is_over = true;
                self.stream = None;
            }
        }
    }
}

/// No message is elsewhere.
static NOTHING: LazyLock<HashSet<u64>> = LazyLock::new(HashSet::new);

fn lanes_of<'s>(
    source: &Source<'s>,
    survey: &'s Survey,
    warnings: &mut Warnings,
) -> Vec<LaneOf<'s>> {
    let is_mixed = survey.has_main && survey.has_side;
    let lane = if is_mixed { Lane::Main } else { Lane::All };
    let mut lanes = vec![LaneOf::new(source.main, Origin::Own, (lane, Role::Run), &NOTHING)];
    if is_mixed {
        let kind = (Lane::Side, Role::Child);
        lanes.push(LaneOf::new(source.main, Origin::Descendant, kind, &survey.messages));
    }
    if source.children.len() > MAX_CHILDREN {
        let message =
            || format!("more than {MAX_CHILDREN} files of sub-agents; the rest is not read");
        warnings.add(WarningKind::TooLarge, source.main.name(), None, message);
    }
    lanes.extend(source.children.iter().take(MAX_CHILDREN).map(|part| {
        let is_compaction = part.stem().starts_with(COMPACTION);
        let role = if is_compaction { Role::Compaction } else { Role::Child };
        LaneOf::new(part, Origin::Descendant, (Lane::All, role), &survey.messages)
    }));
    lanes
}

/// When the first record of a file with a time was written.
fn first_time(part: &Part) -> u64 {
    let mut unheard = Warnings::default();
    let mut lines = JsonLines::open(part, &mut unheard);
    for _ in 0..FIRST_TIME_LINES {
        if !lines.advance(&mut unheard) {
            break;
        }
        let peek = lines.parse::<Peek<'_>>(&mut unheard);
        if let Some(time) = peek.and_then(|peek| peek.timestamp.as_deref().and_then(parse_time)) {
            return time;
        }
    }
    0
}

/// Merges the lanes by time; at equal times the session itself comes first.
fn play<'s>(
    source: &Source<'s>,
    survey: &Survey,
    lanes: &mut Vec<LaneOf<'s>>,
    sink: &mut dyn RunSink,
    warnings: &mut Warnings,
) {
    let stem = source.main.stem();
    let session = survey.session.as_deref().filter(|_| !stem.starts_with(AGENT));
    let header = RunHeader {
        id: session.unwrap_or(stem),
        format: ClaudeCode.id(),
        file: source.main.name(),
        model: None,
    };
    let mut writer: Option<RunWriter<'_>> = None;
    let mut sink = Some(sink);
    while let Some(lane) = next_lane(lanes, source.prices, warnings) {
        let Some((time, beat)) = lane.act.as_mut().and_then(|(_, beats)| beats.next()) else {
            continue;
        };
        if let Some(sink) = sink.take() {
            writer = Some(RunWriter::begin(sink, &header, time));
        }
        if let (Some(writer), Some((act, _))) = (&mut writer, &lane.act) {
            writer.beat(lane.origin, act, time, beat);
        }
    }
    let Some(writer) = writer else { return };
    if writer.has_replies() {
        warnings.add(WarningKind::LowerBound, source.main.name(), None, || {
            "token counts are snapshots of replies in progress: tokens and cost are lower bounds"
                .to_owned()
        });
    }
    writer.end(Closing { outcome: None, has_money: true, is_lower_bound: true });
}

/// The lane whose event comes next, made ready.
fn next_lane<'l, 's>(
    lanes: &'l mut Vec<LaneOf<'s>>,
    prices: &'s PriceTable,
    warnings: &mut Warnings,
) -> Option<&'l mut LaneOf<'s>> {
    loop {
        // Files of sub-agents stay closed until their time comes.
        for lane in lanes.iter_mut().filter(|lane| lane.origin == Origin::Own || lane.is_open()) {
            lane.ready(prices, warnings);
        }
        lanes.retain(|lane| !lane.is_over);
        let times = lanes.iter().enumerate();
        let (next, _) = times.min_by_key(|(_, lane)| lane.time)?;
        if lanes.get(next)?.is_open() {
            return lanes.get_mut(next);
        }
        lanes.get_mut(next)?.ready(prices, warnings);
    }
}
