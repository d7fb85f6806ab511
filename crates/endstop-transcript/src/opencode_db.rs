//! The database of OpenCode, `opencode.db`: what its storage of JSON documents became. Sessions, messages and parts are
//! rows, with the documents in their column `data`.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::builder::RunBuilder;
use super::limits::{MAX_CHILD_FILES, MAX_NESTING};
use super::merge::Untimed;
use super::opencode::Conversation;
use super::reading::Reading;
use super::sqlite::{Database, is_with};
use super::warning::WarningKind;
use super::{Head, RunSink};

const MESSAGES: &str =
    "SELECT id, data FROM message WHERE session_id = ?1 ORDER BY time_created, id";
const PARTS: &str = "SELECT data FROM part WHERE message_id = ?1 ORDER BY id";

pub(crate) fn detect(head: &Head<'_>) -> bool {
    is_with(head, &["project_id", "session_id", "message_id"])
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let Some(database) = Database::open(reading, &[&["session"], &["message"], &["part"]]) else {
        return;
    };
    let (mut roots, mut children) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    let query = "SELECT id, (SELECT p.id FROM session p WHERE p.id = s.parent_id) FROM session s \
                 ORDER BY time_created, id";
    database.each(query, [], &mut |row| {
        let id: String = row.get(0)?;
        match row.get::<_, Option<String>>(1)? {
            Some(parent) => children.entry(parent).or_default().push(id),
            None => roots.push(id),
        }
        Ok(())
    });
    for root in roots {
        let below = descendants(&root, &children, reading);
        let mut run = RunBuilder::new(reading, sink).named(Some(&root));
        let mut chat = Conversation::new(reading, 0);
        let is_alone = below.is_empty();
        read_session(&database, reading, &root, &mut chat, &mut |chat| {
            chat.hand_over(&mut run);
            if is_alone {
                run.write_own();
            }
        });
        if !is_alone {
            let below = below.iter().map(|(id, depth)| {
                let mut child = Conversation::new(reading, *depth);
                read_session(&database, reading, id, &mut child, &mut |_| {});
                child.into_timeline()
            });
            run.write_with(below.collect(), Untimed::Last);
        }
        run.end();
    }
}

/// The sub-agents of a session, with how far they are below it.
fn descendants(
    root: &str,
    children: &BTreeMap<String, Vec<String>>,
    reading: Reading<'_>,
) -> Vec<(String, u32)> {
    let mut found: Vec<(String, u32)> = Vec::new();
    let mut level = vec![root.to_owned()];
    for depth in 1..=MAX_NESTING {
        level = level.iter().filter_map(|id| children.get(id)).flatten().cloned().collect();
        if found.len() + level.len() > MAX_CHILD_FILES {
            reading.warn(WarningKind::TooLarge, || {
                format!("more than {MAX_CHILD_FILES} sub-agents; the rest is not read")
            });
            break;
        }
        found.extend(level.iter().map(|id| (id.clone(), depth)));
    }
    found
}

/// Reads the messages of a session. The entries so far may be taken after each.
fn read_session<'s>(
    database: &Database<'s>,
    reading: Reading<'s>,
    session: &str,
    chat: &mut Conversation<'s>,
    after: &mut dyn FnMut(&mut Conversation<'s>),
) {
    database.each(MESSAGES, [session], &mut |row| {
        let id: String = row.get(0)?;
        let data = database.text(row, 1).unwrap_or_default();
        if let Some(info) = reading.parse_text::<&RawValue>(&data, "not a message of this format") {
            chat.message(info);
            database.each(PARTS, [&id], &mut |row| {
                let data = database.text(row, 0).unwrap_or_default();
                let part = reading.parse_text::<&RawValue>(&data, "not a part of this format");
                part.into_iter().for_each(|part| chat.part(part));
                Ok(())
            });
            after(chat);
        }
        Ok(())
    });
    chat.finish();
    after(chat);
}
