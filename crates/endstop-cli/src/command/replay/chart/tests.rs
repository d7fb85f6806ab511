//! Charts: well-formed, within their frame, and safe whatever the labels say.

use endstop::core::units::Money;
use endstop_replay::Candidate;

use super::*;

fn row(series: &str, value: &str, lost: u64, saved: u64) -> Row {
    let effect = Effect {
        runs: 50,
        stopped: lost + 3,
        cost: Money::from_picos(1_000_000_000_000),
        saved: Money::from_picos(saved * 10_000_000_000),
        succeeded: 40,
        succeeded_stopped: lost,
        failed: 10,
        failed_stopped: 3,
        ..Effect::default()
    };
    let candidate = Candidate {
        label: format!("{series} >= {value}"),
        series: series.to_owned(),
        values: vec![(series.to_owned(), value.to_owned())],
        text: None,
        added: Some(format!("{series} >= {value}")),
    };
    Row { candidate, effect }
}

fn chart() -> Chart {
    let rows = [
        row("cost", "$0.25", 20, 80),
        row("cost", "$0.50", 4, 40),
        row("cost", "$1.00", 0, 10),
        row("tool_calls(\"<a&b>\")", "5", 1, 22),
    ];
    Chart::new(&rows, Measure::Money, "4 limits over 50 runs\n`cost >= $1.00` <saves> most", None)
}

/// The numbers after `name="`.
fn numbers(svg: &str, name: &str) -> Vec<f64> {
    let start = format!(" {name}=\"");
    let pieces = svg.split(start.as_str()).skip(1);
    pieces.filter_map(|piece| piece.split('"').next()?.parse().ok()).collect()
}

#[test]
fn every_point_is_drawn_inside_and_says_its_row() {
    let svg = chart().render(Path::new("x.svg"));
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<g>").count(), 4);
    assert_eq!(svg.matches("<polyline").count(), 2);
    assert!(svg.contains("limit: cost &gt;= $0.50\nruns stopped: 7 of 50\nsaved: $0.40 of $1.00"));
    assert!(svg.contains("successes lost: 4 of 40"));
    for (name, most) in [("cx", 760.0), ("x", 760.0), ("cy", 500.0), ("y", 500.0)] {
        let found = numbers(&svg, name);
        assert!(
            !found.is_empty() && found.iter().all(|n| (0.0..=most).contains(n)),
            "{name} {found:?}"
        );
    }
    // More saved is further up, more lost further right.
    let (x, y) = (numbers(&svg, "cx"), numbers(&svg, "cy"));
    let dots = x.len() - 3;
    assert!(x[dots] > x[dots + 1] && x[dots + 1] > x[dots + 2], "{x:?}");
    assert!(y[dots] < y[dots + 1] && y[dots + 1] < y[dots + 2], "{y:?}");
}

#[test]
fn labels_are_text_and_never_markup() {
    for name in ["x.svg", "x.html"] {
        let text = chart().render(Path::new(name));
        assert!(text.contains("&lt;a&amp;b&gt;") && text.contains("&lt;saves&gt;"), "{name}");
        assert!(!text.contains("<a&b>") && !text.contains("<saves>"), "{name}");
        assert!(!text.contains("http://") || text.matches("http://").count() == 1, "{name}");
        assert!(!text.contains("<script") && !text.contains("src=") && !text.contains("@import"));
    }
    assert_eq!(escape("a\u{1}\"'"), "a\u{fffd}&quot;&#39;");
}

#[test]
fn the_page_has_the_table() {
    let page = chart().render(Path::new("x.html"));
    assert!(page.starts_with("<!doctype html>"));
    assert_eq!(page.matches("<tr>").count(), 5);
    assert!(page.contains("<td>cost &gt;= $1.00</td><td>3 of 50</td>"));
}

#[test]
fn a_chart_without_points_or_outcomes_is_still_one() {
    let none = Chart::new(&[], Measure::Steps, "nothing", None);
    assert!(none.render(Path::new("x.svg")).ends_with("</svg>\n"));
    let mut unknown = row("steps", "5", 0, 0);
    (unknown.effect.succeeded, unknown.effect.failed) = (0, 0);
    let svg = Chart::new(&[unknown], Measure::Money, "x", None).render(Path::new("x.svg"));
    assert!(svg.contains("runs stopped, % of all runs"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn the_drawing_has_a_title_intervals_and_the_condition() {
    let svg = chart().render(Path::new("x.svg"));
    assert!(
        svg.contains(">What limits would have saved, against what they would have lost</text>")
    );
    assert!(svg.contains(">cost &gt;= ..</text>"), "the legend has the condition");
    assert_eq!(svg.matches("stroke-opacity=\".35\"").count(), 4, "an interval for each point");
    let mut swept = row("{k}", "3", 1, 20);
    swept.candidate.added = None;
    let written = Some("no_progress({k}) or repeats >= {k}");
    let svg = Chart::new(&[swept], Measure::Money, "x", written).render(Path::new("x.svg"));
    assert!(svg.contains(">no_progress({k}) or repeats &gt;= {k}</text>"));
}

#[test]
fn points_that_crowd_are_on_a_log_scale() {
    assert!(!chart().render(Path::new("x.svg")).contains("log scale"));
    let mut rows: Vec<Row> =
        (1..=8).map(|lost| row("cost", &format!("${lost}"), lost, 10 * lost)).collect();
    for row in &mut rows {
        row.effect.succeeded = 4_000;
    }
    let mut far = row("cost", "$0.01", 3_000, 90);
    far.effect.succeeded = 4_000;
    rows.push(far);
    let svg = Chart::new(&rows, Measure::Money, "x", None).render(Path::new("x.svg"));
    assert!(svg.contains("successes lost, % of all successes (log scale)"));
}

#[test]
fn only_known_endings_are_charts() {
    for name in ["a.svg", "b.html", "c.htm"] {
        assert!(check_name(Path::new(name)).is_ok());
    }
    for name in ["a.png", "svg", ""] {
        assert!(check_name(Path::new(name)).is_err());
    }
}
