//! Sessions of OpenCode: its storage, a JSON document for each session, message and part; and what `opencode export`
//! writes, one document with all of them.
//!
//! - A message of the assistant has one model call for each part of type `step-finish`, which has its usage and cost.
//!   A message without such a part is one call, with the usage of the message, if that is not zero.
//! - `cost` is what OpenCode computed; 0 is what it writes if it knows no price, so the price table computes that.
//! - The input excludes cached tokens. `total` shows whether the output includes the reasoning; without it, the
//!   output does, except for Google's models.
//! - A part of type `retry`, and a message that ended in an error before the model said anything, is a failed attempt.
//! - A session with a `parentID` is a sub-agent of the session that it names.
//! - Texts that OpenCode itself put into a message of the user are no user turn.
//!
//! More than 250 lines because it has three homes of the same messages (files, an export, a database), and calls that
//! only parts report.

mod message;
mod storage;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) use self::message::Conversation;
pub(crate) use self::storage::{DATABASE, companions, parent, shadowed_by};
use super::builder::RunBuilder;
use super::head::first_keys;
use super::limits::MAX_NESTING;
use super::merge::Untimed;
use super::reading::Reading;
use super::{Head, RunSink};

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let Some(keys) = head.object() else { return false };
    let is_session = keys.have(&["id", "title", "version", "time"]) && head.mentions("\"ses_");
    let is_message = keys.have(&["id", "sessionID", "role"]);
    let is_part = keys.have(&["id", "sessionID", "messageID", "type"]);
    let is_export = keys.have(&["messages"])
        && head.mentions("\"sessionID\"")
        && head.mentions("\"parts\"")
        && head.mentions("\"info\"");
    is_session || is_message || is_part || is_export
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let is_export = first_keys(reading.part).is_some_and(|keys| keys.have(&["messages"]));
    let mut session = OpencodeSession::default();
    if is_export {
        reading.look_for(&["info"], &mut |_, info| {
            session = serde_json::from_str(info.get()).unwrap_or_default();
        });
        return read_export(reading, session.id, sink);
    }
    reading.whole(&mut |document| {
        session = reading.parse(document, "not a session of this format").unwrap_or_default();
    });
    read_stored(reading, &session, sink);
}

#[derive(Default, Deserialize)]
struct OpencodeSession {
    id: Option<String>,
    #[serde(rename = "parentID")]
    parent_id: Option<String>,
}

/// A message with its parts, in an export.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct ExportedMessage<'a> {
    info: Option<&'a RawValue>,
    parts: Option<Vec<&'a RawValue>>,
}

fn read_export(reading: Reading<'_>, id: Option<String>, sink: &mut dyn RunSink) {
    let mut run = RunBuilder::new(reading, sink).named(id);
    let mut chat = Conversation::new(reading, 0);
    reading.each_item(&["messages"], &mut |item| {
        if let Some(message) =
            reading.parse::<ExportedMessage<'_>>(item, "not a message of this format")
        {
            if let Some(info) = message.info {
                chat.message(info);
            }
            message.parts.into_iter().flatten().for_each(|part| chat.part(part));
            chat.hand_over(&mut run);
            run.write_own();
        }
    });
    chat.finish();
    chat.hand_over(&mut run);
    run.end();
}

/// The files of the run's messages and parts, in their order, by the session or message that they belong to.
#[derive(Default)]
struct Files<'s> {
    sessions: Vec<Reading<'s>>,
    messages: BTreeMap<&'s str, Vec<Reading<'s>>>,
    parts: BTreeMap<&'s str, Vec<Reading<'s>>>,
}

fn read_stored(reading: Reading<'_>, session: &OpencodeSession, sink: &mut dyn RunSink) {
    let mut files = Files::default();
    for file in reading.child_files() {
        match storage::place_of(file.part.name()) {
            storage::Place::Session => files.sessions.push(file),
            storage::Place::Message(session) => {
                files.messages.entry(session).or_default().push(file);
            }
            storage::Place::Part(message) => files.parts.entry(message).or_default().push(file),
        }
    }
    // Ids rise with time, and files are named by them.
    let by_name = |file: &Reading<'_>| file.part.stem().to_owned();
    files.messages.values_mut().for_each(|files| files.sort_by_key(by_name));
    files.parts.values_mut().for_each(|files| files.sort_by_key(by_name));
    let parents = files.parents();
    let mut run = RunBuilder::new(reading, sink).named(session.id.clone());
    let mut chat = Conversation::new(reading, 0);
    let is_alone = parents.is_empty();
    files.read(session.id.as_deref().unwrap_or(reading.part.stem()), &mut chat, &mut |chat| {
        chat.hand_over(&mut run);
        if is_alone {
            run.write_own();
        }
    });
    if !is_alone {
        let children = parents.iter().map(|(id, (file, _))| {
            let mut child = Conversation::new(*file, depth_of(id, &parents));
            files.read(id, &mut child, &mut |_| {});
            child.into_timeline()
        });
        let children = children.collect();
        run.write_with(children, Untimed::Last);
    }
    run.end();
}

/// How far a session is below the run.
fn depth_of(id: &str, parents: &BTreeMap<String, (Reading<'_>, String)>) -> u32 {
    let (mut depth, mut id) = (1, id);
    while let Some((_, parent)) = parents.get(id).filter(|_| depth < MAX_NESTING) {
        if !parents.contains_key(parent) {
            break;
        }
        (depth, id) = (depth + 1, parent);
    }
    depth
}

impl<'s> Files<'s> {
    /// The sessions of sub-agents: their files, and whose they are.
    fn parents(&self) -> BTreeMap<String, (Reading<'s>, String)> {
        let mut parents = BTreeMap::new();
        for file in &self.sessions {
            file.whole(&mut |document| {
                let session =
                    file.parse::<OpencodeSession>(document, "not a session of this format");
                if let Some(OpencodeSession { id: Some(id), parent_id: Some(parent) }) = session {
                    parents.insert(id, (*file, parent));
                }
            });
        }
        parents
    }

    /// Reads the messages of a session. The entries so far may be taken after each.
    fn read(
        &self,
        session: &str,
        chat: &mut Conversation<'s>,
        after: &mut dyn FnMut(&mut Conversation<'s>),
    ) {
        for file in self.messages.get(session).into_iter().flatten() {
            chat.reading = *file;
            file.whole(&mut |document| chat.message(document));
            for part in self.parts.get(file.part.stem()).into_iter().flatten() {
                chat.reading = *part;
                part.whole(&mut |document| chat.part(document));
            }
            after(chat);
        }
        chat.finish();
        after(chat);
    }
}
