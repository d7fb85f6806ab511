//! Tables and statements of the history.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use endstop_core::units::{Money, WallTime};
use rusqlite::{
    CachedStatement, Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior,
    params,
};

use super::entry::{
    ActEntry, CallEntry, EndEntry, HistoryEntry, LoggedPart, ProcessFacts, RunFacts,
};
use super::{HistoryError, HistoryOrigin, Pruned, RecordedAct, RecordedCall, RecordedRun};
use crate::limits::HISTORY_BUSY;
use crate::sqlite_file::{self, FileKind, signed, unsigned};

const KIND: FileKind = FileKind {
    // `endh` in ASCII.
    application_id: 0x656e_6468,
    schema: SCHEMA,
    migrations: &[JOURNALS],
    synchronous: "NORMAL",
};

/// `root` is null for a run that no other began. A name can be used again, so a run has a number.
const SCHEMA: &str = "
CREATE TABLE run (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL, process TEXT NOT NULL, root INTEGER, parent TEXT,
    kind TEXT NOT NULL, program TEXT NOT NULL, directory TEXT NOT NULL, agent TEXT NOT NULL,
    began INTEGER NOT NULL, ended INTEGER, status TEXT, reason TEXT, text TEXT
) STRICT;
CREATE INDEX run_by_id ON run (id);
CREATE INDEX run_by_root ON run (root) WHERE root IS NOT NULL;
CREATE TABLE call (
    number INTEGER PRIMARY KEY, run INTEGER NOT NULL, root INTEGER NOT NULL, at INTEGER NOT NULL,
    model TEXT, provider TEXT, tool TEXT, input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL,
    picos INTEGER NOT NULL, unconfirmed_picos INTEGER NOT NULL, is_priced INTEGER NOT NULL,
    is_estimate INTEGER NOT NULL, key TEXT, budgets TEXT, charge INTEGER
) STRICT;
CREATE INDEX call_by_time ON call (at);
CREATE INDEX call_by_root ON call (root);
CREATE TABLE act (
    number INTEGER PRIMARY KEY, run INTEGER NOT NULL, at INTEGER NOT NULL, who TEXT, what TEXT NOT NULL, detail TEXT,
    why TEXT
) STRICT;
CREATE INDEX act_by_time ON act (at);
CREATE INDEX act_by_run ON act (run);
";

/// Version 2: the last line of each journal that is in the tables.
const JOURNALS: &str =
    "CREATE TABLE journal (name TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT;";

const MARK_JOURNAL: &str = "
INSERT INTO journal (name, number) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET number = ?2";

pub(super) const OWN_RUN: &str =
    "SELECT number FROM run WHERE id = ?1 AND process = ?2 ORDER BY number DESC LIMIT 1";

const LAST_RUN: &str = "SELECT number FROM run WHERE id = ?1 ORDER BY number DESC LIMIT 1";

const ADD_RUN: &str = "
INSERT INTO run (id, process, root, parent, kind, program, directory, agent, began)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

const CONTINUE_RUN: &str = "
UPDATE run SET ended = NULL, status = NULL, reason = NULL, text = NULL
WHERE number = ?1 AND status IS NOT NULL";

const END_RUN: &str = "
UPDATE run SET ended = iif(?3, max(began, ?4), NULL), status = ?5, reason = ?6, text = ?7
WHERE id = ?1 AND process = ?2";

const ADD_CALL: &str = "
INSERT INTO call (run, root, at, model, provider, tool, input, cached, output, picos, unconfirmed_picos, is_priced,
    is_estimate, key, budgets, charge)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";

/// Calls beyond those of the log. The time leaves out those of an earlier run of the name whose log was removed.
const LAST_UNLOGGED: &str = "
SELECT model, provider, key, budgets FROM call WHERE root = ?1 AND charge > ?2 AND at >= ?3 AND tool IS NULL
ORDER BY charge DESC LIMIT 1";

