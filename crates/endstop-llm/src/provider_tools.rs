//! Tools that run at the provider: which kinds there are, and how much input they can add to a call.
//!
//! The provider runs such a tool and asks the model again, inside one request. Each time the model reads the whole
//! conversation and what the tool found, at most as much as fits into its context window. So a call with a tool that may
//! run five times is bounded by its own input and five context windows.

use crate::api::Api;
use crate::limits::{ASSUMED_SEARCHES, ASSUMED_TOOL_RUNS, DEFAULT_TOOL_RUNS, MAX_ANTHROPIC_ROUNDS};

/// A kind of tool that an API knows.
///
/// ```
/// use endstop_llm::{Api, TOOL_KINDS, ToolPlace};
///
/// let search = TOOL_KINDS.iter().find(|kind| kind.api == Api::Messages && kind.matches("web_search_20250305"));
/// assert!(search.is_some_and(|kind| matches!(kind.place, ToolPlace::Provider { .. })));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolKind {
    /// The API.
    pub api: Api,
    /// Its `type`, for Gemini its key, or the member of the request that stands for it. A star at the beginning or
    /// the end stands for anything.
    pub pattern: &'static str,
    /// The place where it runs.
    pub place: ToolPlace,
}

/// The place where a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolPlace {
    /// The client.
    Client,
    /// The provider, within the call.
    Provider {
        /// The input that the model reads after each run.
        reads: ToolReads,
        /// How a request limits its runs.
        cap: RunCap,
        /// Whether each run has the fee of a search.
        has_search_fee: bool,
    },
}

/// The input that the model reads after a tool has run at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolReads {
    /// Nothing that is billed.
    Nothing,
    /// The request and the output so far.
    Request,
    /// Anything, up to its context window.
    Window,
    /// Like `Window`, but another model also reads that much first.
    TwoWindows,
}

/// The field of a request that limits the runs of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunCap {
    /// By `max_uses` of the tool.
    MaxUses,
    /// By `max_tool_calls` of the request, for all tools together.
    MaxToolCalls,
    /// The API has no field for it.
    None,
}

const fn client(api: Api, pattern: &'static str) -> ToolKind {
    ToolKind { api, pattern, place: ToolPlace::Client }
}

const fn provider(api: Api, pattern: &'static str, reads: ToolReads, cap: RunCap) -> ToolKind {
    ToolKind { api, pattern, place: ToolPlace::Provider { reads, cap, has_search_fee: false } }
}

const fn search(api: Api, pattern: &'static str, reads: ToolReads, cap: RunCap) -> ToolKind {
    ToolKind { api, pattern, place: ToolPlace::Provider { reads, cap, has_search_fee: true } }
}

/// The kinds of tools whose cost is bounded. A tool of any other kind is refused by its name where tokens or money are
/// limited.
///
/// Sources: the API references of Anthropic ("Server tools"), OpenAI ("Create a model response") and Google ("Tool"); that
/// Google bills nothing for what its search reads is a note of the page "Gemini Developer API pricing".
pub const TOOL_KINDS: &[ToolKind] = {
    use RunCap::{MaxToolCalls, MaxUses};
    use ToolReads::{Nothing, Request, TwoWindows, Window};
    &[
        client(Api::Chat, "function"),
        client(Api::Chat, "custom"),
        search(Api::Chat, "*search*", Window, RunCap::None),
        search(Api::Chat, "web_search_options", Window, RunCap::None),
        search(Api::Chat, "search_parameters", Window, RunCap::None),
        search(Api::Chat, "plugins", Window, RunCap::None),
        client(Api::Responses, "function"),
        client(Api::Responses, "custom"),
        client(Api::Responses, "namespace"),
        client(Api::Responses, "local_shell"),
        client(Api::Responses, "apply_patch"),
        client(Api::Responses, "computer"),
        client(Api::Responses, "computer_use"),
        client(Api::Responses, "computer_use_preview"),
        search(Api::Responses, "web_search*", Window, MaxToolCalls),
        search(Api::Responses, "file_search*", Window, MaxToolCalls),
        provider(Api::Responses, "mcp", Window, MaxToolCalls),
        provider(Api::Responses, "tool_search*", Request, MaxToolCalls),
        client(Api::Messages, "custom"),
        client(Api::Messages, "bash_*"),
        client(Api::Messages, "text_editor_*"),
        client(Api::Messages, "computer_*"),
        client(Api::Messages, "memory_*"),
        search(Api::Messages, "web_search_*", Window, MaxUses),
        provider(Api::Messages, "web_fetch_*", Window, MaxUses),
        provider(Api::Messages, "advisor_*", TwoWindows, MaxUses),
        provider(Api::Messages, "tool_search_*", Request, RunCap::None),
        provider(Api::Messages, "mcp_toolset", Window, RunCap::None),
        provider(Api::Messages, "mcp_servers", Window, RunCap::None),
        provider(Api::Messages, "connector_*", Window, RunCap::None),
        client(Api::Gemini, "functionDeclarations"),
        client(Api::Gemini, "function_declarations"),
        client(Api::Gemini, "computerUse"),
        client(Api::Gemini, "computer_use"),
        search(Api::Gemini, "googleSearch", Nothing, RunCap::None),
        search(Api::Gemini, "google_search", Nothing, RunCap::None),
        search(Api::Gemini, "googleSearchRetrieval", Nothing, RunCap::None),
        search(Api::Gemini, "google_search_retrieval", Nothing, RunCap::None),
        provider(Api::Gemini, "urlContext", Window, RunCap::None),
        provider(Api::Gemini, "url_context", Window, RunCap::None),
        provider(Api::Gemini, "codeExecution", Window, RunCap::None),
        provider(Api::Gemini, "code_execution", Window, RunCap::None),
    ]
};

