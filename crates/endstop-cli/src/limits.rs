//! The limits of the command itself: how much it reads, lists and names.

use std::time::Duration;

/// The longest JSON file that is read whole: outcomes, prices, baselines. The largest price tables in use
/// have 3 MB.
pub(crate) const MAX_JSON_BYTES: usize = 64 << 20;

/// The longest prompt that is read from standard input, in bytes: a context of a million tokens.
pub(crate) const MAX_PROMPT_BYTES: u64 = 4 << 20;

/// The most bytes of all keys of a file or of a store. A gateway reads all of them when one has changed, and Redis sends them in one
/// answer, which has to arrive within a second.
pub(crate) const MAX_KEYS_BYTES: usize = 4 << 20;

/// The most bytes of all keys with a new one: about nine thousand keys of the usual 330 bytes. The rest is for changes, so that
/// each of them can still be revoked.
pub(crate) const MAX_KEYS_BYTES_WITH_NEW: usize = 3 << 20;

/// The most keys in a store: about as many as [`MAX_KEYS_BYTES_WITH_NEW`] has room for.
pub(crate) const MAX_STORE_KEYS: usize = 10_000;

/// The most bytes of one key as it is stored, with its budgets, limits and models: the longest models take half of that.
pub(crate) const MAX_KEY_BYTES: usize = 16 << 10;

/// The most models that a key names. A `*` in one of them stands for many.
pub(crate) const MAX_KEY_MODELS: usize = 64;

/// The longest model that a key names, in bytes: the longest names in use have about 100.
pub(crate) const MAX_KEY_MODEL_BYTES: usize = 128;

/// The longest name of who changes a key, in bytes: an email address has up to 254.
pub(crate) const MAX_KEY_ACTOR_BYTES: usize = 256;

/// The longest reason of a change of a key, in bytes: it is a line for a person.
pub(crate) const MAX_KEY_REASON_BYTES: usize = 1 << 10;

/// How long a change of a key waits for another one of the same file. A change takes milliseconds, so one that holds the file for
/// longer hangs.
pub(crate) const MAX_KEY_LOCK_TIME: Duration = Duration::from_secs(10);

/// How often it looks whether the file is free.
pub(crate) const KEY_LOCK_RECHECK: Duration = Duration::from_millis(20);

/// How often a change of a key in a store is tried. Each failure is a change of the same key by another process, so a few suffice.
pub(crate) const MAX_KEY_TRIES: usize = 100;

/// The time after which a file is read again that could not be read, or not be relied on, although it has not changed.
pub(crate) const FILE_RECHECK: Duration = Duration::from_secs(1);

/// How old the state of a file is at least when it is known not to change without a trace: some ticks of the clocks of file systems.
pub(crate) const FRESH_FILE: Duration = Duration::from_millis(50);

/// How often the budgets of keys are tried again that could not be counted.
pub(crate) const UNCOUNTED_RECHECK: Duration = Duration::from_secs(1);

/// The most changed budgets that a note names: a file with more of them was replaced as a whole.
pub(crate) const MAX_TOLD_CHANGES: usize = 8;

/// The longest response that the demo's agent reads, in bytes: the scripted model writes a few hundred, and the
/// address may belong to any other server.
pub(crate) const MAX_DEMO_RESPONSE_BYTES: usize = 1 << 20;

/// The longest configuration file that is read, in bytes: a line for each option has some kilobytes.
pub(crate) const MAX_CONFIG_BYTES: usize = 1 << 20;

/// The longest secret of a webhook that is read, in bytes: receivers issue some dozens.
pub(crate) const MAX_SECRET_BYTES: usize = 4 << 10;

/// The longest file of the kill epoch that is read, in bytes: a number and a reason.
pub(crate) const MAX_EPOCH_BYTES: usize = 64 << 10;

/// How long an answer that nothing was killed holds. A call asks several times before it is sent, and again when it ends.
pub(crate) const EPOCH_LOOK: Duration = Duration::from_millis(1);

/// How long `kill --all` waits after it began the next epoch, before it reports success: longer than a look serves.
pub(crate) const EPOCH_WAIT: Duration = Duration::from_millis(5);