const REMOVE_UNLOGGED: &str = "DELETE FROM call WHERE root = ?1 AND charge > ?2 AND at >= ?3";

const ADD_ACT: &str =
    "INSERT INTO act (run, at, who, what, detail, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// A call whose run is missing has the name `(unknown)`.
const CALLS: &str = "
SELECT coalesce(run.id, '(unknown)'), coalesce(run.directory, '(unknown)'), call.at, call.model, call.provider, call.tool,
    call.input, call.cached, call.output, call.picos, call.unconfirmed_picos, call.is_priced, call.is_estimate, call.key,
    call.budgets
FROM call LEFT JOIN run ON run.number = call.root ";

const RUN: &str = "
SELECT number, id, parent, kind, program, directory, agent, began, ended, status, reason, text,
    (SELECT count(*) FROM run AS below WHERE below.root = run.number)
FROM run WHERE id = ?1 ORDER BY number DESC LIMIT 1";

const ACTS: &str = "SELECT at, who, what, detail, why FROM act WHERE run = ?1 ORDER BY number";

/// Not when the first run began: a run whose first calls were removed can have others.
const BEGINS: &str = "
SELECT min(at) FROM (
    SELECT min(at) AS at FROM call UNION ALL SELECT min(at) FROM act UNION ALL SELECT min(ended) FROM run
)";

/// The calls to read.
pub(super) enum Which<'r> {
    Since(Option<WallTime>),
    Of(&'r RecordedRun),
}

/// Opens the file with its tables. Waits for others that write it at most `patience`.
pub(super) fn open(path: &Path, patience: Duration) -> Result<Connection, HistoryError> {
    let connection = sqlite_file::open(path, &KIND, patience)
        .map_err(|error| HistoryError::of_opening(path, error))?;
    let set = connection.busy_timeout(HISTORY_BUSY);
    set.map_err(|error| HistoryError::of("open the history", path, &error))?;
    Ok(connection)
}

/// The last line of a journal whose entry is in the tables. 0 if none is.
pub(super) fn last_line(connection: &Connection, journal: &str) -> rusqlite::Result<u64> {
    let select = "SELECT number FROM journal WHERE name = ?1";
    let number = connection.query_row(select, [journal], |row| row.get(0)).optional()?;
    Ok(number.map_or(0, unsigned))
}

/// Forgets the journals that `is_gone` says so of.
pub(super) fn forget_journals(
    connection: &Connection,
    is_gone: impl Fn(&str) -> bool,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare("SELECT name FROM journal")?;
    let names = select.query_map((), |row| row.get(0))?;
    let names: Vec<String> = names.collect::<rusqlite::Result<_>>()?;
    names.iter().filter(|name| is_gone(name)).try_for_each(|name| forget_journal(connection, name))
}

/// Forgets a journal whose file is gone.
pub(super) fn forget_journal(connection: &Connection, journal: &str) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM journal WHERE name = ?1", [journal]).map(drop)
}

/// Writes all entries, or none of them. With them goes the number of the last line of the journal that they come from, so that
/// none is written twice.
pub(super) fn write(
    connection: &mut Connection,
    process: &ProcessFacts,
    entries: &[HistoryEntry],
    journal: Option<(&str, u64)>,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut rows = NewRows::of(&transaction, process)?;
    entries.iter().try_for_each(|entry| rows.add(entry))?;
    drop(rows);
    if let Some((name, number)) = journal {
        transaction.prepare_cached(MARK_JOURNAL)?.execute(params![name, signed(number)])?;
    }
    transaction.commit()
}

/// The rows of one transaction.
struct NewRows<'t> {
    transaction: &'t Transaction<'t>,
    process: &'t ProcessFacts,
    /// By their names. Only until the transaction ends: then another process may remove their rows.
    runs: HashMap<&'t str, KnownRun>,
    add_call: CachedStatement<'t>,
}

