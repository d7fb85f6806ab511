//! Model requests: as they are read, and how they are changed.

use endstop_price::CallContext;

use crate::json::Object;
use crate::limits::MAX_CALLS;
use crate::output_kinds::OutputKinds;
use crate::provider_tools::{ProviderTools, ToolLimit};

/// A parsed model request.
///
/// ```
/// use endstop_llm::Api;
///
/// let body = br#"{ "model": "claude-sonnet-4-5", "max_tokens": 500, "stream": true,
///     "messages": [{ "role": "user", "content": "What is in a.txt?" }],
///     "tools": [{ "name": "read_file", "input_schema": { "type": "object" } }] }"#;
/// let request = Api::Messages.dialect().read("/v1/messages", body)?;
/// assert_eq!((request.output_cap, request.is_stream), (Some(500), true));
/// assert_eq!(request.tools, ["read_file"]);
/// assert!(request.has_user_message && request.messages[0].bound > 0);
/// # Ok::<(), endstop_llm::ReadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallRequest {
    /// The model; empty if none is named.
    pub model: String,
    /// Other models that may answer instead.
    pub fallbacks: Vec<String>,
    /// Whether the response should be a stream of events.
    pub is_stream: bool,
    /// Whether the response should be a JSON list of the events: Gemini's stream without `alt=sse`. Not with
    /// [`is_stream`](Self::is_stream).
    pub is_list: bool,
    /// Whether the client asks for usage in the stream, or gets it anyway.
    pub wants_usage: bool,
    /// The client's output cap.
    pub output_cap: Option<u64>,
    /// The number of responses requested at once (`n`, `candidateCount`); at least 1.
    pub choices: u64,
    /// The shape of response that the client demands.
    pub contract: OutputContract,
    /// The response is made after the request is answered (`background` of responses): another request reports its
    /// usage.
    pub is_background: bool,
    /// Tools that run at the provider: what they read is input too, and is in no request.
    pub provider_tools: ProviderTools,
    /// How often the provider may read the input once more, each time with a separate output: to summarize the
    /// conversation first, or with other models after a refusal.
    pub more_reads: u64,
    /// Features in the request with an unbounded cost, as the request names them: tools of the provider with a fee
    /// that no price list has, unknown kinds of content, and values of fields that change the price in an unknown
    /// way.
    pub unbounded: Vec<String>,
    /// Fields of it that Endstop does not know. Whether they change the price is not known either.
    pub unknown_fields: Vec<String>,
    /// Something in it may be written to a cache for an hour, which costs more.
    pub may_write_1h: bool,
    /// The tier and speed that are parsed for, as they change the price.
    pub context: CallContext,
    /// Names of the tools that are offered.
    pub tools: Vec<String>,
    /// The request continues a thread that the upstream keeps (Anthropic message threads, `previous_response_id`).
    pub thread: Thread,
    /// The id of the response that the request continues, if it names one (`previous_response_id`).
    pub continues: Option<String>,
    /// The conversation, message by message.
    pub messages: Vec<MessageMark>,
    /// The parts outside the messages: each tool, each part of the instructions, and each other member.
    pub fixed: Vec<MessageMark>,
    /// The kinds of output other than text.
    pub outputs: OutputKinds,
    /// Results of tools after the last message of the model, in order.
    pub results: Vec<ToolResult>,
    /// Whether the user said something after the last message of the model.
    pub has_user_message: bool,
    /// The positions of its members that may have to be changed; `None` if they were not determined.
    pub(crate) root: Option<Object<'static>>,
}

impl CallRequest {
    /// Notes something whose cost nothing bounds.
    pub(crate) fn note_unbounded(&mut self, what: String) {
        if self.unbounded.len() < MAX_CALLS {
            self.unbounded.push(what);
        }
    }

    /// Returns the most tokens that instructions, tools and everything else outside the messages can be.
    #[must_use]
    pub fn fixed_bound(&self) -> u64 {
        self.fixed.iter().fold(0, |sum, mark| sum.saturating_add(mark.bound))
    }

    /// Returns whether anything in it is not text.
    #[must_use]
    pub fn has_media(&self) -> bool {
        self.fixed.iter().chain(&self.messages).any(|mark| mark.has_media)
    }