/// The longest reason of a pause that is read from its file, in bytes: it is a line for a person.
pub(crate) const MAX_REASON_BYTES: u64 = 1 << 10;

/// The most stored runs that are listed for people: a screen of a small terminal. `--json` lists all.
pub(crate) const MAX_LISTED_RUNS: usize = 20;

/// The most corrections of a budget that are listed, the newest first: they stay on a screen with the rest of it.
pub(crate) const MAX_LISTED_ADJUSTMENTS: usize = 10;

/// The most rows of an answer of the control API about spend: some megabytes, which clients read. A year has 365 days.
pub(crate) const MAX_SPEND_ROWS: usize = 50_000;

/// How many characters of a run's name are in a file's name: file systems take 255 bytes.
pub(crate) const MAX_FILE_NAME_CHARS: usize = 120;

/// The longest transcript that is read from standard input, in bytes: it is held in memory, because readers go
/// through a transcript more than once. The largest recorded sessions have a few hundred megabytes.
pub(crate) const MAX_PIPED_BYTES: usize = 512 << 20;

/// The most paths that an error names: a shell may have put thousands in place of one pattern.
pub(crate) const MAX_NAMED_PATHS: usize = 3;

/// The most models without a price that a warning names; `--json` has all of them.
pub(crate) const MAX_NAMED_MODELS: usize = 5;

/// The most children that are reaped before other work gets its turn: a command can fork faster than this process reaps.
#[cfg(unix)]
pub(crate) const MAX_REAPED_AT_ONCE: usize = 256;

/// The most passes over the processes of the system in one attempt to end those of the command. Two are usual; a process
/// that forks and exits all the time needs some more.
#[cfg(unix)]
pub(crate) const MAX_KILL_SWEEPS: usize = 100;

/// The longest time of one such attempt: the gateway waits for its end.
#[cfg(unix)]
pub(crate) const MAX_KILL_SWEEP_TIME: std::time::Duration = std::time::Duration::from_millis(200);

/// The longest settings file of an agent program that is read, in bytes. Long ones have about 100 KB.
#[cfg(unix)]
pub(crate) const MAX_SETTINGS_BYTES: u64 = 4 << 20;

/// The longest name of a plan that is shown, in bytes: known names have at most ten. A longer one is not a name.
#[cfg(unix)]
pub(crate) const MAX_PLAN_NAME: usize = 24;

/// The most directories that a private directory is looked for above: paths of users have a handful.
#[cfg(unix)]
pub(crate) const MAX_PARENTS: usize = 64;

/// The most names of a directory that are searched for private directories of dead runs: a directory for temporary files can
/// have thousands.
#[cfg(unix)]
pub(crate) const MAX_PLACE_NAMES: usize = 10_000;

/// How long `endstop run` lets a command try to reach model providers without a call through the gateway, before it ends
/// the command. Programs that are limited make their first call within 3 s of their start; those that are not try at once and
/// several times within 10 s, and continue for minutes.
#[cfg(unix)]
pub(crate) const DEFAULT_GUARD_WAIT: &str = "10s";

/// The fewest refused attempts that end a command without calls. Programs that wait for their user have one or two for
/// telemetry, and clients retry a failed call more often.
#[cfg(unix)]
pub(crate) const MIN_ATTEMPTS: usize = 3;

/// Refused connections within this time are one attempt: senders of telemetry repeat a failed request at once, and clients
/// of models wait longer from the second retry on.
#[cfg(unix)]
pub(crate) const ATTEMPT_SPAN: std::time::Duration = std::time::Duration::from_secs(1);

/// The least time within which so many attempts belong to one call; with a longer `--guard-wait` it is twice that. One more
/// attempt has half of it more. Clients wait 5 s and then 10 s before they try again, and telemetry every ten seconds takes
/// longer.
#[cfg(unix)]
pub(crate) const MIN_FEW_SPAN: std::time::Duration = std::time::Duration::from_secs(20);

/// How many times `--guard-wait` a command has that stops trying within half of that, or that has made calls: it may start
/// another attempt. Programs without a network made their first call within 20 s.
#[cfg(unix)]
pub(crate) const LONG_WAITS: u32 = 3;