/// A run that has a row.
#[derive(Clone, Copy)]
struct KnownRun {
    number: i64,
    /// Whether the row has no end, because the run continues.
    continues: bool,
}

impl<'t> NewRows<'t> {
    fn of(transaction: &'t Transaction<'t>, process: &'t ProcessFacts) -> rusqlite::Result<Self> {
        let add_call = transaction.prepare_cached(ADD_CALL)?;
        Ok(Self { transaction, process, runs: HashMap::new(), add_call })
    }

    fn add(&mut self, entry: &'t HistoryEntry) -> rusqlite::Result<()> {
        match entry {
            HistoryEntry::Call(call) => self.add_call(call),
            HistoryEntry::Act(act) => self.add_act(act),
            HistoryEntry::End(end) => self.end_run(end),
        }
    }

    fn add_call(&mut self, call: &'t CallEntry) -> rusqlite::Result<()> {
        let root = call.root.as_ref();
        let root = root.map(|root| self.number_of(root, None)).transpose()?;
        let run = self.number_of(&call.run, root)?;
        if !call.is_run_over {
            self.go_on(&call.run)?;
        }
        let root = root.unwrap_or(run);
        let replaced = call.log.map(|log| self.take_unlogged(root, log)).transpose()?;
        // The run does not know them of a call that its log lacks.
        let is_model = call.tool.is_none();
        let [model, provider, key, budgets] = replaced.filter(|_| is_model).unwrap_or_default();
        let [input, cached, output, picos, unconfirmed] = call.amounts.map(signed);
        let values = params![
            run,
            root,
            signed(call.at),
            model.as_ref().or(call.model.as_ref()),
            provider.as_ref().or(call.provider.as_ref()),
            call.tool,
            input,
            cached,
            output,
            picos,
            unconfirmed,
            call.is_priced,
            call.is_estimate,
            key.as_ref().or(call.key.as_ref()),
            budgets.as_ref().or(call.budgets.as_ref()),
            call.charge.map(signed)
        ];
        self.add_call.execute(values).map(drop)
    }

    fn add_act(&mut self, act: &'t ActEntry) -> rusqlite::Result<()> {
        let run = self.number_of(&act.run, None)?;
        let values = params![run, signed(act.at), act.who, act.what, act.detail, act.why];
        self.transaction.prepare_cached(ADD_ACT)?.execute(values).map(drop)
    }

    fn end_run(&mut self, end: &'t EndEntry) -> rusqlite::Result<()> {
        let EndEntry { run, row, at, status, reason, text } = end;
        if let Some(row) = row {
            self.number_of(row, None)?;
        }
        if let Some(known) = self.runs.get_mut(run.as_str()) {
            known.continues = false;
        }
        let (has_ended, at) = (at.is_some(), signed(at.unwrap_or_default()));
        let values = params![run, self.process.id, has_ended, at, status, reason, text];
        self.transaction.prepare_cached(END_RUN)?.execute(values).map(drop)
    }

    /// Removes the end from the row of a run.
    fn go_on(&mut self, run: &RunFacts) -> rusqlite::Result<()> {
        let Some(known) = self.runs.get_mut(run.id.as_str()).filter(|it| !it.continues) else {
            return Ok(());
        };
        known.continues = true;
        self.transaction.prepare_cached(CONTINUE_RUN)?.execute([known.number]).map(drop)
    }

