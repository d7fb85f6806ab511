//! Recorded conversations of Claude Code: the requests as they were made, and the usage that the API reported for each.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// Bytes of a token of English and code, about. The length of the text that was not recorded is computed with it.
const BYTES_OF_A_TOKEN: u64 = 4;

/// Where the runs are looked for, from the root of the project.
pub(super) const PLACE: &str = "../shared/recorded/claude-code";

/// A recorded run: its messages, and the calls that were made with the first ones of them.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// Stands for the instructions and tools of the client, which are not recorded: as long as the first report says.
    pub(super) system: String,
    pub(super) messages: Vec<Value>,
    pub(super) calls: Vec<Call>,
}

/// A model call of a conversation.
#[derive(Debug)]
pub(super) struct Call {
    /// How many of the messages it was made with.
    pub(super) messages: usize,
    pub(super) model: String,
    /// Input tokens that were neither read from the cache nor written to it.
    pub(super) plain: u64,
    pub(super) written: u64,
    pub(super) read: u64,
    /// Output tokens: often less than it really was, as Claude Code writes down the beginning of a stream.
    pub(super) output: u64,
}

/// The files, in the order of their names; `None` if there are none.
///
/// # Errors
/// If the directory cannot be read.
pub(super) fn files(root: &Path) -> Result<Option<Vec<PathBuf>>, String> {
    let directory = root.join(PLACE);
    if !directory.is_dir() {
        return Ok(None);
    }
    let entries = fs::read_dir(&directory).map_err(|error| format!("`{PLACE}`: {error}"))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    files.sort();
    Ok(Some(files))
}

/// Reads a session up to its first compaction: what was sent after it is not recorded.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn read(path: &Path) -> Result<Conversation, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut conversation = Conversation::default();
    let mut last_id = None;
    for line in text.lines() {
        let Ok(Value::Object(line)) = serde_json::from_str(line) else { continue };
        if is_true(&line, "isCompactSummary") {
            break;
        }
        let kind = line.get("type").and_then(Value::as_str).unwrap_or_default();
        let Some(Value::Object(message)) = line.get("message") else { continue };
        if is_true(&line, "isSidechain") {
            continue;
        }
        match kind {
            "user" => {
                let content = message.get("content").cloned().unwrap_or_default();
                conversation.add("user", content);
                last_id = None;
            }
            "assistant" => {
                let id = message.get("id").and_then(Value::as_str).map(str::to_owned);
                if id.is_none() || id != last_id {
                    conversation.call(message);
                }
                conversation.larger_usage(message);
                conversation.add("assistant", message.get("content").cloned().unwrap_or_default());
                last_id = id;
            }
            _ => {}
        }
    }
    conversation.system = conversation.unrecorded()?;
    Ok(conversation)
}

impl Call {
    /// All input tokens.
    pub(super) const fn input(&self) -> u64 {
        self.plain.saturating_add(self.written).saturating_add(self.read)
    }
}

impl Conversation {
    /// A text with as many bytes as the first call was longer than its messages.
    fn unrecorded(&self) -> Result<String, String> {
        let Some(first) = self.calls.first() else { return Ok(String::new()) };
        let messages = self.messages.iter().take(first.messages).map(|it| it.to_string().len());
        let recorded = u64::try_from(messages.sum::<usize>()).map_err(|error| error.to_string())?;
        let bytes = first.input().saturating_mul(BYTES_OF_A_TOKEN).saturating_sub(recorded);
        usize::try_from(bytes).map(|bytes| "x".repeat(bytes)).map_err(|error| error.to_string())
    }

    /// Adds content to the last message, or a message of another role.
    fn add(&mut self, role: &str, content: Value) {
        let mut blocks = match content {
            Value::Array(blocks) => blocks,
            Value::String(text) => vec![json!({ "type": "text", "text": text })],
            _ => return,
        };
        let is_called = self.calls.last().map(|call| call.messages) == Some(self.messages.len());
        let last = self.messages.last_mut().filter(|last| last["role"] == role && !is_called);
        match last.and_then(|last| last["content"].as_array_mut()) {
            Some(content) => content.append(&mut blocks),
            None => self.messages.push(json!({ "role": role, "content": blocks })),
        }
    }

    fn call(&mut self, message: &Map<String, Value>) {
        let model = message.get("model").and_then(Value::as_str).unwrap_or_default();
        if self.messages.is_empty() || !model.starts_with("claude") {
            return;
        }
        let [plain, written, read, output] = usage(message);
        let (messages, model) = (self.messages.len(), model.to_owned());
        self.calls.push(Call { messages, model, plain, written, read, output });
    }

    /// The last line of a response has the usage of most of it.
    fn larger_usage(&mut self, message: &Map<String, Value>) {
        if let Some(call) = self.calls.last_mut() {
            call.output = call.output.max(usage(message)[3]);
        }
    }
}

fn usage(message: &Map<String, Value>) -> [u64; 4] {
    let usage = message.get("usage");
    let count = |key: &str| usage.and_then(|usage| usage.get(key)?.as_u64()).unwrap_or(0);
    [
        count("input_tokens"),
        count("cache_creation_input_tokens"),
        count("cache_read_input_tokens"),
        count("output_tokens"),
    ]
}

fn is_true(line: &Map<String, Value>, key: &str) -> bool {
    line.get(key) == Some(&Value::Bool(true))
}
