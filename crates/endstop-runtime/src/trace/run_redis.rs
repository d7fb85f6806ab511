//! Runs in the store: any process serves any call of any run, one process at a time.
//!
//! Decision: a run has a lease with an epoch, and not only appends that are refused when the length has changed. One process
//! decides in memory as for a directory, with one request for each append, and nothing is decided twice. The lease is only
//! needed while calls are in flight: a run without any rests, and the next process takes it at once. Safety needs no clock,
//! because every append names its epoch.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::Program;
use endstop_core::units::Millis;

use super::replay::{Replay, Replayed};
use super::run_log::{AppendError, OpenRun, RunLines, RunLog, RunLogError, SharedRunLog};
use crate::account::{BudgetStoreError, RedisBudgetStore, RedisReply, RedisRequest, RedisServer};
use crate::clock::millis;
use crate::limits::{LINES_READ, RUN_LEASE, RUN_RETENTION};
use crate::store::sealed_file::{TraceFileError, TraceLineError, check_header};
use crate::store::{LineChain, RunId};

/// Runs in a Redis or Valkey that many processes share, with the budgets of [`RedisBudgetStore`]. Each process has one log.
///
/// A process that serves a run hands it over as soon as no call of it is in flight. Others wait for one that has died as long
/// as its lease; its calls in flight then count in full. Lines are deleted some time after the last one was appended.
///
/// ```no_run
/// use endstop_runtime::account::RedisBudgetStore;
/// use endstop_runtime::trace::RunLog;
///
/// let store = RedisBudgetStore::open("redis://127.0.0.1:6379")?;
/// let log = store.run_log("the gateway in Berlin");
/// println!("{} runs", log.ids(1_000)?.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RedisRunLog {
    server: Server,
}

/// This process in the store.
#[derive(Clone)]
struct Server {
    shared: Arc<RedisServer>,
    process: String,
    name: String,
    lease: Duration,
    retention: Duration,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.name).finish_non_exhaustive()
    }
}

impl RedisBudgetStore {
    /// Returns the runs of the store, for a process that has this name in what others see.
    #[must_use]
    pub fn run_log(&self, name: &str) -> RedisRunLog {
        let server = Server {
            shared: self.shared(),
            process: RunId::new().to_string(),
            name: name.to_owned(),
            lease: RUN_LEASE,
            retention: RUN_RETENTION,
        };
        RedisRunLog { server }
    }
}

impl RedisRunLog {
    /// Sets the time that others wait for this process when it dies, instead of five seconds.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.server.lease = lease;
        self
    }

    /// Sets the time that the lines of a run are there after the last one, instead of 30 days.
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.server.retention = retention;
        self
    }

    fn written(&self, id: &RunId) -> Result<RedisReply, RunLogError> {
        let (id, owner) = (id.as_str(), self.server.process.as_str());
        let request = RedisRequest { id, owner, ..RedisRequest::default() };
        Ok(self.server.shared.call("written", request, true)?)
    }

    /// Reads the lines of a run that is served here.
    fn read(
        &self,
        lines: &mut StoredLines,
        written: u64,
        program: &Arc<Program>,
    ) -> Result<Option<Replayed>, RunLogError> {
        let mut replay = Replay::new(Arc::clone(program));
        while lines.chain.lines() < written {
            let from = lines.chain.lines();
            let page = lines.request(Some(from));
            let page = RedisRequest { count: Some(LINES_READ), ..page };
            let reply = self.server.shared.call("lines", page, true)?;
            let texts = lines.answered(reply)?.texts(0);
            if texts.is_empty() {
                let error = TraceFileError::Shortened { found: from, written };
                return Err(RunLogError::Lines { error });
            }
            for text in texts {
                lines.take(text.as_bytes(), &mut replay)?;
            }
        }
        Ok((written > 0).then(|| replay.finish()))
    }
}

impl RunLog for RedisRunLog {
    fn open(&self, id: &RunId, program: &Arc<Program>) -> Result<OpenRun, RunLogError> {
        let (chain, server) = (LineChain::default(), self.server.clone());
        let mut lines = StoredLines { server, id: id.clone(), epoch: 0, chain };
        let taken = lines.ask_for(None)?;
        lines.epoch = taken.number(0)?;
        let replayed = self.read(&mut lines, taken.number(1)?, program).inspect_err(|_| {
            // Another try finds it free, here or elsewhere.
            let _ = lines.rest();
        })?;
        // The time since the last line counts as it does in a process that has the run in memory.
        let idle = Millis(taken.number(2)?);
        let replayed = replayed.map(|replayed| replayed.after_pause_of(idle));
        Ok(OpenRun { replayed, lines: Box::new(lines) })
    }

    fn has(&self, id: &RunId) -> Result<bool, RunLogError> {
        Ok(self.written(id)?.number(0)? > 0)
    }

    fn ids(&self, most: usize) -> Result<Vec<RunId>, RunLogError> {
        let count = Some(u64::try_from(most).unwrap_or(u64::MAX).min(u64::from(u32::MAX)));
        let request = RedisRequest { count, keep: self.server.keep(), ..RedisRequest::default() };
        let reply = self.server.shared.call("runs", request, true)?;
        Ok(parsed(reply))
    }