    /// Removes the calls of a run that its log lacks, because its process died in between. Returns the texts of the last one by a
    /// model: its model and provider, key and budgets.
    fn take_unlogged(&self, root: i64, log: LoggedPart) -> rusqlite::Result<[Option<String>; 4]> {
        let (charged, until) = (signed(log.charged), signed(log.until));
        let mut select = self.transaction.prepare_cached(LAST_UNLOGGED)?;
        let last = select.query_row(params![root, charged, until], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
        });
        let last = last.optional()?;
        let mut remove = self.transaction.prepare_cached(REMOVE_UNLOGGED)?;
        remove.execute(params![root, charged, until])?;
        Ok(last.unwrap_or_default())
    }

    /// The number of a run, which is added if it has none.
    fn number_of(&mut self, run: &'t RunFacts, root: Option<i64>) -> rusqlite::Result<i64> {
        if let Some(known) = self.runs.get(run.id.as_str()) {
            return Ok(known.number);
        }
        let number = match self.find(run)? {
            Some(number) => number,
            None => self.add_run(run, root)?,
        };
        self.runs.insert(&run.id, KnownRun { number, continues: false });
        Ok(number)
    }

    /// The row of a run that this process has begun, or that continues here.
    fn find(&self, run: &RunFacts) -> rusqlite::Result<Option<i64>> {
        let process = &self.process.id;
        let own = self.transaction.prepare_cached(OWN_RUN)?;
        if let Some(number) = first_number(own, params![run.id, process])? {
            return Ok(Some(number));
        }
        if !run.is_resumed {
            return Ok(None);
        }
        let last = self.transaction.prepare_cached(LAST_RUN)?;
        let number = first_number(last, params![run.id])?;
        if let Some(number) = number {
            let take = "UPDATE run SET process = ?2 WHERE number = ?1";
            self.transaction.prepare_cached(take)?.execute(params![number, process])?;
        }
        Ok(number)
    }

    fn add_run(&self, run: &RunFacts, root: Option<i64>) -> rusqlite::Result<i64> {
        let ProcessFacts { id: process, origin } = self.process;
        let HistoryOrigin { kind, program, directory } = origin;
        let RunFacts { id, parent, agent, began, is_resumed: _ } = run;
        let began = signed(*began);
        let values = params![id, process, root, parent, kind, program, directory, agent, began];
        self.transaction.prepare_cached(ADD_RUN)?.execute(values)?;
        Ok(self.transaction.last_insert_rowid())
    }
}

fn first_number(
    mut select: CachedStatement<'_>,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Option<i64>> {
    select.query_row(values, |row| row.get(0)).optional()
}

/// Whether no call was ever recorded, or all were removed.
pub(super) fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM call)", (), |row| row.get(0))
}

/// When the first call was settled, the first act was, or the first run ended. `None` if it is empty.
pub(super) fn begins(connection: &Connection) -> rusqlite::Result<Option<WallTime>> {
    let first: Option<i64> = connection.query_row(BEGINS, (), |row| row.get(0))?;
    Ok(first.map(|at| WallTime(unsigned(at))))
}

/// Hands each call to `take`, in the order in which they were settled.
pub(super) fn each_call(
    connection: &Connection,
    which: &Which<'_>,
    mut take: impl FnMut(RecordedCall),
) -> rusqlite::Result<()> {
    let (filter, value) = match which {
        Which::Since(since) => {
            ("WHERE call.at >= ?1 ORDER BY call.at", signed(since.map_or(0, |it| it.0)))
        }
        Which::Of(run) if run.parent.is_none() => {
            ("WHERE call.root = ?1 ORDER BY call.number", run.number)
        }
        Which::Of(run) => ("WHERE call.run = ?1 ORDER BY call.number", run.number),
    };
    let mut select = connection.prepare(&format!("{CALLS}{filter}"))?;
    let mut rows = select.query([value])?;
    while let Some(row) = rows.next()? {
        take(recorded_call(row)?);
    }
    Ok(())
}