    /// Returns the input that the provider adds if it may read input of this bound more than once.
    #[must_use]
    pub const fn added_by_more_reads(&self, bound: u64) -> u64 {
        bound.saturating_mul(self.more_reads)
    }
}

/// The mark of one message, or of another part: enough to recognize it, and how long it can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageMark {
    /// Digest of role and content, without marks for caches, which move.
    pub digest: u64,
    /// Most tokens that it can be: its bytes, except for images, which cost what they cost.
    pub bound: u64,
    /// Whether the user wrote it.
    pub is_user: bool,
    /// It refers to something, or has a file or a recording whose bytes do not show its number of tokens: the bound is
    /// a guess.
    pub is_open: bool,
    /// It is not text alone.
    pub has_media: bool,
    /// Most tokens of the images that it only refers to: there may be another image at the address the next time.
    pub elsewhere: u64,
    /// It stands for earlier output of the model that the upstream keeps, such as reasoning by its id.
    pub names_output: bool,
}

/// The shape of response that the client demands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OutputContract {
    /// Text will do.
    #[default]
    Text,
    /// A tool call, and a tool named `final_answer` is offered: a call of it ends the loop. With the name of its
    /// argument that takes the text.
    FinalAnswer {
        /// The argument.
        argument: String,
    },
    /// A tool call or JSON of some schema: text would break the contract.
    Structure,
}

/// Whether a request depends on a conversation that the upstream keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thread {
    /// The whole history is in the request.
    #[default]
    Whole,
    /// It has only what is new. The size of the rest is not known.
    Continues,
    /// Like `Continues`, and the client resends everything on request (Anthropic message threads).
    CanResend,
}

/// The result of one tool call, as the model will see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id; empty if the API has none.
    pub id: String,
    /// The tool, if the request names it: in the model's message before, or with the result.
    pub tool: String,
    /// The arguments as the model gave them, if the request has them.
    pub arguments: String,
    /// The text of the result.
    pub content: String,
    /// Whether the client marked it as failed.
    pub failed: bool,
}

/// A request that asks how many tokens the input of a call has. It costs nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountRequest {
    /// The path with its query, below that of the upstream.
    pub path: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Changes to a request before it is sent.
///
/// ```
/// use endstop_llm::{Api, Edits};
///
/// let chat = Api::Chat.dialect();
/// let body = br#"{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}],"max_tokens":9000}"#;
/// let request = chat.read("/v1/chat/completions", body)?;
/// let edits = Edits { output_cap: Some(500), request: Some(&request), ..Edits::default() };
/// let changed = chat.edit(body, &edits)?;
/// assert_eq!(chat.read("/v1/chat/completions", &changed)?.output_cap, Some(500));
/// # Ok::<(), endstop_llm::ReadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Edits<'e> {
    /// The output cap, of each choice.
    pub output_cap: Option<u64>,
    /// A missing output cap goes into the other field than the model's name suggests, for APIs that have two.
    pub other_cap_field: bool,
    /// Ask for usage in the stream.
    pub force_usage: bool,
    /// The wrap-up: no tools, and this note.
    pub finish: Option<&'e str>,
    /// The way in which the wrap-up disables tools.
    pub tools_off: ToolsOff,
    /// The limit on tools that run at the provider.
    pub provider_tools: ToolLimit,
    /// A note to the model, of a warning.
    pub note: Option<&'e str>,
    /// The same request as it was read, so that it is not parsed again. `None` if it was not read.
    pub request: Option<&'e CallRequest>,
}

impl Edits<'_> {
    /// Returns whether they change nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.output_cap.is_none()
            && !self.force_usage
            && self.finish.is_none()
            && self.provider_tools == ToolLimit::AsSent
            && self.note.is_none()
    }
}

/// The way in which a wrap-up keeps the model from calling tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolsOff {
    /// By the choice of none of them.
    #[default]
    Forbid,
    /// The tools are removed from the request, for servers that accept no such choice.
    Remove,
    /// By the note alone: for servers that take no such choice where the conversation needs its tools.
    Ask,
}
