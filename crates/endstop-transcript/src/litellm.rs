//! Spend logs of the LiteLLM proxy (rows of `LiteLLM_SpendLogs`): a list, `{"data": [...]}` as its API
//! answers, or a row on each line.
//!
//! - Rows of one `session_id` are a run, in the order of their starts. A row without one is a run of its
//!   own: a user or a key is not a run, and a month of them is none.
//! - `spend` is what was billed. LiteLLM writes 0 also where it knows no price; where tokens were used and
//!   its cache did not answer, 0 is unknown, and the price table computes it.
//! - A row with the status `failure` is a failed attempt; the next one answers the same step.
//! - Messages are logged only if that is switched on. Where they are, they tell user turns, tool calls and
//!   results. Rows of MCP tools are the tool calls of the step before them.
//! - Embeddings, images and the like are no steps; what they cost makes the run's cost a lower bound.

mod row;

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

use super::act::Full;
use super::conversation::{Conversation, Ended};
use super::document::{Element, Wanted, each_element};
use super::groups::{Ends, MAX_HELD_BYTES, Open};
use super::head::{Keys, ends_of};
use super::lines::JsonLines;
use super::part::Part;
use super::player::Player;
use super::warning::{WarningKind, Warnings};
use super::writer::Closing;
use super::{Format, Head, RunHeader, RunSink, Source, Supplies};
use row::{Kind, Row};

/// What every row has.
const KEYS: [&str; 3] = ["request_id", "spend", "startTime"];

/// The format.
pub(super) struct LiteLlm;

impl Format for LiteLlm {
    fn id(&self) -> &'static str {
        "litellm"
    }

    fn describe(&self) -> &'static str {
        "LiteLLM spend logs: rows as a list, as {\"data\": [...]}, or one on each line"
    }

    fn kept(&self) -> &'static str {
        "the proxy's database; export it from `/spend/logs`"
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let mut keys = head.document().into_iter().chain(head.lines());
        let is_page = head.document().is_some_and(|keys| !keys.in_list && keys.have(&["data"]));
        let is_quoted = |key: &&str| head.mentions(&format!("\"{key}\""));
        keys.any(|keys| keys.have(&KEYS)) || (is_page && KEYS.iter().all(is_quoted))
    }

    fn supplies(&self) -> Supplies {
        Supplies { tokens: true, money: true, time: true, retries: true, ..Supplies::default() }
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        let part = source.main;
        let is_lines = is_lines(part);
        let mut ends = Ends::default();
        // The second pass gives the warnings.
        each_row(part, is_lines, &mut Warnings::default(), &mut |row, _| {
            if let Some(run) = run_of(row) {
                ends.note(&run);
            }
        });
        let mut open = Open::new(MAX_HELD_BYTES);
        each_row(part, is_lines, &mut warnings, &mut |raw, warnings| {
            // A line of another kind; what has no name cannot be grouped.
            let Some(run) = run_of(raw) else { return };
            match Row::read(raw) {
                Ok(row) => {
                    if !open.add(&run, row, raw.get().len()) {
                        let message = || {
                            "the sessions that are open at once hold more than is kept".to_owned()
                        };
                        warnings.add(WarningKind::TooLarge, part.name(), None, message);
                    }
                }
                Err(error) => {
                    let message = || format!("not a row of spend logs: {error}");
                    warnings.add(WarningKind::Malformed, part.name(), None, message);
                }
            }
            if ends.is_last(&run) {
                play(&run, open.close(&run), source, sink, warnings);
            }
        });
        warnings.send(sink);
    }
}

#[derive(Deserialize)]
struct Name<'a> {
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    litellm_call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    request_id: Option<Cow<'a, str>>,
}

/// The run that a row belongs to.
fn run_of(row: &RawValue) -> Option<Cow<'_, str>> {
    let name: Name<'_> = serde_json::from_str(row.get()).ok()?;
    let names = [name.session_id, name.litellm_call_id, name.request_id];
    names.into_iter().flatten().find(|name| !name.is_empty())
}

fn play(
    run: &str,
    mut rows: Vec<Row>,
    source: &Source<'_>,
    sink: &mut dyn RunSink,
    warnings: &mut Warnings,
) {
    // The sort is stable: what began together stays in the order of the file.
    rows.sort_by_key(|row| row.start);
    let mut conversation = Conversation::default();
    let mut is_lower_bound = false;
    for row in &rows {
        let added = match &row.kind {
            Kind::Model(model) => {
                conversation.ask(&model.told, row.start);
                if row.failed {
                    conversation.fail(row.end);
                    Ok(())
                } else {
                    let reply = row::reply(row, model, source, warnings);
                    conversation.answer(row.end, reply, &model.said)
                }
            }
            Kind::Tool(asked, result) => {
                let ended = Ended { time: row.end, result: result.clone(), failed: row.failed };
                conversation.tool(asked, row.start, ended);
                Ok(())
            }
            Kind::Other { has_cost } => {
                is_lower_bound |= has_cost;
                Ok(())
            }
        };
        note(added, source.main, warnings);
    }
    note(conversation.close(), source.main, warnings);
    if is_lower_bound {
        let message = || {
            "what embeddings and other calls cost is not counted; cost is a lower bound".to_owned()
        };
        warnings.add(WarningKind::LowerBound, source.main.name(), None, message);
    }
    let header = RunHeader { id: run, format: LiteLlm.id(), file: source.main.name(), model: None };
    let mut player = Player::new(sink, header);
    for act in conversation.into_acts() {
        player.act(act);
    }
    player.end(Closing { has_money: true, is_lower_bound, outcome: None });
}

fn note(added: Result<(), Full>, part: &Part, warnings: &mut Warnings) {
    if added.is_err() {
        let message = || "a step holds more than is kept; the rest of it is dropped".to_owned();
        warnings.add(WarningKind::TooLarge, part.name(), None, message);
    }
}

fn each_row(
    part: &Part,
    is_lines: bool,
    warnings: &mut Warnings,
    take: &mut dyn FnMut(&RawValue, &mut Warnings),
) {
    if !is_lines {
        let wanted = Wanted { list: &["data"], beside: &[] };
        return each_element(part, wanted, warnings, &mut |element, warnings| {
            if let Element::Item(row) = element {
                take(row, warnings);
            }
        });
    }
    let mut lines = JsonLines::open(part, warnings);
    while lines.advance(warnings) {
        if let Some(row) = lines.parse::<&RawValue>(warnings) {
            take(row, warnings);
        }
    }
}

/// Whether there is a row on each line: the document is neither a list nor a page of rows.
fn is_lines(part: &Part) -> bool {
    // A file that cannot be opened is told of when it is read.
    let (head, _) = ends_of(part).unwrap_or_default();
    let keys = Head::new(&head, b"");
    let is_row = |keys: &Keys| keys.have(&["request_id"]) || !keys.have(&["data"]);
    // Nothing at all is a document that was cut.
    !head.trim_ascii().is_empty()
        && keys.document().is_some_and(|keys| !keys.in_list && is_row(keys))
}