fn recorded_call(row: &Row<'_>) -> rusqlite::Result<RecordedCall> {
    let amount = |at: usize| row.get(at).map(unsigned);
    let budgets: Option<String> = row.get(14)?;
    let budgets = budgets.map(|names| serde_json::from_str(&names));
    Ok(RecordedCall {
        run: row.get(0)?,
        directory: row.get(1)?,
        at: WallTime(amount(2)?),
        model: row.get(3)?,
        provider: row.get(4)?,
        tool: row.get(5)?,
        input: amount(6)?,
        cached: amount(7)?,
        output: amount(8)?,
        cost: Money::from_picos(amount(9)?),
        unconfirmed: Money::from_picos(amount(10)?),
        is_priced: row.get(11)?,
        is_estimate: row.get(12)?,
        key: row.get(13)?,
        // If it is not JSON, only names of budgets are lost.
        budgets: budgets.transpose().ok().flatten().unwrap_or_default(),
    })
}

/// The names of outermost runs that begin so, each once.
pub(super) fn beginning_with(
    connection: &Connection,
    begin: &str,
) -> rusqlite::Result<Vec<String>> {
    let named = "SELECT DISTINCT id FROM run WHERE root IS NULL AND substr(id, 1, length(?1)) = ?1 ORDER BY id";
    let mut select = connection.prepare(named)?;
    select.query_map([begin], |row| row.get(0))?.collect()
}

/// The last run of a name.
pub(super) fn run(connection: &Connection, id: &str) -> rusqlite::Result<Option<RecordedRun>> {
    let found = connection.query_row(RUN, [id], |row| {
        Ok(RecordedRun {
            number: row.get(0)?,
            id: row.get(1)?,
            parent: row.get(2)?,
            origin: HistoryOrigin {
                kind: row.get(3)?,
                program: row.get(4)?,
                directory: row.get(5)?,
            },
            agent: row.get(6)?,
            began: WallTime(row.get(7).map(unsigned)?),
            ended: row.get::<_, Option<i64>>(8)?.map(|at| WallTime(unsigned(at))),
            status: row.get(9)?,
            reason: row.get(10)?,
            text: row.get(11)?,
            sub_agents: row.get(12).map(unsigned)?,
            acts: Vec::new(),
        })
    });
    let Some(mut run) = found.optional()? else { return Ok(None) };
    let mut select = connection.prepare(ACTS)?;
    let acts = select.query_map([run.number], |row| {
        Ok(RecordedAct {
            at: WallTime(row.get(0).map(unsigned)?),
            who: row.get(1)?,
            what: row.get(2)?,
            detail: row.get(3)?,
            why: row.get(4)?,
        })
    })?;
    run.acts = acts.collect::<rusqlite::Result<_>>()?;
    Ok(Some(run))
}

/// Removes calls and acts from before a time, and the runs that ended or began before it and have none left. A dry run counts
/// and takes all of it back.
pub(super) fn prune(
    connection: &mut Connection,
    before: WallTime,
    is_dry_run: bool,
) -> rusqlite::Result<Pruned> {
    // The sub-agents first: a run stays as long as one of them does.
    const UNUSED: &str = "
        DELETE FROM run WHERE coalesce(ended, began) < ?1 AND (root IS NULL) = ?2
            AND NOT EXISTS (SELECT 1 FROM call WHERE call.root = coalesce(run.root, run.number)
                AND (run.root IS NULL OR call.run = run.number))
            AND NOT EXISTS (SELECT 1 FROM act WHERE act.run = run.number)
            AND NOT EXISTS (SELECT 1 FROM run AS below WHERE below.root = run.number)";
    let before = signed(before.0);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let count = |changed: usize| u64::try_from(changed).unwrap_or(u64::MAX);
    let calls = count(transaction.execute("DELETE FROM call WHERE at < ?1", [before])?);
    let acts = count(transaction.execute("DELETE FROM act WHERE at < ?1", [before])?);
    transaction.execute(UNUSED, params![before, false])?;
    let runs = count(transaction.execute(UNUSED, params![before, true])?);
    match is_dry_run {
        true => transaction.rollback()?,
        false => transaction.commit()?,
    }
    Ok(Pruned { runs, calls, acts })
}

#[cfg(test)]
mod tests;
