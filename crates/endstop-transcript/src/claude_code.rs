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

use endstop_core::event::Source as Origin;

use self::record::Peek;
use self::stream::{AgentRole, ClaudeStream, LineFilter};
use super::builder::RunBuilder;
use super::limits::MAX_CHILD_FILES;
use super::lines::JsonLines;
use super::part::Part;
use super::reading::Reading;
use super::recent::digest;
use super::time::{Time, parse_time};
use super::timeline::{EntryEvent, TimelineEntry};
use super::warning::{WarningKind, Warnings};
use super::{Head, RunSink};

/// How many lines of a sub-agent's file are searched for its first time.
const FIRST_TIME_LINES: usize = 20;

/// How names of sub-agent files begin, and those of compaction calls.
const AGENT: &str = "agent-";
const COMPACTION: &str = "agent-acompact-";

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let mut lines = head.lines().filter(|keys| keys.have(&["type"]) && !keys.have(&["payload"]));
    lines.any(|keys| ["sessionId", "leafUuid", "snapshot"].iter().any(|key| keys.have(&[key])))
}

pub(crate) fn parent(path: &Path, head: &Head<'_>) -> Option<PathBuf> {
    if !path.file_name()?.to_str()?.starts_with(AGENT) {
        return None;
    }
    let directory = path.parent()?;
    if directory.file_name()? == "subagents" {
        return Some(directory.parent()?.with_extension("jsonl"));
    }
    let mut lines = head.bytes().split(|byte| *byte == b'\n');
    let peek: Peek<'_> = lines.find_map(|line| {
        serde_json::from_slice(line).ok().filter(|peek: &Peek<'_>| peek.session_id.is_some())
    })?;
    Some(directory.join(format!("{}.jsonl", peek.session_id?)))
}

pub(crate) fn companions(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.with_extension("").join("subagents")];
    if let Some(Ok(entries)) = path.parent().map(std::fs::read_dir) {
        let paths = entries.flatten().map(|entry| entry.path());
        let is_agent = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(AGENT))
        };
        found.extend(paths.filter(is_agent));
    }
    found
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let survey = Survey::of(reading.part);
    let (nothing, discarded) = (HashSet::new(), Warnings::default());
    let mut agents = agents_of(reading, &survey, &nothing);
    let is_session = !reading.part.stem().starts_with(AGENT);
    let session = survey.session.clone().filter(|_| is_session);
    let mut run = RunBuilder::new(reading, sink).named(session);
    // Merged by time; at equal times the session itself comes first.
    while let Some(agent) = next_agent(&mut agents, &discarded) {
        let Some((time, event)) = agent.entry.as_mut().and_then(|(_, events)| events.next()) else {
            continue;
        };
        run.begin(time);
        if let Some((entry, _)) = &agent.entry {
            run.event(agent.origin, entry, time, event);
        }
    }
    if run.has_replies() {
        reading.warn(WarningKind::LowerBound, || {
            "token counts are snapshots of replies in progress: tokens and cost are lower bounds"
                .to_owned()
        });
    }
    run.is_lower_bound(true);
    run.end();
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
        let discarded = Warnings::default();
        let mut lines = JsonLines::open(part, &discarded);
        while lines.advance() {
            let Some(peek) = lines.parse::<Peek<'_>>() else { continue };
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

/// A file, or the sub-agents' lines of the session's file, with the entry whose events come next.
struct AgentFile<'s> {
    reading: Reading<'s>,
    origin: Origin,
    kind: (LineFilter, AgentRole),
    elsewhere: &'s HashSet<u64>,
    stream: Option<ClaudeStream<'s>>,
    entry: Option<(TimelineEntry, std::vec::IntoIter<(Time, EntryEvent)>)>,
    /// The time of the next event, or of the file's first record while it is not open.
    time: u64,
    is_over: bool,
}

impl<'s> AgentFile<'s> {
    fn new(
        reading: Reading<'s>,
        kind: (LineFilter, AgentRole),
        elsewhere: &'s HashSet<u64>,
    ) -> Self {
        let is_own = kind.1 == AgentRole::Run;
        let origin = if is_own { Origin::Own } else { Origin::Descendant };
        let time = if is_own { 0 } else { first_time(reading.part) };
        Self { reading, origin, kind, elsewhere, stream: None, entry: None, time, is_over: false }
    }

    const fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Opens the file if that is still to be done, and makes the next event known.
    fn ready(&mut self, discarded: &'s Warnings) {
        while !self.is_over {
            if let Some((_, events)) = &self.entry
                && let Some((time, _)) = events.as_slice().first()
            {
                self.time = self.time.max(time.unwrap_or(0));
                return;
            }
            let (reading, kind, elsewhere) = (self.reading, self.kind, self.elsewhere);
            let stream = self
                .stream
                .get_or_insert_with(|| ClaudeStream::open(reading, kind, elsewhere, discarded));
            self.entry = stream.next().map(|entry| {
                let events = entry.events().into_iter();
                (entry, events)
            });
            if self.entry.is_none() {
                self.is_over = true;
                self.stream = None;
            }
        }
    }
}

fn agents_of<'s>(
    reading: Reading<'s>,
    survey: &'s Survey,
    nothing: &'s HashSet<u64>,
) -> Vec<AgentFile<'s>> {
    let is_mixed = survey.has_main && survey.has_side;
    let filter = if is_mixed { LineFilter::Main } else { LineFilter::All };
    let mut agents = vec![AgentFile::new(reading, (filter, AgentRole::Run), nothing)];
    if is_mixed {
        let kind = (LineFilter::Side, AgentRole::Child);
        agents.push(AgentFile::new(reading, kind, &survey.messages));
    }
    if reading.children.len() > MAX_CHILD_FILES {
        reading.warn(WarningKind::TooLarge, || {
            format!("more than {MAX_CHILD_FILES} files of sub-agents; the rest is not read")
        });
    }
    agents.extend(reading.children.iter().take(MAX_CHILD_FILES).map(|part| {
        let is_compaction = part.stem().starts_with(COMPACTION);
        let role = if is_compaction { AgentRole::Compaction } else { AgentRole::Child };
        AgentFile::new(reading.of(part), (LineFilter::All, role), &survey.messages)
    }));
    agents
}

/// When the first record of a file with a time was written.
fn first_time(part: &Part) -> u64 {
    let discarded = Warnings::default();
    let mut lines = JsonLines::open(part, &discarded);
    for _ in 0..FIRST_TIME_LINES {
        if !lines.advance() {
            break;
        }
        let peek = lines.parse::<Peek<'_>>();
        if let Some(time) = peek.and_then(|peek| peek.timestamp.as_deref().and_then(parse_time)) {
            return time;
        }
    }
    0
}

/// The agent whose event comes next, made ready.
fn next_agent<'l, 's>(
    agents: &'l mut Vec<AgentFile<'s>>,
    discarded: &'s Warnings,
) -> Option<&'l mut AgentFile<'s>> {
    loop {
        // Files of sub-agents stay closed until their time comes.
        for agent in agents.iter_mut().filter(|a| a.origin == Origin::Own || a.is_open()) {
            agent.ready(discarded);
        }
        agents.retain(|agent| !agent.is_over);
        let times = agents.iter().enumerate();
        let (next, _) = times.min_by_key(|(_, agent)| agent.time)?;
        if agents.get(next)?.is_open() {
            return agents.get_mut(next);
        }
        agents.get_mut(next)?.ready(discarded);
    }
}
