//! What the scripted model says next.

use serde_json::{Map, Value};

use super::ask::{Ask, Choice, Tool};
use super::schema;
use super::script::Script;
use super::wire;

/// Bytes that count as a token.
const BYTES_PER_TOKEN: usize = 4;
/// Words of a slow answer: ten seconds.
const SLOW_WORDS: usize = 50;
/// Words of a long answer.
const LONG_WORDS: usize = 4_000;
/// Where one of these stands in a tool's name, the tool hands work on.
const DELEGATES: [&str; 3] = ["agent", "delegate", "task"];
/// Where one of these stands in a tool's name, the tool hardly changes anything: a script that makes up arguments
/// should not write files with them if it can read some instead.
const LOOKS: [&str; 10] =
    ["count", "read", "list", "get", "search", "find", "look", "fetch", "glob", "grep"];

/// What the model says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Words to the user.
    Text(String),
    /// A call of a tool, its arguments as JSON.
    Call {
        /// The tool.
        name: String,
        /// The arguments.
        arguments: String,
    },
}

/// One answer.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// What ids are made of: the same for the same request.
    pub(super) id: String,
    pub(super) said: Said,
    /// Whether the output cap ended it.
    pub(super) is_capped: bool,
    pub(super) input_tokens: u64,
    /// Of all choices.
    pub(super) output_tokens: u64,
}

impl Reply {
    /// What a script says to a request.
    pub(super) fn of(script: Script, ask: &Ask, id: String) -> Self {
        let mut said = said(script, ask);
        let mut is_capped = false;
        if let Some(cap) = ask.cap
            && said.tokens() > cap
        {
            said = said.capped(cap);
            is_capped = true;
        }
        let output_tokens = said.tokens().saturating_mul(ask.choices);
        Self { id, said, is_capped, input_tokens: ask.input_tokens, output_tokens }
    }

    /// Words that a slow script waits for.
    pub(super) fn words(&self) -> usize {
        match &self.said {
            Said::Text(text) => wire::words(text).count(),
            Said::Call { .. } => 0,
        }
    }
}

impl Said {
    fn tokens(&self) -> u64 {
        match self {
            Self::Text(text) => tokens(text.len()),
            Self::Call { name, arguments } => tokens(name.len().saturating_add(arguments.len())),
        }
    }

    /// As much as a cap lets through. Half a call would be of no use to anybody: it becomes words.
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
pub(super) fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

fn said(script: Script, ask: &Ask) -> Said {
    let wants_call = match script {
        Script::Loop | Script::Delegate | Script::Fail | Script::Cut | Script::Repeat => true,
        Script::LoopFor(times) => ask.turns < times,
        Script::Answer | Script::Slow | Script::Long => false,
    };
    let step = if script == Script::Repeat { 1 } else { ask.turns.saturating_add(1) };
    let tool = match &ask.choice {
        Choice::None => None,
        Choice::Named(name) => ask.tools.iter().find(|tool| tool.name == *name),
        Choice::Any if !wants_call => final_tool(&ask.tools),
        Choice::Auto if !wants_call => ask.tools.iter().find(|tool| tool.name == "final_answer"),
        Choice::Auto | Choice::Any => tool_of(script, &ask.tools),
    };
    match tool {
        Some(tool) => Said::Call {
            name: tool.name.clone(),
            arguments: arguments(&tool.schema, step).to_string(),
        },
        None => Said::Text(words(script, ask)),
    }
}

/// Arguments are an object, whatever the schema says.
fn arguments(schema: &Value, step: u64) -> Value {
    match schema::example(schema, step) {
        Value::Object(members) => Value::Object(members),
        _ => Value::Object(Map::new()),
    }
}

/// The tool that a script calls: one that delegates if that is the script, else one that only looks, else any; one
/// that ends the run only if there is no other.
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

/// The tool that answers where a call is demanded: one that says so by its name, else the first.
fn final_tool(tools: &[Tool]) -> Option<&Tool> {
    tools.iter().find(|tool| tool.name.starts_with("final")).or_else(|| tools.first())
}

fn words(script: Script, ask: &Ask) -> String {
    if let Some(format) = &ask.format {
        return schema::example(format, ask.turns.saturating_add(1)).to_string();
    }
    match script {
        Script::Slow => numbered(SLOW_WORDS),
        Script::Long => numbered(LONG_WORDS),
        _ => format!("The work is done after {} turns.", ask.turns),
    }
}

/// A text of so many words.
fn numbered(count: usize) -> String {
    let mut text = "This text has many words:".to_owned();
    for number in 1..=count.saturating_sub(5) {
        text.push_str(&format!(" {number}"));
    }
    text
}
