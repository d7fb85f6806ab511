//! The limits of this crate, each with its reason.

use std::time::Duration;

/// Output tokens below which a call is not worth making: not even a short tool call fits.
pub const MIN_OUTPUT_TOKENS: u64 = 16;
/// The output that is reserved for a call if neither the agent nor the model sets an output cap: more than nearly all
/// responses of agents take, and little compared with a usual limit.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 8_192;
/// The output that is kept for a wrap-up: an answer of some paragraphs.
pub const WRAP_UP_OUTPUT_TOKENS: u64 = 1_024;
/// The output for which a refusal suggests a limit: a short answer. A call is admitted with less, and then it is cut off.
pub(crate) const SHORT_ANSWER_TOKENS: u64 = 500;
/// Tokens of tool results that are expected before a wrap-up: some pages. They are not known before the tools have run.
pub(crate) const WRAP_UP_RESULTS_TOKENS: u64 = 2_048;
/// The fewest bytes of output per token, for estimates: JSON and code have fewer than text.
pub const BYTES_PER_TOKEN: u64 = 3;
/// Output in transit when a stream is closed: the model produces more until the provider learns of it, and the first
/// tokens arrive together (docs/semantics.md, "Charging when usage is missing").
pub(crate) const OUTPUT_AHEAD: u64 = 256;
/// A call waits for others if it would get less than one part in so many of the output that it could have alone: a
/// response that is cut off costs as much as a wait, and is of no use.
pub(crate) const WORTH_A_PART: u64 = 4;
/// A share is the remaining budget divided by this, and at least the largest output so far multiplied by it: so
/// several calls fit in parallel, and a response can be several times as long as any before.
pub(crate) const SHARES: u64 = 4;
/// The least share of a call, in output tokens: most responses of agents are shorter.
pub(crate) const MIN_SHARE: u64 = 4_096;
/// The context window that a model is assumed to have at most if its own is not known, in tokens. Only one that is listed has a
/// larger one, Llama 4 Scout at one provider; at that bound, a file for a Gemini model that is listed without its window would hold
/// ten times what the model can take.
pub(crate) const LARGEST_WINDOW: u64 = 2 << 20;
/// Models that responded instead of one requested model and whose prices are cached: a router has a few dozen. Names
/// come from upstream, so they must not fill the memory.
pub(crate) const MAX_RESPONDED_MODELS: usize = 64;
/// Longest such name that is cached, in bytes: with [`MAX_RESPONDED_MODELS`], 16 kilobytes per model.
pub(crate) const MAX_RESPONDED_NAME: usize = 256;
/// How long a time rule that trips and is overridden is left alone: its distance is zero, and checking again
/// immediately would keep a core busy.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// After the reset that a provider has announced: its clock and this one differ a little, and a report of the use before the
/// reset would pause the run again.
pub(crate) const AFTER_RESET: Duration = Duration::from_secs(1);
/// The longest wait that is taken over from a provider: beyond a week it is a mistake.
pub(crate) const MAX_RETRY_AFTER: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The longest wait for a reset: no window of a subscription is longer than a month.
pub(crate) const MAX_RESET_WAIT: Duration = Duration::from_secs(32 * 24 * 3_600);

/// Far more calls than one run has in flight; a table that is full has leases that its owner never closes.
pub const MAX_LEASES: usize = 4_096;

/// Bytes of a kill file that are read: a message is a line for a person.
pub(crate) const MAX_MESSAGE_BYTES: u64 = 1024;
/// The shortest time between two looks of `cancel::watch_kill_switch`, so that an interval
/// of zero does not keep a core busy.
pub const MIN_WATCH_INTERVAL: Duration = Duration::from_millis(1);

/// How many cancellations a token keeps: a run's record has no more of them either.
pub(crate) const MAX_CANCELLATIONS: usize = 64;

/// Sub-agents that a report lists: more than a person reads, and some kilobytes of JSON. Further ones are counted.
pub(crate) const MAX_CHILDREN: usize = 256;
/// Runs that a reporter counts at the same time, in some megabytes; it forgets the oldest of those that never ended.
pub(crate) const MAX_COUNTED_RUNS: usize = 4_096;

/// Log files of stored runs that stay open at the same time: a quarter of the descriptors that a process usually may have.
/// Others are opened for each write.
pub(crate) const MAX_OPEN_LOGS: usize = 256;
/// Bytes of lines of one run that wait for a store that is away: those of many calls in flight.
pub(crate) const MAX_WAITING_LINES: usize = 4 << 20;

