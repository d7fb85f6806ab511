//! The next response of the scripted model.

use serde_json::{Map, Value};

use crate::request::{SimRequest, Tool, ToolChoice};
use crate::schema;
use crate::script::Script;
use crate::wire;

/// Bytes that count as a token.
const BYTES_PER_TOKEN: usize = 4;
/// Words of a slow answer: ten seconds.
const SLOW_WORDS: usize = 50;
/// Words of a long answer.
const LONG_WORDS: usize = 4_000;
/// If a tool's name contains one of these, the tool hands work on.
const DELEGATES: [&str; 3] = ["agent", "delegate", "task"];
/// If a tool's name contains one of these, the tool hardly changes anything: a script that makes up arguments should
/// not write files with them if it can read some instead.
const LOOKS: [&str; 10] =
    ["count", "read", "list", "get", "search", "find", "look", "fetch", "glob", "grep"];

/// The content of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Words to the user.
    Text(String),
    /// A call of a tool, its arguments as JSON.
    Call {
        /// The tool.
        name: String,
        /// The group of the tool.
        namespace: Option<String>,
        /// The arguments.
        arguments: String,
    },
}

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct PlannedResponse {
    /// The basis of ids: the same for the same request.
    pub(crate) id: String,
    pub(crate) content: Content,
    /// Whether the output cap ended it.
    pub(crate) is_capped: bool,
    pub(crate) input_tokens: u64,
    /// Of all choices.
    pub(crate) output_tokens: u64,
}

impl PlannedResponse {
    /// A script's response to a request.
    pub(crate) fn of(script: Script, request: &SimRequest, id: String) -> Self {
        let mut content = content(script, request);
        let mut is_capped = false;
        if let Some(cap) = request.cap
            && content.tokens() > cap
        {
            content = content.capped(cap);
            is_capped = true;
        }
        let output_tokens = content.tokens().saturating_mul(request.choices);
        Self { id, content, is_capped, input_tokens: request.input_tokens, output_tokens }
    }

    /// Words that a slow script waits for.
    pub(crate) fn words(&self) -> usize {
        match &self.content {
            Content::Text(text) => wire::words(text).count(),
            Content::Call { .. } => 0,
        }
    }
}

impl Content {
    fn tokens(&self) -> u64 {
        match self {
            Self::Text(text) => tokens(text.len()),
            Self::Call { name, arguments, .. } => {
                tokens(name.len().saturating_add(arguments.len()))
            }
        }
    }

    /// As much as a cap admits. Half a call would be useless: it becomes text.
    fn capped(self, cap: u64) -> Self {
        let mut text = match self {
            Self::Text(text) => text,
            Self::Call { name, .. } => format!("I call the tool {name} next."),
        };
        let bytes = usize::try_from(cap).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
        text.truncate(text.floor_char_boundary(bytes));
        Self::Text(text)
    }
}

/// Tokens of that many bytes.
pub(crate) fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

fn content(script: Script, request: &SimRequest) -> Content {
    let wants_call = match script {
        Script::Loop | Script::Delegate | Script::Fail | Script::Cut | Script::Repeat => true,
        Script::LoopFor(times) => request.turns < times,
        Script::Answer | Script::Slow | Script::Long => false,
    };
    let step = if script == Script::Repeat { 1 } else { request.turns.saturating_add(1) };
    let tool = match &request.choice {
        ToolChoice::None => None,
        ToolChoice::Named(name) => request.tools.iter().find(|tool| tool.name == *name),
        ToolChoice::Any if !wants_call => final_tool(&request.tools),
        ToolChoice::Auto if !wants_call => {
            request.tools.iter().find(|tool| tool.name == "final_answer")
        }
        ToolChoice::Auto | ToolChoice::Any => tool_of(script, &request.tools),
    };
    match tool {
        Some(tool) => Content::Call {
            name: tool.name.clone(),
            namespace: tool.namespace.clone(),
            arguments: arguments(&tool.schema, step).to_string(),
        },
        None => Content::Text(words(script, request)),
    }
}

/// Arguments are an object, whatever the schema says.
fn arguments(schema: &Value, step: u64) -> Value {
    match schema::example(schema, step) {
        Value::Object(members) => Value::Object(members),
        _ => Value::Object(Map::new()),
    }
}

/// The tool that a script calls. The first choice is one that delegates if that is the script, then one that only
/// reads, then any; one that ends the run only if there is no other.
fn tool_of(script: Script, tools: &[Tool]) -> Option<&Tool> {
    tools.iter().min_by_key(|tool| {
        let name = tool.name.to_ascii_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        if script == Script::Delegate && has(&DELEGATES) {
            0
        } else if name.starts_with("final") {
            4
        } else if has(&DELEGATES) {
            3
        } else if has(&LOOKS) {
            1
        } else {
            2
        }
    })
}

/// The tool that answers if a call is demanded: one with such a name, or the first.
fn final_tool(tools: &[Tool]) -> Option<&Tool> {
    tools.iter().find(|tool| tool.name.starts_with("final")).or_else(|| tools.first())
}

fn words(script: Script, request: &SimRequest) -> String {
    if let Some(format) = &request.format {
        return schema::example(format, request.turns.saturating_add(1)).to_string();
    }
    match script {
        Script::Slow => numbered(SLOW_WORDS),
        Script::Long => numbered(LONG_WORDS),
        _ => format!("The work is done after {} turns.", request.turns),
    }
}

/// A text of `count` words.
fn numbered(count: usize) -> String {
    let mut text = "This text has many words:".to_owned();
    for number in 1..=count.saturating_sub(5) {
        text.push_str(&format!(" {number}"));
    }
    text
}
