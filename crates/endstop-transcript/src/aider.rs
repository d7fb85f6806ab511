//! Chat histories of aider, `.aider.chat.history.md`: Markdown, one run for each `# aider chat started at`.
//!
//! - The user's input is in lines that begin with `####`, and aider's own output is quoted (`>`). The rest is the
//!   text of the model. Aider ends both with a line break of Markdown, two spaces: a heading of the model has none.
//! - A quoted line `Tokens: .. sent, .. received` ends a model call. Its counts have two or three digits, and so do the
//!   dollars of `Cost: .. message`: sums are close, not exact. Without a cost the price table computes one.
//! - Words after a user turn that no such line follows are a call whose usage is unknown. Other words are what aider
//!   said in several lines, of which it quotes only the first.
//! - Calls of an editor model are recorded as those of the main model.
//! - The only recorded time is the start of a chat, in the user's own zone.

use endstop_price::UsageShape;
use serde_json::{Value, json};

use super::builder::RunBuilder;
use super::call_charge::{ModelCall, as_anthropic_without_cached, with_cost};
use super::limits::MAX_STEP_BYTES;
use super::lines::JsonLines;
use super::reading::Reading;
use super::step::{Full, ModelResponse};
use super::time::parse_civil;
use super::warning::WarningKind;
use super::{Head, RunSink};

const STARTED: &str = "# aider chat started at ";

/// The end of a line that Markdown does not join with the next.
const BREAK: &str = "  ";

/// Commands of the user that ask the model. Others are for aider itself.
const ASKING: [&str; 4] = ["/ask", "/code", "/architect", "/context"];

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let text = head.bytes();
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    text.starts_with(STARTED.as_bytes())
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let mut lines = reading.lines();
    let mut started = None;
    while started.is_none() {
        let Some(line) = next(&mut lines) else { return };
        started = start_in(&line);
    }
    while let Some(time) = started.take() {
        let mut run = RunBuilder::new(reading, &mut *sink).named(Some(time.as_str()));
        run.note(parse_civil(&time));
        let mut chat = AiderChat {
            run,
            words: String::new(),
            has_breaks: false,
            is_typed: false,
            is_asked: false,
            counts: None,
        };
        while started.is_none() {
            let Some(line) = next(&mut lines) else { break };
            started = start_in(&line);
            if started.is_none() {
                chat.run.at_line(lines.number());
                let added = chat.line(&line);
                chat.run.check(added);
            }
        }
        chat.end();
    }
}

/// The next line that is not blank, as written, without its end of line.
fn next(lines: &mut JsonLines<'_>) -> Option<String> {
    lines.advance().then(|| {
        if !lines.is_whole() {
            lines.warn(WarningKind::Truncated, || {
                "the file ends in the middle of this line".to_owned()
            });
        }
        String::from_utf8_lossy(lines.as_written()).trim_end_matches(['\r', '\n']).to_owned()
    })
}

/// The time in the first line of a chat.
fn start_in(line: &str) -> Option<String> {
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    line.strip_prefix(STARTED).map(|time| time.trim().to_owned())
}

struct AiderChat<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    /// The model's text since its last call ended.
    words: String,
    /// The lines of aider end with line breaks. If an editor removed them, every `####` is the user's.
    has_breaks: bool,
    /// The user typed the line before.
    is_typed: bool,
    /// The user asked something that no call has answered.
    is_asked: bool,
    /// The counts of the call that the line before ended: its cost may still come.
    counts: Option<Value>,
}

impl AiderChat<'_, '_> {
    fn line(&mut self, line: &str) -> Result<(), Full> {
        let has_break = line.ends_with(BREAK);
        let line = line.trim_end();
        self.has_breaks |= has_break && line.starts_with('>');
        let is_typed = line.starts_with("####") && (has_break || !self.has_breaks);
        let was_typed = std::mem::replace(&mut self.is_typed, is_typed);
        let counts = self.counts.take();
        if is_typed {
            self.give_up()?;
            let typed = line.trim_start_matches('#').trim();
            let is_command = typed.starts_with(['/', '!'])
                && !ASKING.contains(&typed.split_whitespace().next().unwrap_or_default());
            if !was_typed && !is_command {
                self.run.user(None);
                self.is_asked = true;
            }
            return Ok(());
        }
        // The second line of what aider said is not quoted.
        let is_cost = counts.is_some() && line.starts_with("Cost: ");
        let Some(quoted) = line.strip_prefix('>').or(is_cost.then_some(line)) else {
            if self.words.len().saturating_add(line.len()) < MAX_STEP_BYTES {
                self.words.push_str(line);
                self.words.push('\n');
            }
            return Ok(());
        };
        let quoted = quoted.trim();
        if let Some(told) = quoted.strip_prefix("Tokens: ") {
            return self.answer(told);
        }
        match (quoted.strip_prefix("Cost: "), counts) {
            (Some(cost), Some(counts)) => {
                let reply = self.priced(&add_cost(counts, cost));
                if let Some(step) = self.run.step() {
                    step.answer(None, reply);
                }
                Ok(())
            }
            _ if quoted.starts_with("Retrying in ") => self.run.step_or_begin(None).fail(None),
            _ => {
                if let Some(model) = model_in(quoted) {
                    self.run.set_model(Some(model.to_owned()));
                }
                Ok(())
            }
        }
    }

