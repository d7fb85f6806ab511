//! How the runs ended, as lines and as a table in Markdown.

use std::fmt::Write as _;

use super::run::Ended;

const BEGIN: &str = "<!-- begin: cargo xtask clients --all --write -->\n";
const END: &str = "<!-- end -->\n";

/// One run, for people who watch.
pub(super) fn line(ended: &Ended) -> String {
    let mode = if ended.is_stream { "stream" } else { "whole" };
    let mark = if ended.fault.is_some() { "FAILED" } else { "ok" };
    let calls = count(ended.calls);
    let stops = count(ended.stop_responses);
    format!(
        "{mark:<6} {:<21} {:<10} {mode:<6} calls {calls}, stop answers {stops}, {}",
        ended.client,
        ended.api,
        how(ended)
    )
}

/// The table.
pub(super) fn page(rows: &[Ended]) -> String {
    let mut text = "\
| client | version | interface | stream | calls upstream | stop answers | tools run | exit code | how it ended |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    for row in rows {
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
            count(row.calls),
            count(row.stop_responses),
            count(tools),
            how(row),
        );
    }
    text
}

fn how(ended: &Ended) -> String {
    match &ended.result {
        None => "not by itself".to_owned(),
        Some(result) => match &result.raised {
            None => "returns".to_owned(),
            Some(class) => format!("raises `{class}`"),
        },
    }
}

fn count(count: Option<u64>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}

/// The page with another table between its marks.
///
/// # Errors
/// If the marks are not there.
pub(super) fn insert(page: &str, table: &str) -> Result<String, String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or("the page has no marks for the table")?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_replaces_the_one_before() {
        let page = format!("a\n{BEGIN}\nold\n\n{END}b\n");
        let written = insert(&page, "new\n").unwrap();
        assert_eq!(written, format!("a\n{BEGIN}\nnew\n\n{END}b\n"));
        assert!(insert("a", "new").is_err());
        assert_eq!(insert(&written, "new\n").unwrap(), written);
    }

    #[test]
    fn a_run_that_told_nothing_has_a_row_as_well() {
        let row = Ended { client: "x", api: "chat", ..Ended::default() };
        assert!(
            page(&[row]).ends_with("| x |  | chat | no | ? | ? | ? | none | not by itself |\n")
        );
    }
}
