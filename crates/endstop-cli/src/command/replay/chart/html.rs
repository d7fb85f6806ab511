//! The drawing in a page, with its numbers as a table: no script, nothing fetched.
//!
//! A separate file because it is the second form of a chart after `svg`.

use std::fmt::Write as _;

use super::{Chart, HEADS, escape, svg};

const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; border: 1px solid #8884; border-radius: 6px; }
.table { overflow-x: auto; }
table { border-collapse: collapse; margin-top: 1.5rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }";

pub(super) fn page(chart: &Chart) -> String {
    let mut rows = String::new();
    for point in chart.series.iter().flat_map(|series| &series.points) {
        let cells = point.cells.iter().map(|cell| format!("<td>{}</td>", escape(cell)));
        let _ = writeln!(rows, "<tr>{}</tr>", cells.collect::<String>());
    }
    let heads: String = HEADS.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    let sentences: String =
        chart.answer.lines().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Limits over recorded runs</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n\
         <h1>Limits over recorded runs</h1>\n{sentences}{}\
         <div class=\"table\"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n\
         </body>\n</html>\n",
        svg::draw(chart, false)
    )
}