/// Traces that are open at the same time: half of the descriptors that a process usually may have.
pub(crate) const MAX_OPEN_TRACES: usize = 512;
/// Paused runs that a recorder remembers, so that they get no second header when they continue: far more than people
/// approve.
pub(crate) const MAX_PAUSED_RUNS: usize = 4_096;
/// The longest line of a trace file that is read back, in bytes: a tool result is at most one whole request.
pub(crate) const MAX_TRACE_LINE: usize = 256 << 20;
/// The longest name of a model, or version of prices, in the header of a trace, in bytes: names come from clients, and
/// known ones have some dozens. With both of them escaped, the header fits into a block of the disk (4 KiB).
pub(crate) const MAX_HEADER_NAME_BYTES: usize = 256;
/// The longest header of a trace file that is found without reading the whole file, in bytes: an id, a model and a version
/// of prices, all clipped.
pub(crate) const MAX_TRACE_HEADER_BYTES: u64 = 8 << 10;
/// The memory that stays reserved for the next line of each open trace, in bytes: a usual line fits.
pub(crate) const TRACE_ROOM_BYTES: usize = 4 << 10;
/// Bytes of a trace file read at a time: a few hundred lines, so that a system call is rare.
pub(crate) const TRACE_READ_BYTES: usize = 64 << 10;
/// Entries that a recording keeps by default: a long test, and not a process that fills up.
pub(crate) const DEFAULT_RECORDING: usize = 100_000;

/// The largest state in bytes: a context of a million tokens is about 4 MiB of text. A state ten times as large is a
/// mistake that would be written at every step.
pub const MAX_STATE_BYTES: usize = 64 << 20;
/// The most that one append takes, in bytes: the events of a step are a few kilobytes, and a reader holds
/// an append in memory.
pub const MAX_APPEND_BYTES: usize = 16 << 20;
/// The most lines that one call reads: some megabytes of usual lines.
pub const PAGE_LINES: usize = 10_000;
/// The number of bytes of lines that ends a call; with the last line, at most [`MAX_APPEND_BYTES`] more.
pub const PAGE_BYTES: usize = 4 << 20;
/// The longest id in bytes: with a suffix it is still a file name everywhere (255 bytes).
pub const MAX_RUN_ID_BYTES: usize = 128;
/// The longest id of a child in bytes: with the numbers of all its parents, and a suffix, still a file name everywhere.
pub const MAX_CHILD_ID_BYTES: usize = 240;

// The stores on disk.

/// The longest header in bytes: an id, a label of 200 characters that may all be escaped, four numbers.
pub(crate) const MAX_HEADER_BYTES: u64 = 8 << 10;
/// The most changes that wait, and that one transaction takes: enough to share the cost of a commit, and
/// few enough to be held in memory.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_WAITING_CHANGES: usize = 64;
/// How much of a state is searched, in bytes: it is searched at every save, and what is meant to be seen
/// in a list is written early.
pub(crate) const MAX_LABEL_SEARCH_BYTES: usize = 64 << 10;
/// The largest file of root certificates in bytes: those of a system have about 250 kilobytes.
pub(crate) const MAX_CERTIFICATES_BYTES: u64 = 4 << 20;
/// The longest content of a lock file in bytes: the number of a process.
pub(crate) const MAX_LOCK_BYTES: u64 = 32;
/// The longest label in characters: more does not fit on a line.
pub(crate) const MAX_LABEL_CHARS: usize = 200;

/// How often a call that waits for others in flight looks whether it fits: far more often than a model answers.
pub(crate) const ADMISSION_RECHECK: Duration = Duration::from_millis(50);

// Accounts.