impl ToolKind {
    /// Returns whether a tool that a request names so is of this kind.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        matches(self.pattern, name)
    }

    /// Returns the pattern without its stars and what joins a version to it: a name for `allow_unmetered`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.pattern.trim_matches('*')
    }

    /// The kind of a tool that a request of an API names so.
    fn of(api: Api, name: &str) -> Option<&'static Self> {
        TOOL_KINDS.iter().find(|kind| kind.api == api && kind.matches(name))
    }
}

/// Whether a name is one that a pattern stands for: a star at its beginning or end stands for anything.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let inner = pattern.trim_matches('*');
    match (pattern.starts_with('*'), pattern.ends_with('*')) {
        (true, true) => name.contains(inner),
        (true, false) => name.ends_with(inner),
        (false, true) => name.starts_with(inner),
        (false, false) => name == inner,
    }
}

/// Whether the client runs a tool that a request names so.
pub(crate) fn is_of_client(api: Api, name: &str) -> bool {
    ToolKind::of(api, name).is_some_and(|kind| kind.place == ToolPlace::Client)
}

/// Whether a tool that a request names so has its own limit.
pub(crate) fn has_max_uses(api: Api, name: &str) -> bool {
    let place = ToolKind::of(api, name).map(|kind| kind.place);
    matches!(place, Some(ToolPlace::Provider { cap: RunCap::MaxUses, .. }))
}

/// A tool of a request that runs at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OfferedTool {
    kind: &'static ToolKind,
    /// Its own `max_uses`.
    max_uses: Option<u64>,
}

/// The tools of a request that run at the provider, and how often they may.
///
/// ```
/// use endstop_llm::{Api, CallSize};
///
/// let body = br#"{ "model": "claude-sonnet-4-5", "max_tokens": 500, "messages": [],
///     "tools": [{ "type": "web_search_20250305", "name": "web_search", "max_uses": 8 }] }"#;
/// let request = Api::Messages.dialect().read("/v1/messages", body)?;
/// let tools = request.provider_tools;
/// assert_eq!((tools.wanted_runs(), tools.searches(3)), (8, 3));
/// // After each search the model reads at most one context window.
/// let size = CallSize { input: 2_000, output: 500, window: 200_000 };
/// assert_eq!(tools.added_input(3, size), 600_000);
/// # Ok::<(), endstop_llm::ReadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderTools {
    tools: Vec<OfferedTool>,
    /// `max_tool_calls` of the request.
    max_tool_calls: Option<u64>,
    /// Most searches that are billed, whatever runs.
    most_searches: Option<u64>,
    /// Whether the request makes sense without them.
    pub(crate) are_removable: bool,
}

/// The largest size of a call in tokens, without what its tools read at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSize {
    /// Most input tokens.
    pub input: u64,
    /// Most output tokens.
    pub output: u64,
    /// The context window of the model.
    pub window: u64,
}

/// The change to the provider's tools in a request before it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolLimit {
    /// The tools stay as they are.
    #[default]
    AsSent,
    /// The most runs, of each tool or of all together, as the API counts them; fewer if the request allows fewer.
    Runs(u64),
    /// The tools are removed.
    Remove,
}

