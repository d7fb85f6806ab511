//! Claude Code sessions: JSON lines, one file for a session and one for each of its sub-agents.
//!
//! - Lines of one message (same message and request id) are one model call; the last line's usage counts.
//! - Files of sub-agents are children of their session's run, merged by time. A child's line that repeats a message
//!   of the session is not counted again, and neither are messages embedded in `progress` lines.
//! - Lines of model `<synthetic>` are no calls; API errors are failed attempts of the next call's step.
//! - Tokens are snapshots taken while the response streamed: tokens and money are lower bounds.
//!
//! More than 250 lines because it is a stream that writes responses again as they grow, with files of sub-agents that
//! repeat lines of it.

mod record;
mod stream;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use self::record::Peek;
use self::stream::{AgentRole, ClaudeStream, LineFilter};
use super::builder::RunBuilder;
use super::lines::JsonLines;
use super::merge::MergedAgent;
use super::part::Part;
use super::paths::{entries_of, name_of};
use super::reading::Reading;
use super::recent::digest;
use super::time::{Time, parse_time};
use super::warning::{WarningKind, Warnings};
use super::{Head, RunSink};
use crate::limits::FIRST_TIME_LINES;

/// How names of sub-agent files begin, and those of compaction calls.
const AGENT: &str = "agent-";
const COMPACTION: &str = "agent-acompact-";

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let mut lines = head.lines().filter(|keys| keys.have(&["type"]) && !keys.have(&["payload"]));
    lines.any(|keys| ["sessionId", "leafUuid", "snapshot"].iter().any(|key| keys.have(&[key])))
}

pub(crate) fn parent(path: &Path, head: &Head<'_>) -> Option<PathBuf> {
    if !name_of(path).starts_with(AGENT) {
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
    Some(directory.join(format!("{}.jsonl", peek.session_id.as_deref()?)))
}

pub(crate) fn companions(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.with_extension("").join("subagents")];
    found.extend(entries_of(path.parent()).filter(|path| name_of(path).starts_with(AGENT)));
    found
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let (survey, discarded) = (Survey::of(reading.part), Warnings::default());
    let is_session = !reading.part.stem().starts_with(AGENT);
    let session = survey.session.clone().filter(|_| is_session);
    let mut run = RunBuilder::new(reading, sink).named(session);
    run.merge(agents_of(reading, &survey, &discarded));
    if run.has_replies() {
        reading.warn(WarningKind::LowerBound, || {
            "token counts are snapshots of responses in progress: tokens and cost are lower bounds"
                .to_owned()
        });
    }
    run.is_lower_bound(true);
    run.end();
}

/// The results of a first pass over the session's file.
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

/// The session, and its sub-agents in its file and in separate files.
fn agents_of<'s>(
    reading: Reading<'s>,
    survey: &'s Survey,
    discarded: &'s Warnings,
) -> Vec<MergedAgent<'s>> {
    let is_mixed = survey.has_main && survey.has_side;
    let filter = if is_mixed { LineFilter::Main } else { LineFilter::All };
    let session = ClaudeStream::open(reading, (filter, AgentRole::Run), None, discarded);
    let mut agents = vec![MergedAgent::own(session)];
    let child = |file: Reading<'s>, filter, role| {
        let messages = Some(&survey.messages);
        let open = move || ClaudeStream::open(file, (filter, role), messages, discarded);
        MergedAgent::file(first_time(file.part), std::iter::once_with(open).flatten())
    };
    if is_mixed {
        agents.push(child(reading, LineFilter::Side, AgentRole::Child));
    }
    agents.extend(reading.child_files().map(|file| {
        let is_compaction = file.part.stem().starts_with(COMPACTION);
        let role = if is_compaction { AgentRole::Compaction } else { AgentRole::Child };
        child(file, LineFilter::All, role)
    }));
    agents
}

/// When the first record of a file with a time was written.
fn first_time(part: &Part) -> Time {
    // The stream gives the warnings.
    let discarded = Warnings::default();
    let mut lines = JsonLines::open(part, &discarded);
    (0..FIRST_TIME_LINES).find_map(|_| {
        let peek: Peek<'_> = lines.advance().then(|| lines.parse())??;
        parse_time(peek.timestamp.as_deref()?)
    })
}