/// The most time between ten refused connections of a program that tries again and again. Telemetry is sent every ten
/// seconds at most, and so takes longer.
#[cfg(unix)]
pub(crate) const MAX_RETRY_SPAN: std::time::Duration = std::time::Duration::from_secs(60);

/// The most time between two refused connections of one series of attempts: clients wait 30 s at most before they try again.
#[cfg(unix)]
pub(crate) const MAX_RETRY_GAP: std::time::Duration = std::time::Duration::from_secs(40);

/// The longest entry of a live process that is read, in bytes: a command line and limits.
#[cfg(unix)]
pub(crate) const MAX_LIVE_BYTES: usize = 1 << 20;

/// The longest path of a unix socket, in bytes: Linux takes 107, macOS 103.
#[cfg(unix)]
pub(crate) const MAX_SOCKET_PATH: usize = 100;

/// The longest answer of the control API that is read, in bytes: a list of ten thousand runs has about two megabytes.
#[cfg(unix)]
pub(crate) const MAX_CONTROL_BYTES: usize = 16 << 20;

/// The longest wait for an answer of the control API: it answers from memory, and reads a large history in seconds.
#[cfg(unix)]
pub(crate) const MAX_CONTROL_TIME: std::time::Duration = std::time::Duration::from_secs(30);

/// The longest wait for a process that lists its runs: a frozen one must not keep the others from being shown.
#[cfg(unix)]
pub(crate) const MAX_LIST_TIME: std::time::Duration = std::time::Duration::from_secs(3);

/// How long a kill waits for a process that has not listed its runs: the time in which its request is written.
#[cfg(unix)]
pub(crate) const MAX_LEAVE_TIME: std::time::Duration = std::time::Duration::from_millis(500);

/// The most characters of a command line that the registry of live processes keeps: `ps` shows one line.
#[cfg(unix)]
pub(crate) const MAX_LIVE_COMMAND: usize = 1 << 10;

/// The most runs that an error names whose names begin alike: a longer list would hide the rest of the error.
#[cfg(unix)]
pub(crate) const MAX_NAMED_RUNS: usize = 5;

/// The fewest characters that stand for a run by the beginning of its name: an empty variable in a script must not stop
/// the only run there is.
pub(crate) const MIN_RUN_PREFIX: usize = 4;

// Waits of commands.

/// How long the end of a command waits for messages that are not taken yet: a receiver that works takes one in less than a second.
pub(crate) const WEBHOOK_PATIENCE: Duration = Duration::from_secs(5);
/// From the first signal to the one that nothing survives: the time in which programs write their files.
#[cfg(unix)]
pub(crate) const TERM_TO_KILL: Duration = Duration::from_secs(5);
/// Between two rounds of the last one, for processes started in the meantime.
#[cfg(unix)]
pub(crate) const KILL_AGAIN: Duration = Duration::from_millis(200);
/// After this many rounds Endstop stops trying: a process can hang in the kernel.
#[cfg(unix)]
pub(crate) const KILL_ROUNDS: u32 = 25;
/// Between two checks of the kill switch and of remaining processes.
#[cfg(unix)]
pub(crate) const SUPERVISE_LOOK: Duration = Duration::from_secs(1);
/// The same when the status line is visible, or the end is near.
#[cfg(unix)]
pub(crate) const SUPERVISE_LOOK_OFTEN: Duration = Duration::from_millis(250);
/// A stop signal of the terminal takes effect within this time, or never: then no shell controls the job.
#[cfg(unix)]
pub(crate) const SUSPENDING: Duration = Duration::from_millis(200);
/// Programs that draw the screen do so by then; those that have made a call are recognized earlier.
#[cfg(unix)]
pub(crate) const SCREEN_SETTLING: Duration = Duration::from_secs(2);
/// How long it takes at most until a file is noticed: a person sees no delay.
pub(crate) const CONTROL_LOOK: Duration = Duration::from_millis(100);
/// The wait of `scripted:slow` before each piece: slow enough to be seen and stopped.
pub(crate) const SLOW_PIECE_WAIT: Duration = Duration::from_millis(200);
/// The shortest rest of a key after its prefix: `sk-1` is the name of something else.
pub(crate) const LEAST_KEY_REST: usize = 6;
