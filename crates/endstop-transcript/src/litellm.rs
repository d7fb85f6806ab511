//! Spend logs of the LiteLLM proxy (rows of `LiteLLM_SpendLogs`): a list, `{"data": [...]}` as its API
//! answers, or a row on each line.
//!
//! - Rows of one `session_id` are a run, in the order of their starts. A row without one is a separate run: a user or
//!   a key is not a run, and neither is a month of them.
//! - `spend` is the billed amount. LiteLLM also writes 0 if it knows no price; if tokens were used and its cache did
//!   not answer, 0 is unknown, and the price table computes it.
//! - A row with the status `failure` is a failed attempt; the next one answers the same step.
//! - Messages are logged only if that is switched on. They then show user turns, tool calls and results. Rows of MCP
//!   tools are the tool calls of the step before them.
//! - Embeddings, images and similar calls are not steps; their cost makes the run's cost a lower bound.
//!
//! More than 250 lines because rows are of all kinds of requests, are put together to runs, and may have messages in
//! every API.

mod row;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::row::{RowKind, SpendRow};
use super::builder::RunBuilder;
use super::groups::Grouped;
use super::head::{Keys, first_keys};
use super::part::Part;
use super::reading::Reading;
use super::step::ToolAnswer;
use super::text::Text;
use super::warning::WarningKind;
use super::{Head, RunSink};

/// The keys of every row.
const KEYS: [&str; 3] = ["request_id", "spend", "startTime"];

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let mut keys = head.document().into_iter().chain(head.lines());
    let is_page = head.object().is_some_and(|keys| keys.have(&["data"]));
    let is_quoted = |key: &&str| head.mentions(&format!("\"{key}\""));
    keys.any(|keys| keys.have(&KEYS)) || (is_page && KEYS.iter().all(is_quoted))
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let is_lines = is_lines(reading.part);
    let rows = Grouped {
        each: &|reading, take| each_row(reading, is_lines, take),
        run_of,
        record: |raw| SpendRow::read(raw).map(Some),
        words: ("a row of spend logs", "sessions"),
        nameless: None,
    };
    rows.read(reading, &mut |run, rows| read_run(run, rows, reading, sink));
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Name<'a> {
    session_id: Option<Text<'a>>,
    litellm_call_id: Option<Text<'a>>,
    request_id: Option<Text<'a>>,
}

/// The run that a row belongs to.
fn run_of(row: &RawValue) -> Option<Text<'_>> {
    let name: Name<'_> = serde_json::from_str(row.get()).ok()?;
    let names = [name.session_id, name.litellm_call_id, name.request_id];
    names.into_iter().flatten().find(|name| !name.is_empty())
}

fn read_run(id: &str, mut rows: Vec<SpendRow>, reading: Reading<'_>, sink: &mut dyn RunSink) {
    // The sort is stable: what began together stays in the order of the file.
    rows.sort_by_key(|row| row.start);
    let mut run = RunBuilder::new(reading, sink).named(Some(id));
    let mut is_lower_bound = false;
    for row in rows {
        match &row.kind {
            RowKind::Model(model) => {
                let asked = run.own().ask(&model.told, row.start);
                run.check(asked);
                if row.failed {
                    run.own().fail(row.end);
                } else {
                    let reply = row::reply(&row, model, reading);
                    let answered = run.own().answer(row.end, reply, &model.said);
                    run.check(answered);
                }
            }
            RowKind::Tool(asked, result) => {
                let (time, result, failed) = (row.end, result.clone(), row.failed);
                let answer = ToolAnswer { result, failed, time };
                let ran = run.own().tool(asked, row.start, answer);
                run.check(ran);
            }
            RowKind::Other { has_cost } => is_lower_bound |= has_cost,
        }
    }
    let finished = run.own().finish();
    run.check(finished);
    if is_lower_bound {
        reading.warn(WarningKind::LowerBound, || {
            "what embeddings and other calls cost is not counted; cost is a lower bound".to_owned()
        });
    }
    run.write_own();
    run.is_lower_bound(is_lower_bound);
    run.end();
}

fn each_row(reading: Reading<'_>, is_lines: bool, take: &mut dyn FnMut(&RawValue)) {
    if !is_lines {
        return reading.each_item(&["data"], take);
    }
    let mut lines = reading.lines();
    while lines.advance() {
        if let Some(row) = lines.parse::<&RawValue>() {
            take(row);
        }
    }
}

/// Whether there is a row on each line: the document is neither a list nor a page of rows.
fn is_lines(part: &Part) -> bool {
    let is_row = |keys: &Keys| keys.have(&["request_id"]) || !keys.have(&["data"]);
    first_keys(part).is_some_and(|keys| !keys.in_list && is_row(&keys))
}
