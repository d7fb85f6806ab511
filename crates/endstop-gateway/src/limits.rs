//! Limits of the gateway that no configuration changes, each with its reason. Those that a user can change are in
//! [`Bounds`](crate::Bounds).

use std::time::Duration;

// Connections.

/// How long a client may take for the head of a request, and stay silent between two requests: a little longer than
/// the idle timeouts of the usual clients, so that they close first.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a client may be silent within the body of its request. Clients write bodies without a pause.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the whole body of a request may take: a client that sends a byte at a time must not hold a connection forever.
pub(crate) const BODY_DEADLINE: Duration = Duration::from_secs(300);
/// How long the gateway keeps reading from a client whose request it did not read in full. A socket that is closed
/// with unread bytes is reset, and the client loses the response.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// How many bytes it still reads then: most requests end within it, and a refused client sends no more than this for
/// nothing.
pub(crate) const LINGER_BYTES: usize = 1 << 20;
/// Longest line before a chunk, with its extension: no client of a model API sends extensions.
pub(crate) const MAX_CHUNK_LINE: usize = 256;
/// Bytes of all trailers of a body: as for a small head.
pub(crate) const MAX_TRAILERS: usize = 8 << 10;
/// Longest method: the longest registered one has 17 bytes.
pub(crate) const MAX_METHOD: usize = 32;

// Tunnels.

/// Tunnels of one gateway at the same time. Each has two descriptors, so these are half of what a process usually may
/// have; package managers open some dozens.
pub(crate) const MAX_TUNNELS: usize = 256;
/// Random bytes of the proxy's password: 128 bits cannot be guessed.
pub(crate) const PROXY_PASSWORD_BYTES: usize = 16;
/// How long before the start certificates of the run's authority are valid, for clocks that differ.
pub(crate) const AUTHORITY_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long they are valid after it: longer than any run.
pub(crate) const AUTHORITY_LIFE: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// How long a tunnel may be silent in both directions: longer than the usual servers keep a silent connection.
pub(crate) const TUNNEL_IDLE: Duration = Duration::from_secs(60 * 60);
/// Bytes of a tunnel that are read at once, in each direction: what a TLS record has.
pub(crate) const TUNNEL_BUFFER: usize = 16 << 10;
/// Hosts of model providers that a report names; further ones count for the pattern that they match. A program uses one
/// or two.
pub(crate) const MAX_REPORTED_HOSTS: usize = 64;
/// Upstreams that are recorded as unreachable. A gateway has three, and an intercepting one some more.
pub(crate) const MAX_UNREACHABLE_UPSTREAMS: usize = 64;

/// Times of refusals that a report has, the last ones: so many within a minute are of a program that tries again and
/// again, and not of telemetry.
pub(crate) const MAX_REFUSAL_TIMES: usize = 10;

// Requests.

/// Levels of sub-agents that a request can name; a deeper one belongs to the last of these. Each level is a run with
/// its own state.
pub(crate) const MAX_CHILD_DEPTH: usize = 8;
/// Unknown fields of requests that are kept of a run, to name them: more are noise.
pub(crate) const MAX_UNKNOWN_FIELDS: usize = 32;
/// The longest head of a request, in bytes: clients send less than 4 KiB, and some proxies add tokens of several KiB.
pub(crate) const HEAD_BYTES: usize = 64 << 10;
/// The longest body of a request, in bytes: twice as much as Anthropic accepts.
pub(crate) const REQUEST_BYTES: usize = 64 << 20;
/// The longest response that is read as a whole, in bytes: as long as a request, because a conversation sends it back.
pub(crate) const ANSWER_BYTES: usize = 64 << 20;
/// The longest event of a stream, in bytes: the last one of some APIs repeats the whole response, with images in it.
pub(crate) const EVENT_BYTES: usize = 16 << 20;
/// The most connections of clients: a hundred agents with a dozen parallel calls have fewer.
pub(crate) const CONNECTIONS: usize = 4_096;
/// The most calls of one run in flight: far more than an agent has, and each holds a part of the run's budget.
pub(crate) const RUN_CALLS: usize = 1_024;
/// The most runs in memory: each takes some kilobytes.
pub(crate) const RUNS: usize = 10_000;
/// The most conversations of a run that it distinguishes: far more than a run has at a time.
pub(crate) const CONVERSATIONS: usize = 256;
/// How long a call waits for the end of a pause: as long as the usual clients wait for a response.
pub(crate) const PAUSE_LIMIT: Duration = Duration::from_mins(10);
/// The longest part of a body that is reserved because a client announced it, in bytes: it must not reserve memory by a length
/// that it does not send.
pub(crate) const RESERVED_BODY_BYTES: usize = 1 << 20;
/// The longest part of a wrong name or value of a request that an error repeats, in characters: people find it by that.
pub(crate) const QUOTED_CHARS: usize = 64;
/// The longest text in a header, in characters: clients have a limit for all headers together, of 8 KiB or more.
pub(crate) const HEADER_TEXT_CHARS: usize = 1_024;
/// The most tokens that an API adds around a message: its role and marks take less than ten.
pub(crate) const TOKENS_AROUND_MESSAGE: u64 = 64;
/// Connections of one client: a quarter of all, so that one client leaves most of them to others. An agent needs one for
/// each of its parallel calls.
pub(crate) const CLIENT_CONNECTIONS: usize = 1_024;
/// Connections to the control API at the same time, on each of its listeners: a few people and their scripts. They are
/// not of those of clients, so that a gateway whose clients use up theirs is still controlled.
pub(crate) const CONTROL_CONNECTIONS: usize = 64;
/// Bytes of the head of a request to the control API: a path and a token.
pub(crate) const CONTROL_HEAD: usize = 16 << 10;
/// Characters of the name of a model in the report of a refused call: no name is longer, and a log stays readable.
pub(crate) const MAX_LOGGED_MODEL: usize = 128;
/// Bytes of a command to the control API: a few short fields.
pub(crate) const MAX_COMMAND: usize = 16 << 10;
/// Bytes of the query of a question to the control API: three short values.
pub(crate) const MAX_QUERY: usize = 1 << 10;
/// Questions about budgets, spend and keys that are answered at the same time. Each takes a thread, and one about years of spend
/// takes a processor for a while.
pub(crate) const OUTSIDE_QUESTIONS: usize = 4;