/// The longest name of an account in bytes: each row of a store and each refusal repeats it.
pub(crate) const MAX_ACCOUNT_NAME_BYTES: usize = 64;
/// The limits of one account: each is summed at every call.
pub(crate) const MAX_ACCOUNT_LIMITS: usize = 16;
/// The accounts that are defined: far more than teams and keys on one machine, some megabytes.
pub(crate) const MAX_ACCOUNTS: usize = 4_096;
/// The largest limit of an account; money in pico-dollars, $4 M: stores count in signed integers, and sums must fit.
pub(crate) const MAX_ACCOUNT_AMOUNT: u64 = 4_000_000_000_000_000_000;
/// The largest amount of one hold or settlement that is counted; a larger one counts as this, above every limit.
pub(crate) const MAX_CHARGE: u64 = 1 << 61;
/// The shortest rolling window: buckets of a second.
pub(crate) const MIN_ROLLING: Duration = Duration::from_secs(60);
/// The longest rolling window: a year.
pub(crate) const MAX_ROLLING: Duration = Duration::from_secs(366 * 24 * 3_600);
/// The buckets of a rolling window: what has left it returns in steps of less than 2%.
pub(crate) const ROLLING_BUCKETS: u64 = 60;
/// How often a call asks for less, if its accounts leave less than it wants: twice per limit of some accounts, and others may
/// be quicker.
pub(crate) const MAX_GRANT_TRIES: usize = 16;
/// How long a call waits before it asks an account again that the calls of other processes fill: a call takes seconds.
pub(crate) const ACCOUNT_RECHECK: Duration = Duration::from_millis(50);
/// How long a call waits before it asks a store again that fails: a small part of the time in which a server restarts.
pub(crate) const STORE_RECHECK: Duration = Duration::from_millis(250);
/// How long calls wait for a store of budgets that fails: a server restarts in seconds.
pub(crate) const STORE_PATIENCE: Duration = Duration::from_secs(10);
/// The longest wait before a reset is looked for again, that of an account or of a subscription: clocks may be set.
pub(crate) const RESET_RECHECK: Duration = Duration::from_secs(1);
// docs/run.md promises that a run continues within 5 seconds of a reset.
const _: () = assert!(AFTER_RESET.as_millis() + RESET_RECHECK.as_millis() <= 5_000);
/// The longest id of a hold, in bytes: several times as long as those of this program.
pub(crate) const MAX_HOLD_ID_BYTES: usize = 128;
/// How long holds that have ended are recorded, so that a repeated settlement counts once: by time in a file, and by
/// number in memory.
#[cfg(feature = "sqlite")]
pub(crate) const REMEMBER_HOLDS: Duration = Duration::from_secs(7 * 24 * 3_600);
/// See [`REMEMBER_HOLDS`]: about ten megabytes.
pub(crate) const MAX_REMEMBERED_HOLDS: usize = 65_536;
/// The corrections of one account that can be read back: far more than people look through. A store on a server and one in memory
/// keep no more.
pub(crate) const MAX_PAST_ADJUSTMENTS: usize = 100;
/// How far the clock is behind the time of a store before a warning: clocks of machines differ by less.
pub(crate) const CLOCK_JUMP: Duration = Duration::from_secs(60);
/// How long a hold lasts without a sign of its owner: a process that was killed pins its holds for no longer.
pub(crate) const HOLD_TTL: Duration = Duration::from_secs(60);
/// Costs that nothing was held for, such as those of tools without a declared price, that wait for a store that is away:
/// some megabytes.
pub(crate) const MAX_UNCHARGED: usize = 10_000;
/// How often an owner shows that it lives: three signs within [`HOLD_TTL`].
pub(crate) const HOLD_HEARTBEAT: Duration = Duration::from_secs(20);

// The history.

/// The calls and acts that wait in memory for a history that cannot be written: those of some hours, about a megabyte.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_WAITING_ENTRIES: usize = 4_096;

// The store of accounts on a server.

/// The longest namespace in bytes: each key begins with it.
#[cfg(feature = "redis")]
pub(crate) const MAX_NAMESPACE_BYTES: usize = 64;
/// The connections of one process: a reservation takes less than a millisecond of one.
#[cfg(feature = "redis")]
pub(crate) const MAX_STORE_CONNECTIONS: usize = 8;
/// How long a server may take to accept a connection. A caller waits for that, once.
#[cfg(feature = "redis")]
pub(crate) const STORE_CONNECT: Duration = Duration::from_secs(1);
/// How long it may take to answer: a thousand times as long as it does. A caller waits for that, once.
#[cfg(feature = "redis")]
pub(crate) const STORE_ANSWER: Duration = Duration::from_secs(1);
/// How often a process looks for new kills: they abort calls in flight within a second.
#[cfg(feature = "redis")]
pub(crate) const STORE_POLL: Duration = Duration::from_millis(200);
/// How often a server that is away is looked for, and settlements that wait are sent: thrice in a [`STORE_LEASE`].
#[cfg(feature = "redis")]
pub(crate) const STORE_RETRY: Duration = Duration::from_secs(1);
/// How long calls that reserve nothing are admitted without news: several looks, so that one slow answer refuses nothing. A kill
/// waits no longer than that for a process that is cut off.
#[cfg(feature = "redis")]
pub(crate) const STORE_LEASE: Duration = Duration::from_secs(3);
/// How often a process reports that it lives; one that has not for four times as long is gone.
#[cfg(feature = "redis")]
pub(crate) const STORE_TELL: Duration = Duration::from_secs(5);
/// How long a run waits for the process that serves it when that dies: several heartbeats, so that a slow answer of the store or
/// a busy machine takes no run away.
#[cfg(feature = "redis")]
pub(crate) const RUN_LEASE: Duration = Duration::from_secs(5);
/// How long the lines of a run are in a shared store after the last one: longer than people come back to a run.
#[cfg(feature = "redis")]
pub(crate) const RUN_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Lines of a run that are read at once: about 150 kilobytes.
#[cfg(feature = "redis")]
pub(crate) const LINES_READ: u64 = 1_000;
/// How often a kill looks whether all have confirmed it: four times in a [`STORE_POLL`], in which they do.
#[cfg(feature = "redis")]
pub(crate) const KILL_RECHECK: Duration = Duration::from_millis(50);
/// The kills that a process remembers for those who ask later. The store keeps as many.
#[cfg(feature = "redis")]
pub(crate) const MAX_KNOWN_KILLS: usize = 1_000;
/// How often calendar windows are computed again, because the clock of the store is in another: once suffices, unless it is
/// midnight.
#[cfg(feature = "redis")]
pub(crate) const MAX_SPAN_TRIES: usize = 4;
/// Bytes of settlements that wait: about 50,000.
#[cfg(feature = "redis")]
pub(crate) const MAX_SPOOL_BYTES: u64 = 8 << 20;

