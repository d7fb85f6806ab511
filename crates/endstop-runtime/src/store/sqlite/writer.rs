//! The thread that writes.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::super::{RunId, StoreError, Version};
use super::database;
use crate::limits::MAX_WAITING_CHANGES;

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// A change to be written, and the task that waits for it.
pub(super) enum Change {
    Save { id: RunId, state: String, expected: Option<Version>, answer: Answer<Version> },
    Append { id: RunId, lines: String, answer: Answer<()> },
    Remove { id: RunId, answer: Answer<bool> },
}

/// Informs the waiting task, once it is known whether the commit failed.
type Acknowledge<'a> = Box<dyn FnOnce(Option<&rusqlite::Error>) + 'a>;

/// The thread, which ends with this handle.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Change>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(path: PathBuf, connection: Connection) -> io::Result<Self> {
        let (queue, waiting) = mpsc::channel(MAX_WAITING_CHANGES);
        let thread = thread::Builder::new()
            .name("endstop-sqlite".to_owned())
            .spawn(move || run(&path, connection, waiting))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a change and waits until it is committed.
    pub(super) async fn ask<T>(
        &self,
        change: impl FnOnce(Answer<T>) -> Change,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or(StoreError::Ended)?;
        queue.send(change(answer)).await.map_err(|_| StoreError::Ended)?;
        answered.await.map_err(|_| StoreError::Ended)?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn run(path: &Path, mut connection: Connection, mut waiting: mpsc::Receiver<Change>) {
    while let Some(first) = waiting.blocking_recv() {
        let mut changes = vec![first];
        while changes.len() < MAX_WAITING_CHANGES
            && let Ok(next) = waiting.try_recv()
        {
            changes.push(next);
        }
        write(path, &mut connection, changes);
    }
}

/// Writes changes in one transaction; no task gets an answer before it is committed.
fn write(path: &Path, connection: &mut Connection, changes: Vec<Change>) {
    let mut transaction = match connection.transaction_with_behavior(TransactionBehavior::Immediate)
    {
        Ok(transaction) => transaction,
        Err(error) => {
            for change in changes {
                change.refuse(path, &error);
            }
            return;
        }
    };
    let mut waiting: Vec<Acknowledge<'_>> = Vec::with_capacity(changes.len());
    for change in changes {
        waiting.push(change.apply(path, &mut transaction));
    }
    let failure = transaction.commit().err();
    for acknowledge in waiting {
        acknowledge(failure.as_ref());
    }
}

impl Change {
    /// Does it, or leaves everything as it was.
    fn apply<'a>(self, path: &'a Path, transaction: &mut Transaction<'_>) -> Acknowledge<'a> {
        let doing = self.doing();
        match self {
            Self::Save { id, state, expected, answer } => {
                let saved = whole(transaction, |c| database::save(c, &id, &state, expected));
                acknowledge(answer, saved, doing, path)
            }
            Self::Append { id, lines, answer } => {
                let appended = whole(transaction, |c| database::append(c, &id, &lines).map(Ok));
                acknowledge(answer, appended, doing, path)
            }
            Self::Remove { id, answer } => {
                let removed = whole(transaction, |c| database::remove(c, &id).map(Ok));
                acknowledge(answer, removed, doing, path)
            }
        }
    }

    fn refuse(self, path: &Path, error: &rusqlite::Error) {
        let refusal = database::error(self.doing(), path, error);
        // A task that no longer waits gets no answer.
        match self {
            Self::Save { answer, .. } => drop(answer.send(Err(refusal))),
            Self::Append { answer, .. } => drop(answer.send(Err(refusal))),
            Self::Remove { answer, .. } => drop(answer.send(Err(refusal))),
        }
    }

    fn doing(&self) -> String {
        match self {
            Self::Save { id, .. } => format!("save run `{id}`"),
            Self::Append { id, .. } => format!("append to run `{id}`"),
            Self::Remove { id, .. } => format!("remove run `{id}`"),
        }
    }
}

/// The result of a change: an error of the database, or the caller's result.
type Applied<T> = rusqlite::Result<Result<T, StoreError>>;

/// Runs `change` so that it leaves nothing if the database fails in the middle of it.
fn whole<T>(
    transaction: &mut Transaction<'_>,
    change: impl FnOnce(&Connection) -> Applied<T>,
) -> Applied<T> {
    let savepoint = transaction.savepoint()?;
    let applied = change(&savepoint)?;
    savepoint.commit()?;
    Ok(applied)
}

fn acknowledge<'a, T: 'a>(
    answer: Answer<T>,
    applied: Applied<T>,
    doing: String,
    path: &'a Path,
) -> Acknowledge<'a> {
    Box::new(move |failure| {
        let told = match (applied, failure) {
            (Err(error), _) => Err(database::error(doing, path, &error)),
            (_, Some(error)) => Err(database::error(doing, path, error)),
            (Ok(told), None) => told,
        };
        // A task that no longer waits gets no answer.
        drop(answer.send(told));
    })
}
