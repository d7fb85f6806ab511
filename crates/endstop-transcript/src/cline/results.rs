//! Results of tools, if a request or the conversation has them.

use serde::Deserialize;
use serde_json::Number;
use serde_json::value::RawValue;

use crate::limits::MAX_HELD_BYTES;
use crate::reading::Reading;
use crate::text::{Text, whole_text};
use crate::time::Time;
use crate::warning::WarningKind;

/// How the line ends that stands before the result of a tool: `[read_file for 'a.rs'] Result:`.
const RESULT: &str = "] Result:";

/// The text after the results in a request: reminders, and the state of the editor, which differs each time.
const AFTER: [&str; 4] =
    ["<environment_details>", "\n# Todo List", "\n# task_progress", "\n# TODO LIST"];

/// The results in the text of a request, in the order of the calls.
pub(super) fn results_in(request: &str) -> Vec<String> {
    let end = AFTER.iter().filter_map(|mark| request.find(mark)).min();
    let request = end.and_then(|end| request.get(..end)).unwrap_or(request);
    let mut results: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in request.split_inclusive('\n') {
        let is_head = line.starts_with('[') && line.contains(RESULT);
        match (is_head, results.last_mut()) {
            (true, _) => {
                let rest = line.split_once(RESULT).map_or("", |(_, rest)| rest);
                results.push(rest.to_owned());
                is_open = true;
            }
            (false, Some(result)) if is_open => result.push_str(line),
            _ => {}
        }
    }
    results.iter().map(|result| result.trim().to_owned()).collect()
}

/// The model that a request names in the state of the editor.
pub(super) fn model_in(request: &str) -> Option<&str> {
    let (_, rest) = request.split_once("<model>")?;
    let (model, _) = rest.split_once("</model>")?;
    Some(model.trim()).filter(|model| !model.is_empty() && !model.contains(['\n', ' ']))
}

/// The conversation: its results, by the times of the user's messages.
#[derive(Debug, Default)]
pub(super) struct History {
    results: Vec<(u64, Vec<String>)>,
    pub(super) model: Option<String>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct ClineHistoryMessage<'a> {
    role: Option<Text<'a>>,
    content: Option<&'a RawValue>,
    ts: Option<Number>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct ClineBlock<'a> {
    #[serde(rename = "type")]
    kind: Option<Text<'a>>,
    text: Option<Text<'a>>,
    content: Option<&'a RawValue>,
}

impl History {
    pub(super) fn of(file: Reading<'_>) -> Self {
        let (mut history, mut held) = (Self::default(), 0usize);
        file.each_item(&["messages"], &mut |item| {
            let Some(message) =
                file.parse::<ClineHistoryMessage<'_>>(item, "not a message of this format")
            else {
                return;
            };
            if message.role.as_deref() != Some("user") {
                return;
            }
            let blocks = message.content.map(RawValue::get).unwrap_or("[]");
            let blocks: Vec<ClineBlock<'_>> = serde_json::from_str(blocks).unwrap_or_default();
            history.model = history.model.take().or_else(|| {
                blocks.iter().find_map(|block| model_in(block.text.as_deref()?)).map(str::to_owned)
            });
            let results = results_of(blocks);
            held = held.saturating_add(results.iter().map(String::len).sum());
            let Some(time) = message.ts.as_ref().and_then(Number::as_u64) else { return };
            if held > MAX_HELD_BYTES {
                return file.warn(WarningKind::TooLarge, || {
                    "the results of the conversation are more than is kept".to_owned()
                });
            }
            history.results.push((time, results));
        });
        history
    }

    /// The results that the request made at this time brought: the message of the user is written when it is made.
    pub(super) fn results_at(&mut self, time: Time) -> Vec<String> {
        let Some(time) = time else { return Vec::new() };
        let place = self.results.iter().position(|(at, _)| *at >= time);
        let found = place.and_then(|place| self.results.get_mut(place));
        found.map(|(_, results)| std::mem::take(results)).unwrap_or_default()
    }
}

/// The results in the blocks of a message: as result blocks, or under a head in the text.
fn results_of(blocks: Vec<ClineBlock<'_>>) -> Vec<String> {
    let is_result = |block: &&ClineBlock<'_>| block.kind.as_deref() == Some("tool_result");
    let own: Vec<String> =
        blocks.iter().filter(is_result).map(|block| whole_text(block.content)).collect();
    if !own.is_empty() {
        return own;
    }
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block.text.as_deref()).collect();
    results_in(&texts.join("\n\n"))
}
