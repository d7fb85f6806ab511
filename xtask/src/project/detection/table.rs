//! Shares with their intervals, and the tables in Markdown.

use std::fmt::Write as _;

use endstop_replay::RunReport;

use super::data::Labelled;

/// What a form did to runs. A run of one step cannot be cut: those are counted apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) succeeded: u64,
    pub(super) lost: u64,
    pub(super) failed: u64,
    pub(super) caught: u64,
    /// Of a single step, whatever became of them.
    pub(super) short: u64,
}

impl Tally {
    pub(super) fn of<'a>(runs: impl Iterator<Item = &'a RunReport>) -> Self {
        let mut tally = Self::default();
        for run in runs {
            let stopped = u64::from(run.stopped_at_step.is_some());
            match run.outcome {
                Some(_) if run.steps < 2 => tally.short += 1,
                Some(true) => {
                    tally.succeeded += 1;
                    tally.lost += stopped;
                }
                Some(false) => {
                    tally.failed += 1;
                    tally.caught += stopped;
                }
                None => {}
            }
        }
        tally
    }
}

/// An interval for a share, in per cent, at 95 %.
pub(super) struct Wilson {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Wilson {
    pub(super) fn of(hits: u64, all: u64) -> Self {
        const Z: f64 = 1.959_964;
        let (hits, all) = (to_f64(hits), to_f64(all));
        if all == 0.0 {
            return Self { low: 0.0, high: 100.0 };
        }
        let share = hits / all;
        let middle = share + Z * Z / (2.0 * all);
        let reach = Z * (share * (1.0 - share) / all + Z * Z / (4.0 * all * all)).sqrt();
        let scale = 100.0 / (1.0 + Z * Z / all);
        Self {
            low: ((middle - reach) * scale).max(0.0),
            high: ((middle + reach) * scale).min(100.0),
        }
    }
}

/// Counts of runs are far below what a float holds exactly.
fn to_f64(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// Few runs carry no decimals.
const MANY: u64 = 300;

fn cell(hits: u64, all: u64) -> String {
    let digits = if all >= MANY { 2 } else { 0 };
    match all {
        0 => "none".to_owned(),
        _ if hits == 0 => {
            let Wilson { high, .. } = Wilson::of(0, all);
            format!("0 (at most {high:.digits$} %)")
        }
        _ => {
            let Wilson { low, high } = Wilson::of(hits, all);
            let share = 100.0 * to_f64(hits) / to_f64(all);
            format!("{hits}: {share:.digits$} % ({low:.digits$} to {high:.digits$})")
        }
    }
}

type Row<'a> = (&'a str, Vec<Tally>);

/// Everything between the marks of the page.
pub(super) fn page(sets: &[Labelled], rows: &[Row<'_>], halves: &[Row<'_>]) -> String {
    let mut text = String::new();
    runs(&mut text, sets, rows);
    let heads: Vec<String> = sets.iter().map(|set| format!("`{}`", set.name)).collect();
    grid(&mut text, "Successes lost", &heads, rows, |tally| cell(tally.lost, tally.succeeded));
    grid(&mut text, "Failures caught", &heads, rows, |tally| cell(tally.caught, tally.failed));
    let heads = ["lost, even", "lost, odd", "caught, even", "caught, odd"].map(str::to_owned);
    header(&mut text, "InterCode in halves, every second task", &heads);
    for (form, tallies) in halves {
        let lost = tallies.iter().map(|tally| cell(tally.lost, tally.succeeded));
        let caught = tallies.iter().map(|tally| cell(tally.caught, tally.failed));
        let cells: Vec<String> = lost.chain(caught).collect();
        let _ = writeln!(text, "| `{form}` | {} |", cells.join(" | "));
    }
    choices(&mut text, rows, halves);
    text
}

/// What one half alone would have chosen, and what that does to the other.
fn choices(text: &mut String, rows: &[Row<'_>], halves: &[Row<'_>]) {
    text.push('\n');
    for (chooser, judge, name) in [(0, 1, "even"), (1, 0, "odd")] {
        let is_harmless = |row: &Row<'_>| {
            let others = row.1.iter().skip(1);
            others.map(|tally| tally.lost).sum::<u64>() == 0
        };
        let known = rows.iter().zip(halves).filter(|(row, _)| is_harmless(row));
        let usable = known.filter_map(|(_, (form, tallies))| {
            let chosen = tallies.get(chooser).filter(|tally| tally.lost <= 1)?;
            Some((chosen.caught, *form, tallies.get(judge)?))
        });
        let Some((_, form, other)) = usable.max_by_key(|(caught, ..)| *caught) else { continue };
        let _ = writeln!(
            text,
            "- Of these forms, the {name} tasks alone choose `{form}` (most failures caught, at most one \
             success lost, none in the other sets); of the other tasks it loses {} and catches {}.",
            cell(other.lost, other.succeeded),
            cell(other.caught, other.failed),
        );
    }
}

fn runs(text: &mut String, sets: &[Labelled], rows: &[Row<'_>]) {
    text.push_str(
        "| runs | | succeeded | failed | of one step |\n| --- | --- | --- | --- | --- |\n",
    );
    let Some((_, tallies)) = rows.first() else { return };
    for (set, tally) in sets.iter().zip(tallies) {
        let Tally { succeeded, failed, short, .. } = tally;
        let (name, what) = (set.name, set.what);
        let _ = writeln!(text, "| `{name}` | {what} | {succeeded} | {failed} | {short} |");
    }
}

/// Writing to a string cannot fail.
fn header(text: &mut String, title: &str, heads: &[String]) {
    let rule = vec!["---"; heads.len() + 1].join(" | ");
    let _ = write!(text, "\n### {title}\n\n| form | {} |\n| {rule} |\n", heads.join(" | "));
}

fn grid(
    text: &mut String,
    title: &str,
    heads: &[String],
    rows: &[Row<'_>],
    show: impl Fn(&Tally) -> String,
) {
    header(text, title, heads);
    for (form, tallies) in rows {
        let cells: Vec<String> = tallies.iter().map(&show).collect();
        let _ = writeln!(text, "| `{form}` | {} |", cells.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_nothing_is_not_a_number() {
        assert_eq!(cell(0, 0), "none");
        assert_eq!(cell(0, 762), "0 (at most 0.50 %)");
        assert_eq!(cell(133, 272), "133: 49 % (43 to 55)");
    }
}