    fn shared(&self) -> Option<&dyn SharedRunLog> {
        Some(self)
    }
}

impl SharedRunLog for RedisRunLog {
    fn away(&self) -> Option<String> {
        self.server.shared.away()
    }

    fn lease(&self) -> Duration {
        self.server.lease
    }

    fn served_by(&self, id: &RunId) -> Result<Option<String>, RunLogError> {
        Ok(self.written(id)?.texts(1).into_iter().next())
    }

    fn renew(&self, runs: &[(RunId, u64)]) -> Result<Vec<RunId>, RunLogError> {
        let runs = runs.iter().map(|(id, epoch)| (id.as_str(), *epoch)).collect();
        let request = RedisRequest { runs, ttl: self.server.ttl(), ..RedisRequest::default() };
        Ok(parsed(self.server.shared.call("renew", request, true)?))
    }

    fn wanted(&self) -> Result<Vec<RunId>, RunLogError> {
        let request = RedisRequest { owner: &self.server.process, ..RedisRequest::default() };
        Ok(parsed(self.server.shared.call("wanted", request, true)?))
    }
}

impl Server {
    fn ttl(&self) -> Option<u64> {
        Some(millis(self.lease))
    }

    fn keep(&self) -> Option<u64> {
        Some(millis(self.retention))
    }
}

fn parsed(reply: RedisReply) -> Vec<RunId> {
    reply.texts(0).iter().filter_map(|text| RunId::parse(text).ok()).collect()
}

/// The lines of one run, served here since `epoch` began.
#[derive(Debug)]
struct StoredLines {
    server: Server,
    id: RunId,
    epoch: u64,
    chain: LineChain,
}

impl StoredLines {
    fn request(&self, after: Option<u64>) -> RedisRequest<'_> {
        RedisRequest {
            id: self.id.as_str(),
            owner: &self.server.process,
            name: &self.server.name,
            epoch: Some(self.epoch),
            ttl: self.server.ttl(),
            keep: self.server.keep(),
            after,
            ..RedisRequest::default()
        }
    }

    fn ask_for(&self, epoch: Option<u64>) -> Result<RedisReply, RunLogError> {
        let reply =
            self.server.shared.call("take", RedisRequest { epoch, ..self.request(None) }, true)?;
        self.answered(reply)
    }

    /// The reply, if it is not a refusal.
    fn answered(&self, reply: RedisReply) -> Result<RedisReply, RunLogError> {
        match reply.word.as_str() {
            "OK" => Ok(reply),
            "MOVED" => Err(RunLogError::Moved),
            "WAIT" => Err(RunLogError::Held { by: reply.texts(0).concat() }),
            word => Err(RunLogError::Store(self.unknown(word))),
        }
    }

    fn unknown(&self, word: &str) -> BudgetStoreError {
        BudgetStoreError::Failed {
            doing: "use a stored run",
            path: self.server.shared.server.clone().into(),
            why: format!("it answers `{word}`"),
        }
    }

    /// Checks the next line, and replays it unless it is the header.
    fn take(&mut self, line: &[u8], replay: &mut Replay) -> Result<(), RunLogError> {
        let number = self.chain.lines().saturating_add(1);
        let refused = |problem: TraceLineError| RunLogError::Lines {
            error: TraceFileError::of_sealed(number, problem),
        };
        self.chain.check(line).map_err(|error| refused(error.into()))?;
        let taken = match number {
            1 => check_header(line, &self.id),
            _ => replay.take_line(line),
        };
        taken.map_err(refused)
    }
}

impl RunLines for StoredLines {
    fn append(&mut self, lines: &[u8]) -> Result<(), AppendError> {
        let (mut chain, mut text) = (self.chain, Vec::new());
        let whole = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        whole.for_each(|line| chain.seal(line, &mut text));
        let sealed: Vec<&[u8]> =
            text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let request = self.request(Some(self.chain.lines()));
        let reply = self.server.shared.call_with("append", request, true, &sealed);
        let reply = reply.map_err(|error| match error {
            // A server that refuses for now, such as one whose disk is full, has not appended anything.
            BudgetStoreError::Away { .. } | BudgetStoreError::Failed { .. } => {
                AppendError::Away(error.to_string())
            }
            error => AppendError::Refused(io::Error::other(error.to_string())),
        })?;
        match reply.word.as_str() {
            "OK" => self.chain = chain,
            "MOVED" => return Err(AppendError::Moved),
            "DAMAGED" => {
                let why = "another program has changed its lines in the store";
                return Err(AppendError::Refused(io::Error::other(why)));
            }
            word => return Err(io::Error::other(self.unknown(word).to_string()).into()),
        }
        Ok(())
    }

    fn hold(&mut self) -> Result<(), RunLogError> {
        self.ask_for(Some(self.epoch)).map(drop)
    }

    fn rest(&mut self) -> Result<(), RunLogError> {
        let reply = self.server.shared.call("rest", self.request(None), true)?;
        self.answered(reply).map(drop)
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }
}