// Files, and waits for other processes.

/// How often a file that others remove at the same time is opened again: each time means that another process got
/// further, so this is never reached unless something is wrong.
pub(crate) const OPEN_TRIES: usize = 1000;
/// How much of the end of a file is searched at a time, in bytes.
pub(crate) const TAIL_BLOCK_BYTES: u64 = 64 << 10;
/// How much of half a line an append checks, in bytes: reading the file back checks all of it.
pub(crate) const CHECKED_TAIL_BYTES: usize = 64 << 10;
/// The pause before the journal mode is requested again, while other processes open the same new file.
#[cfg(feature = "sqlite")]
pub(crate) const SQLITE_PAUSE: Duration = Duration::from_millis(5);
/// How long one waits for other processes: a commit takes milliseconds, so this long means that something
/// hangs.
#[cfg(feature = "sqlite")]
pub(crate) const SQLITE_BUSY: Duration = Duration::from_secs(5);
/// How long one waits for other processes to open the file: they may be creating it.
#[cfg(feature = "sqlite")]
pub(crate) const ACCOUNTS_OPENING: Duration = Duration::from_secs(5);
/// How long one waits for other processes with the connection in hand: other threads of this process wait for the connection.
#[cfg(feature = "sqlite")]
pub(crate) const ACCOUNTS_BUSY: Duration = Duration::from_millis(250);
/// How often that is repeated, while other threads may have the connection in between. A commit takes microseconds, so this
/// long in all means that something hangs.
#[cfg(feature = "sqlite")]
pub(crate) const ACCOUNTS_BUSY_ROUNDS: u32 = 8;
/// Windows that are over are kept so long, for people who look back.
#[cfg(feature = "sqlite")]
pub(crate) const KEEP_COUNTERS: Duration = Duration::from_secs(400 * 24 * 3_600);
/// Corrections are kept so long, so that a repeated one counts once, and for people who look back. A server keeps them for the
/// same time.
#[cfg(feature = "sqlite")]
pub(crate) const KEEP_ADJUSTMENTS: Duration = Duration::from_secs(400 * 24 * 3_600);
/// How often a process deletes old rows of a file that it has open.
#[cfg(feature = "sqlite")]
pub(crate) const TIDY_EVERY: Duration = Duration::from_secs(24 * 3_600);

/// The longest wait for other processes that open the history: they may be creating it.
#[cfg(feature = "sqlite")]
pub(crate) const HISTORY_OPENING: Duration = Duration::from_secs(2);

/// The longest wait for other processes that write to the history: each takes a fraction of a millisecond, and a call waits for this
/// one.
#[cfg(feature = "sqlite")]
pub(crate) const HISTORY_BUSY: Duration = Duration::from_millis(500);

/// The longest journal of the history: about a hundred times what waits in it at once. A longer one is not read into memory.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_JOURNAL_BYTES: u64 = 16 << 20;
/// Journals of ended processes that are taken over at once; the next process takes more. A directory with more is not ours
/// alone.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_JOURNALS: usize = 1_024;
/// A journal that is cleared even if calls have to wait for it: a sixteenth of the longest.
#[cfg(feature = "sqlite")]
pub(crate) const LONG_JOURNAL: u64 = 1 << 20;
/// Entries of the history that wait for no others: so many are written as quickly, each, as more.
#[cfg(feature = "sqlite")]
pub(crate) const JOURNAL_BATCH: usize = 256;
/// How long entries of the history wait in the journal, so that many are written together.
#[cfg(feature = "sqlite")]
pub(crate) const JOURNAL_PAUSE: Duration = Duration::from_millis(50);
/// The pause after entries of a journal could not be written. The journal has them, so that nothing is lost in the meantime.
#[cfg(feature = "sqlite")]
pub(crate) const JOURNAL_RETRY: Duration = Duration::from_secs(1);
/// How often a reader looks whether the journals of others are empty, with a pause in between: two seconds in all, for a busy disk.
#[cfg(feature = "sqlite")]
pub(crate) const JOURNAL_LOOKS: u32 = 400;
/// The pause between two looks: a journal waits ten times as long for a batch.
#[cfg(feature = "sqlite")]
pub(crate) const JOURNAL_LOOK: Duration = Duration::from_millis(5);