// Calls.

/// Attempts of one step; the same request begins a new step after that. Clients try a call up to 11 times; one that
/// never gives up is stopped by its step limit.
pub(crate) const MAX_ATTEMPTS: u32 = 12;
/// How long a call waits for others that make no progress. A client that is still processing earlier data reads
/// further data by then.
pub(crate) const MAX_DEADLOCK_WAIT: Duration = Duration::from_secs(10);
/// How often a cancelled run that does not stop is checked again: one that has ended naturally may be named again.
pub(crate) const LIMIT_RECHECK: Duration = Duration::from_secs(1);
/// How often one call is sent again with a lower output cap: each is one more request that the client waits for.
pub(crate) const MAX_CAP_RETRIES: u32 = 3;
/// Smallest output cap that is tried: a smaller one is of no use to an agent.
pub(crate) const MIN_RETRY_CAP: u64 = 16;
/// Bytes of a refusal that are read: error messages of the known providers have less than one tenth of it.
pub(crate) const MAX_REFUSAL: usize = 64 << 10;

/// Bytes of a key, at least, that is replaced in errors: keys are longer, and shorter texts are placeholders such as `none`, whose
/// replacement would only spoil words.
pub(crate) const MIN_SECRET: usize = 8;
/// Bytes of the name of a parameter in a URL that is checked: no name of a key is longer.
pub(crate) const MAX_PARAMETER_NAME: usize = 40;
/// How long the gateway waits for the body of an error that decides nothing, and for the rest of one that has begun. Providers send such bodies
/// immediately, in one or two pieces; one that takes longer counts as an error of unknown shape.
pub(crate) const ERROR_WITHIN: Duration = Duration::from_secs(2);
/// Windows of subscriptions that a run remembers: providers report two to four.
pub(crate) const MAX_QUOTA_WINDOWS: usize = 16;
/// Longest name of such a window, in bytes: `5h`, `7d_opus`.
pub(crate) const MAX_WINDOW_NAME: usize = 32;
/// How far the time of a reset may move and still be the same, in milliseconds: some providers report the seconds until then.
pub(crate) const RESET_JITTER: u64 = 60_000;
/// Models that a cache remembers. A client that invents names must not fill the memory.
pub(crate) const MAX_CACHED_MODELS: usize = 1_024;
/// Longest name of a model that a cache remembers, in bytes: with [`MAX_CACHED_MODELS`], a quarter of a megabyte.
pub(crate) const MAX_CACHED_NAME: usize = 256;
/// Tool calls of one response that are counted: each begins a tool, which takes time and memory.
pub(crate) const MAX_TOOL_CALLS: usize = 1_024;
/// Bytes that one part of a compressed stream may expand to: a few of them fit into memory.
pub(crate) const MAX_DECODED_PART: usize = 64 << 20;
/// The largest window that a response in zstd may ask for: RFC 9659 allows no more for `Content-Encoding: zstd`.
pub(crate) const MAX_ZSTD_WINDOW: u64 = 8 << 20;
/// The largest block of zstd: the format allows no larger one (RFC 8878).
pub(crate) const MAX_ZSTD_BLOCK: usize = 128 << 10;
/// Bytes that brotli works on at a time: one read of a socket.
pub(crate) const BROTLI_BUFFER: usize = 16 << 10;
/// Digits of the size of a chunk that is joined with others: more bytes than are ever read at once.
pub(crate) const MAX_CHUNK_DIGITS: usize = 8;
/// How long a stream has to end in order when its run is aborted; then its connection is closed. It is enough for a
/// client that reads.
pub(crate) const STREAM_END_GRACE: Duration = Duration::from_millis(100);