    /// A call ended, which used this.
    fn answer(&mut self, told: &str) -> Result<(), Full> {
        let (tokens, cost) = told.split_once("Cost: ").map_or((told, None), |(t, c)| (t, Some(c)));
        let mut counts = counts_in(tokens);
        if let Some(cost) = cost {
            counts = add_cost(counts, cost);
        }
        let reply = self.priced(&counts);
        self.counts = Some(counts);
        self.reply(reply)
    }

    fn reply(&mut self, reply: ModelResponse) -> Result<(), Full> {
        // A step that only failed attempts have opened is that of this call.
        if self.run.step().is_some_and(|step| step.reply().is_some()) {
            self.run.close();
        }
        self.is_asked = false;
        let words = std::mem::take(&mut self.words);
        let step = self.run.step_or_begin(None);
        step.answer(None, reply);
        step.say(None, words.trim())
    }

    /// Text without a recorded end is a call, too.
    fn give_up(&mut self) -> Result<(), Full> {
        if self.words.trim().is_empty() || !self.is_asked {
            self.words.clear();
            return Ok(());
        }
        let reply = ModelResponse::unpriced(self.run.model());
        self.reply(reply)
    }

    fn priced(&self, counts: &Value) -> ModelResponse {
        // A model is named with its provider, and with the router before it: `openrouter/openai/gpt-5`.
        let named = self.run.model().unwrap_or_default();
        let (provider, model) = named.rsplit_once('/').unwrap_or(("", named));
        let provider = provider.rsplit('/').next().filter(|provider| !provider.is_empty());
        let model = Some(model).filter(|model| !model.is_empty());
        let providers = &[provider, None];
        let call = ModelCall::new(UsageShape::Anthropic, counts).of(providers);
        let call = ModelCall { model, ..call };
        self.run.reading.reply(self.run.model(), Some(call), "the line of tokens")
    }

    fn end(mut self) {
        let added = self.give_up();
        self.run.check(added);
        self.run.end();
    }
}

/// The model that aider announces.
fn model_in(quoted: &str) -> Option<&str> {
    let kinds = ["Main model: ", "Models: ", "Model: "];
    let rest = kinds.iter().find_map(|kind| quoted.strip_prefix(kind))?;
    rest.split([' ', ',']).next().filter(|model| !model.is_empty())
}

/// The counts of `2.1k sent, 1.5k cache write, 300 cache hit, 180 received.`, with what was cached apart.
fn counts_in(tokens: &str) -> Value {
    let count = |name: &str| {
        let mut parts = tokens.split(", ").map(|part| part.trim().trim_end_matches('.'));
        parts.find_map(|part| part.strip_suffix(name)).map(|count| number_in(count.trim()))
    };
    let cached = |name: &str| count(name).unwrap_or_else(|| json!(0));
    let number = |name: &str| count(name).unwrap_or(Value::Null);
    // The cached tokens are a part of the sent ones, except in some versions.
    as_anthropic_without_cached([
        number("sent"),
        number("received"),
        cached("cache hit"),
        cached("cache write"),
    ])
}

/// The number in `180`, `1,180`, `2.1k` or `1M`; the text itself if it is none.
fn number_in(text: &str) -> Value {
    let plain = text.replace(',', "");
    let (digits, power) = match plain.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 3),
        None => plain.strip_suffix('M').map_or((plain.as_str(), 0), |digits| (digits, 6)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let zeros = usize::checked_sub(power, fraction.len());
    let number = zeros
        .filter(|_| !whole.is_empty() && is_number(whole) && is_number(fraction))
        .and_then(|zeros| format!("{whole}{fraction}{}", "0".repeat(zeros)).parse::<u64>().ok());
    number.map_or_else(|| json!(text), |number| json!(number))
}

/// Adds the dollars of `$0.0042 message, $0.01 session.`
fn add_cost(counts: Value, told: &str) -> Value {
    let dollars =
        told.trim_start().strip_prefix('$').and_then(|rest| rest.split_whitespace().next());
    with_cost(counts, dollars.and_then(|dollars| serde_json::from_str(dollars).ok()))
}

#[cfg(test)]
mod tests;
