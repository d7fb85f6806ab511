//! Where OpenCode stores what belongs to a session.
//!
//! `storage/session/<project>/<session>.json`, `storage/message/<session>/<message>.json` and
//! `storage/part/<message>/<part>.json`. Earlier, `session/info/<session>.json`, `session/message/..` as today, and
//! `session/part/<session>/<message>/<part>.json`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::head::Head;
use crate::limits::{MAX_ELEMENT_BYTES, MAX_NESTING};
use crate::paths::{documents_in, entries_of, name_of};

const SESSION: &str = "session";
const MESSAGE: &str = "message";
const PART: &str = "part";

/// The directory of sessions in the earlier layout, which holds messages and parts, too.
const INFO: &str = "info";

/// The database that later versions took all sessions into.
pub(crate) const DATABASE: &str = "opencode.db";

/// Which session or message a file belongs to.
pub(super) enum Place<'n> {
    Session,
    Message(&'n str),
    Part(&'n str),
}

/// Where in the storage the file of this name is.
pub(super) fn place_of(name: &str) -> Place<'_> {
    let mut directories = name.rsplit(['/', '\\']).skip(1);
    let holder = directories.next().unwrap_or_default();
    match (directories.next(), directories.next()) {
        (Some(MESSAGE), _) => Place::Message(holder),
        (Some(PART), _) | (_, Some(PART)) => Place::Part(holder),
        _ => Place::Session,
    }
}

/// The file of the session that is the run which this file is a part of.
pub(crate) fn parent(path: &Path, head: &Head<'_>) -> Option<PathBuf> {
    let storage = storage_of(path)?;
    let name = path.to_str()?;
    let mut session = match place_of(name) {
        Place::Session => path.to_owned(),
        Place::Message(session) => file_of(&storage, session)?,
        Place::Part(_) => file_of(&storage, &session_in(head)?)?,
    };
    for _ in 0..MAX_NESTING {
        let Some(above) = parent_of(&session).and_then(|id| file_of(&storage, &id)) else { break };
        session = above;
    }
    (session != path).then_some(session)
}

/// The messages and parts of a session and of its sub-agents, and the sessions of these.
pub(crate) fn companions(path: &Path) -> Vec<PathBuf> {
    let (Some(storage), Some(project)) = (storage_of(path), path.parent()) else {
        return Vec::new();
    };
    let holder = if name_of(project) == INFO { storage.join(SESSION) } else { storage };
    let mut sessions = vec![path.to_owned()];
    let others: Vec<(PathBuf, Option<String>)> =
        documents_in(Some(project)).map(|file| (file.clone(), parent_of(&file))).collect();
    for _ in 0..MAX_NESTING {
        let is_child = |parent: &Option<String>| {
            let mut stems = sessions.iter().filter_map(|session| session.file_stem()?.to_str());
            parent.as_deref().is_some_and(|parent| stems.any(|stem| stem == parent))
        };
        let new: Vec<PathBuf> = others
            .iter()
            .filter(|(file, parent)| is_child(parent) && !sessions.contains(file))
            .map(|(file, _)| file.clone())
            .collect();
        if new.is_empty() {
            break;
        }
        sessions.extend(new);
    }
    let mut found = Vec::new();
    for session in sessions.iter().filter_map(|session| session.file_stem()) {
        let messages = holder.join(MESSAGE).join(session);
        for message in documents_in(Some(&messages)) {
            found.extend(message.file_stem().map(|stem| holder.join(PART).join(stem)));
        }
        found.push(messages);
        found.push(holder.join(PART).join(session));
    }
    found.retain(|found| found.is_dir());
    found.extend(sessions.into_iter().skip(1));
    found
}

/// The database next to the storage has the session, too.
pub(crate) fn shadowed_by(path: &Path) -> Option<PathBuf> {
    Some(storage_of(path)?.parent()?.join(DATABASE))
}

/// The directory that holds sessions, messages and parts.
fn storage_of(path: &Path) -> Option<PathBuf> {
    let is_kind = |directory: &&Path| [SESSION, MESSAGE, PART].contains(&name_of(directory));
    let kind = path.ancestors().skip(2).take(3).find(is_kind)?;
    let above = kind.parent()?;
    if name_of(above) == SESSION {
        above.parent().map(Path::to_owned)
    } else {
        Some(above.to_owned())
    }
}

/// The file of the session with this id, whichever project it is of.
fn file_of(storage: &Path, session: &str) -> Option<PathBuf> {
    let name = format!("{session}.json");
    let projects = entries_of(Some(&storage.join(SESSION)));
    projects.map(|project| project.join(&name)).find(|file| file.is_file())
}

#[derive(Deserialize)]
struct Ids {
    #[serde(rename = "parentID")]
    parent_id: Option<String>,
}

/// The session that a session's file names as the one which it is a sub-agent of.
fn parent_of(session: &Path) -> Option<String> {
    let is_read = session.metadata().is_ok_and(|it| it.len() <= MAX_ELEMENT_BYTES as u64);
    let text = is_read.then(|| std::fs::read(session).ok())??;
    serde_json::from_slice::<Ids>(&text).ok()?.parent_id
}

/// The session that the beginning of a part names.
fn session_in(head: &Head<'_>) -> Option<String> {
    let text = String::from_utf8_lossy(head.bytes());
    let (_, rest) = text.split_once("\"sessionID\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    rest.split_once('"').map(|(id, _)| id.to_owned())
}