// Runs.

/// Responses of a run that a request can continue by their id; the oldest is evicted first. Clients continue the last
/// response of each of their conversations, of which a run has few.
pub(crate) const MAX_RESPONSES: usize = 256;
/// Longest response id that is kept, in bytes: ten times the length of providers' ids.
pub(crate) const MAX_RESPONSE_ID: usize = 512;
/// Last messages of a request by which a conversation is recognized after its history was rewritten: more of them
/// would match histories that share only an old part.
pub(crate) const TAIL_MESSAGES: usize = 4;
/// Bytes of events that wait for the next write: streamed text.
pub(crate) const MAX_UNWRITTEN: usize = 64 << 10;
/// The interval in which the gateway looks for runs of a shared log that no call uses now, and for those that others wait for:
/// calls of other gateways are delayed by it.
pub(crate) const REST_INTERVAL: Duration = Duration::from_millis(20);
/// How long a call waits for a store of runs that is away: as long as for one of budgets.
pub(crate) const STORE_PATIENCE: Duration = Duration::from_secs(10);
/// How long no call of a run begins for a gateway that has asked for it and does not ask again: many times [`TAKE_RECHECK`].
pub(crate) const WANTED_FOR: Duration = Duration::from_secs(2);
/// The first and the longest interval in which a call asks again for a run that another gateway has: much shorter than the time
/// after which the log forgets it.
pub(crate) const TAKE_RECHECK: [Duration; 2] =
    [Duration::from_millis(10), Duration::from_millis(100)];
/// How long a command of the control API waits for a run that another gateway has: a person waits for the answer.
pub(crate) const MAX_CONTROL_TAKE: Duration = Duration::from_secs(2);
/// Stored runs that the control API lists besides those in memory: some megabytes.
pub(crate) const MAX_LISTED: usize = 50_000;
/// Runs in memory of one client: a quarter of all, so that one client leaves most of them to others.
pub(crate) const CLIENT_RUNS: usize = 2_500;
/// Stopped runs whose stop is kept, per run in memory: an id and a signal are small compared with a run.
pub(crate) const STOPPED_PER_RUN: usize = 16;

// The gateway.

/// How long calls in flight may continue when the gateway shuts down; then they are aborted. A container runtime
/// usually kills a process ten seconds after it asked it to end.
pub(crate) const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// How long a call continues without its client. Most responses are complete by then, and its hold should not outlast
/// its use for longer.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_mins(1);
/// The longest wait of a client of the control API for a change of a run: clients give up after 30 s.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(20);
/// How often a run is checked for such a client: a person sees no delay.
pub(crate) const WAIT_RECHECK: Duration = Duration::from_millis(100);
/// How long requests to the control API may take to end when the gateway ends: most take milliseconds.
pub(crate) const CONTROL_GRACE: Duration = Duration::from_secs(1);
/// The messages that wait for a webhook; a receiver that is away must not use up memory.
pub(crate) const MAX_WEBHOOK_QUEUE: usize = 256;
/// How often a message is sent until it is taken: with the pauses between them half a minute.
pub(crate) const WEBHOOK_ATTEMPTS: u32 = 6;
/// The first pause between two attempts. Each is twice the one before.
pub(crate) const WEBHOOK_BACKOFF: Duration = Duration::from_secs(1);
/// How long a receiver may take to answer: it only has to take the message down, and others wait behind it.
pub(crate) const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the kill switch is read while calls are in flight: an operator sees no delay.
pub(crate) const KILL_SWITCH_INTERVAL: Duration = Duration::from_millis(200);
/// Bytes of new input from which on the upstream is asked to count them, where a request does not fit by its bytes: for
/// less, the answer changes little.
pub(crate) const MIN_COUNTED_INPUT: u64 = 4_096;
/// How long an upstream may take to count. It takes well below a second; without an answer the bytes decide.
pub(crate) const COUNT_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of the answer of an upstream that counts: it is one number.
pub(crate) const MAX_COUNT_RESPONSE: usize = 64 << 10;
/// Entries of the list of models that their upstream does not count: far more than one gateway sees.
pub(crate) const MAX_UNCOUNTED_MODELS: usize = 1_024;
/// The margin above a count, in percent and in tokens. Anthropic calls its count an estimate that may differ by a small
/// amount; how much, no provider says, so this is an assumption.
pub(crate) const COUNT_MARGIN: (u64, u64) = (5, 512);
/// Bytes of messages that are counted here: more than half a megabyte of text is rare, and a megabyte of one letter takes a
/// quarter of a second. For more, the bytes decide.
pub(crate) const MAX_LOCAL_COUNT: usize = 1 << 20;
/// Counts here at the same time: they take a whole processor.
pub(crate) const LOCAL_COUNTS: usize = 2;
/// Bytes of messages for one token, at most, in a count here: text of long words has more, so a count errs on the safe
/// side.
pub(crate) const LOCAL_BYTES_PER_TOKEN: u64 = 4;
/// The margin above a count by a local tokenizer, in percent and in tokens (`docs/reservations.md`): the count is of the JSON,
/// whose keys and quotes are more than what OpenAI adds to a message, so recorded usage stays below it.
pub(crate) const LOCAL_COUNT_MARGIN: (u64, u64) = (5, 512);
/// Default output cap of calls that have none: more than most responses take, and little compared with a usual limit.
pub(crate) const DEFAULT_OUTPUT: u64 = 32_000;
/// Default time for the head of an upstream's response. Models think for many minutes before a non-streaming
/// response, and none of the usual clients waits longer than an hour. Without a limit, a dead upstream would keep its
/// calls and their reservations forever.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Tools and parts of the instructions that a conversation recognizes: more than providers accept in a request.
/// Further ones are bounded again each time.
pub(crate) const MAX_FIXED_PARTS: usize = 1_024;

