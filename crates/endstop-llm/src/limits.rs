//! Limits of reading. Every text comes from outside, so every count and size is bounded.

/// Elements of one list, and members of one object, that are read. More is an error: long conversations have a few
/// thousand messages.
pub(crate) const MAX_ITEMS: usize = 1 << 16;
/// Levels of parts inside parts (an image in a tool's result). Deeper ones have an unknown size.
pub(crate) const MAX_PART_DEPTH: u8 = 8;
/// Kinds of content and fields without a row that are kept of a request, to name them in one line: more are noise.
pub(crate) const MAX_UNKNOWN_KINDS: usize = 8;
/// Characters that are kept of a name that a request gives to something: the longest name of a tool that the providers
/// take.
pub(crate) const MAX_SHOWN_NAME: usize = 64;
/// Models that may answer in a model's stead. Each of them is priced, so more are refused.
pub(crate) const MAX_FALLBACKS: usize = 64;

/// Bytes that are kept of a response: its text, and the names and arguments of its calls.
pub(crate) const MAX_TEXT: usize = 4 << 20;
/// Tool calls that are kept of a response, and looked for in a request.
pub(crate) const MAX_CALLS: usize = 1_024;
/// Choices of a response: what the APIs allow at most.
pub(crate) const MAX_CHOICES: u64 = 128;
/// Blocks of an Anthropic stream that are open at the same time. The API has one.
pub(crate) const MAX_OPEN_BLOCKS: usize = 64;
/// Output items of a streamed OpenAI response that are distinguished: as many as tool calls are kept, and each is
/// one.
pub(crate) const MAX_OUTPUT_ITEMS: usize = 1_024;
/// Bytes of a usage report. Real ones have a few hundred.
pub(crate) const MAX_USAGE_REPORT: usize = 64 << 10;

/// Runs of a tool at the provider that a request gets if it has no limit and the API has a field for one: few responses
/// search more often, and each run is held with a context window.
pub(crate) const DEFAULT_TOOL_RUNS: u64 = 5;
/// Runs of a tool at the provider that are assumed where the API has no field for a limit: what a request gets where it
/// has one ([`DEFAULT_TOOL_RUNS`]). An assumption that `docs/semantics.md` names.
pub(crate) const ASSUMED_TOOL_RUNS: u64 = 5;
/// Searches of Google that are assumed: they are billed by the query, and no field limits them.
pub(crate) const ASSUMED_SEARCHES: u64 = 10;
/// How often Anthropic asks the model again in one request, whatever tools it has. Then the response ends with
/// `pause_turn` (Anthropic's documentation, "Handling stop reasons": 10 iterations a request).
pub(crate) const MAX_ANTHROPIC_ROUNDS: u64 = 10;

/// Most tokens that an image is counted as, whatever its size: its bytes say nothing about them. Above what the
/// providers charge for their largest images.
pub const IMAGE_TOKENS: u64 = 20_000;
/// Tokens that content of unknown size is counted as, if the context window of the model is smaller or unknown.
pub const FILE_TOKENS: u64 = 200_000;
/// The least budget of thinking that the API takes.
pub(crate) const LEAST_THINKING_TOKENS: u64 = 1_024;
