//! How the runs ended, as lines and as a table in Markdown.

use std::fmt::Write as _;

use super::run::Ended;

/// One run, for people who watch.
pub(super) fn line(ended: &Ended) -> String {
    let mode = if ended.is_stream { "stream" } else { "whole" };
    let mark = if ended.fault.is_some() { "FAILED" } else { "ok" };
    let [calls, stops] = ended.counts.in_words();
    format!(
        "{mark:<6} {:<21} {:<10} {mode:<6} calls {calls}, stop responses {stops}, {}",
        ended.client,
        ended.api,
        how(ended)
    )
}

/// The table.
pub(super) fn page(rows: &[Ended]) -> String {
    let mut text = "\
| client | version | API | stream | calls upstream | stop responses | tools run | exit code | how it ended |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    for row in rows {
        let [calls, stops] = row.counts.in_words();
        let tools = row.result.as_ref().map(|result| result.tools_run);
        let code = row.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {code} | {} |",
            row.client,
            row.version,
            row.api,
            if row.is_stream { "yes" } else { "no" },
            calls,
            stops,
            tools.map_or_else(|| "?".to_owned(), |count| count.to_string()),
            how(row),
        );
    }
    text
}

fn how(ended: &Ended) -> String {
    match &ended.result {
        None => "not on its own".to_owned(),
        Some(result) => match &result.raised {
            None => "returns".to_owned(),
            Some(class) => format!("raises `{class}`"),
        },
    }
}

#[cfg(test)]
mod tests;