// HTTP to upstreams.

/// How long a connection may take to be there, the wait for others who connect and TLS included: what no working
/// network takes, and less than a client waits.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept: shorter than what the usual servers keep theirs for.
pub(crate) const MAX_IDLE_TIME: Duration = Duration::from_secs(50);
/// Idle connections over HTTP/1.1 that are kept for one upstream: a quarter of the descriptors that a process usually
/// may have.
pub(crate) const MAX_IDLE_CONNECTIONS: usize = 256;
/// A peer that is gone without a word is noticed after this and some probes; a model may be silent for long.
pub(crate) const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// Time between those probes: a peer that is gone is noticed within minutes and not after hours, the default of most
/// systems.
pub(crate) const TCP_PROBE: Duration = Duration::from_secs(10);
/// Bytes of the head of an upstream's response over HTTP/1.1; a longer one breaks the exchange. Providers send less
/// than 8 KiB.
pub(crate) const MAX_RESPONSE_HEAD: usize = 256 << 10;
/// The same over HTTP/2: it stays in memory for each of up to hundreds of streams of a connection.
pub(crate) const MAX_H2_HEAD: u32 = 64 << 10;
/// Bytes of the head of a proxy's answer to `CONNECT`, which says little.
pub(crate) const MAX_PROXY_HEAD: usize = 64 << 10;
/// Bytes of a body that are put together: what comes faster than this is large enough as it is.
pub(crate) const MAX_GATHERED: usize = 256 << 10;
/// Shared connections to one upstream. An upstream should take a hundred calls on each at least (RFC 9113), so these
/// are more than there are connections of clients.
pub(crate) const MAX_H2_CONNECTIONS: usize = 64;
/// Unread bytes of one stream; other streams continue.
pub(crate) const H2_STREAM_WINDOW: u32 = 1 << 20;
/// Unread bytes of all streams of a shared connection: enough for sixteen streams that their clients do not read.
pub(crate) const H2_CONNECTION_WINDOW: u32 = 16 << 20;
/// The time without a frame after which a shared connection with calls on it is checked with a ping: a model may
/// think for minutes.
pub(crate) const H2_PING_AFTER: Duration = Duration::from_secs(20);
/// Without an answer in this time it is dead, and its calls fail. The server's HTTP/2 answers, not the model, so a live
/// one takes a round trip; a network that loses its packets for some seconds recovers within this.
pub(crate) const H2_PING_WITHIN: Duration = Duration::from_secs(20);

/// Calls that continue without their clients, in one gateway: each keeps a connection open, and a process usually may
/// not have more. Beyond that a call is closed when its client disconnects.
pub(crate) const MAX_DRAINS: usize = 1_024;
/// Output tokens that tools at the provider leave room for: fewer searches are of more use than a response that is cut
/// off, and most responses of agents are shorter.
pub(crate) const LEAST_OUTPUT_WITH_TOOLS: u64 = 4_096;
/// The keys, budgets and runs whose kill a gateway remembers: far more than people kill before they start it again. Beyond that
/// it forgets the oldest run.
pub(crate) const MAX_KILLED_GROUPS: usize = 1_024;

// The listener.

/// The interval of a timer that is due before the timeouts of heads. The runtime wakes itself with a system call for a
/// timer that is due before all others; without this one, every other request would set such a timer.
pub(crate) const TIMER_BEAT: Duration = Duration::from_secs(25);
/// How long to wait after an error of the listener, which usually is out of file descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