impl ProviderTools {
    /// Notes a tool of a request, with its `max_uses`. Returns its name if its kind is not known.
    pub(crate) fn offer<'n>(
        &mut self,
        api: Api,
        name: &'n str,
        max_uses: Option<u64>,
    ) -> Option<&'n str> {
        match ToolKind::of(api, name) {
            None => Some(name),
            Some(ToolKind { place: ToolPlace::Client, .. }) => None,
            Some(kind) => {
                self.tools.push(OfferedTool { kind, max_uses });
                None
            }
        }
    }

    /// With the request's own limit of the runs of all tools together.
    pub(crate) const fn limit_together(&mut self, max_tool_calls: Option<u64>) {
        self.max_tool_calls = max_tool_calls;
    }

    /// With at most this many billed searches.
    pub(crate) const fn limit_searches(&mut self, most: u64) {
        self.most_searches = Some(most);
    }

    /// Returns whether no tool runs at the provider.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the tools without those whose name is admitted without a bound.
    #[must_use]
    pub fn without(&self, is_admitted: impl Fn(&str) -> bool) -> Self {
        let mut bounded = self.clone();
        bounded.tools.retain(|tool| !is_admitted(tool.kind.name().trim_end_matches('_')));
        bounded
    }

    /// Returns the name of the first that adds input, for a refusal and `allow_unmetered`.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        let adds = |tool: &&OfferedTool| tool.reads() > ToolReads::Nothing;
        self.tools.iter().find(adds).map(|tool| tool.kind.name().trim_end_matches('_'))
    }

    /// Returns whether the request makes sense without them: it has other tools, and does not demand one of these.
    #[must_use]
    pub const fn are_removable(&self) -> bool {
        self.are_removable
    }

    /// Returns whether the API has a field that limits how often one of them runs.
    #[must_use]
    pub fn can_be_limited(&self) -> bool {
        self.tools.iter().any(|tool| tool.cap() != RunCap::None)
    }

    /// Returns how often they may run by the request, each or all together; 5 without a limit.
    #[must_use]
    pub fn wanted_runs(&self) -> u64 {
        let of_each = self.tools.iter().filter(|tool| tool.cap() == RunCap::MaxUses);
        let of_each = of_each.map(|tool| tool.max_uses.unwrap_or(DEFAULT_TOOL_RUNS));
        let has_together = self.tools.iter().any(|tool| tool.cap() == RunCap::MaxToolCalls);
        let together = has_together.then(|| self.max_tool_calls.unwrap_or(DEFAULT_TOOL_RUNS));
        of_each.chain(together).max().unwrap_or(DEFAULT_TOOL_RUNS)
    }

    /// Returns the most searches that are billed, if the tools may run so often.
    #[must_use]
    pub fn searches(&self, runs: u64) -> u64 {
        let all = self.count(runs, OfferedTool::searches);
        self.most_searches.map_or(all, |most| all.min(most))
    }

    /// Returns the most input tokens that they add to a call, if they may run so often.
    #[must_use]
    pub fn added_input(&self, runs: u64, size: CallSize) -> u64 {
        let CallSize { input, output, window } = size;
        let Some(reads) = self.tools.iter().map(OfferedTool::reads).max() else { return 0 };
        let a_round = match reads {
            ToolReads::Nothing => return 0,
            ToolReads::Request => window.min(input.saturating_add(output)),
            ToolReads::Window | ToolReads::TwoWindows => window,
        };
        let rounds = self.count(runs, |tool, runs| match tool.reads() {
            ToolReads::Nothing => 0,
            ToolReads::Request | ToolReads::Window => runs,
            ToolReads::TwoWindows => runs.saturating_mul(2),
        });
        // Anthropic counts the rounds of all its tools; an advisor reads once more in each.
        let is_anthropic = self.tools.iter().any(|tool| tool.kind.api == Api::Messages);
        let readers = if reads == ToolReads::TwoWindows { 2 } else { 1 };
        let most = if is_anthropic { MAX_ANTHROPIC_ROUNDS * readers } else { u64::MAX };
        rounds.min(most).saturating_mul(a_round)
    }

    /// The sum of something over the runs of each tool; of the largest, where the runs are limited together.
    fn count(&self, runs: u64, of: impl Fn(&OfferedTool, u64) -> u64) -> u64 {
        let (mut sum, mut together) = (0u64, 0u64);
        for tool in &self.tools {
            match tool.cap() {
                RunCap::MaxUses => {
                    let own = tool.max_uses.unwrap_or(u64::MAX);
                    sum = sum.saturating_add(of(tool, own.min(runs)));
                }
                RunCap::MaxToolCalls => {
                    let own = self.max_tool_calls.unwrap_or(u64::MAX);
                    together = together.max(of(tool, own.min(runs)));
                }
                RunCap::None => sum = sum.saturating_add(of(tool, tool.assumed_runs())),
            }
        }
        sum.saturating_add(together)
    }
}

impl OfferedTool {
    const fn reads(&self) -> ToolReads {
        match self.kind.place {
            ToolPlace::Provider { reads, .. } => reads,
            ToolPlace::Client => ToolReads::Nothing,
        }
    }

    const fn cap(&self) -> RunCap {
        match self.kind.place {
            ToolPlace::Provider { cap, .. } => cap,
            ToolPlace::Client => RunCap::None,
        }
    }

    /// The most runs of the tool if no field limits it.
    const fn assumed_runs(&self) -> u64 {
        match (self.kind.api, self.reads()) {
            (Api::Messages, _) => MAX_ANTHROPIC_ROUNDS,
            (_, ToolReads::Nothing) => ASSUMED_SEARCHES,
            _ => ASSUMED_TOOL_RUNS,
        }
    }

    const fn searches(&self, runs: u64) -> u64 {
        match self.kind.place {
            ToolPlace::Provider { has_search_fee: true, .. } => runs,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
