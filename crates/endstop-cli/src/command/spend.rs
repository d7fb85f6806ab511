//! `endstop spend`: what runs cost, by day, model, project, run, budget, key or tool: from the history of this user, or from
//! transcripts.

pub(super) mod recorded;
#[cfg(unix)]
mod remote;
mod selection;
mod tally;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use endstop_gateway::control_source::{SourceErrorKind, SpendReport};
use endstop_price::PriceTable;
use endstop_transcript::Transcript;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

#[cfg(unix)]
use super::control::ServerArgs;
use super::replay::input::{nothing_read, prices, recordings, warn_folded};
use crate::budgets::has_local_store;
use crate::error::{CliError, ExitMeaning};
use crate::limits::MAX_NAMED_MODELS;
use crate::output;
use selection::{By, Selection, Since, since, zone};
use tally::{Amounts, Reader, RunCalls, SpendSummary};

const HELP: &str = "\
Examples:
  endstop spend
  endstop spend --by model --since 7d
  endstop spend --by project --since 2026-01-01 --json
  endstop spend --by budget --since 7d
  endstop spend --transcripts
  endstop spend --by tool ~/.claude/projects
  endstop spend --server http://127.0.0.1:8485 --token-env ENDSTOP_TOKEN

It reads the history: every call that `endstop run`, `serve` and `agent` of this
user settled, at the cost that the limits counted. With --transcripts or a path
it reads what agent programs left on disk instead, with or without Endstop. Both
have the calls of an agent under `endstop run`, so they are not added up. A call
that a resumed session copied from an earlier one counts once.

--by budget and --by key need the history, --by tool needs transcripts. Days
begin at midnight UTC, or in the time zone of --timezone.";

/// The long help of --server.
#[cfg(unix)]
const SERVER_HELP: &str = "Ask the control API at this address\n\n\
    For the history of the user of its gateway, instead of yours.";

/// Arguments of `endstop spend`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
#[cfg_attr(unix, command(mut_arg("server", |arg| {
    arg.conflicts_with_all(["paths", "transcripts", "prices"]).long_help(SERVER_HELP)
})))]
pub struct SpendArgs {
    /// Transcripts, directories, or `-` for stdin
    ///
    /// Without one, and without --transcripts, Endstop reads the history.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Read transcripts instead of the history
    ///
    /// Those in the directories of the known tools, if no path is given.
    #[arg(long)]
    transcripts: bool,
    /// Rows: day (default), model, project, run and more
    ///
    /// `day`, `model`, `project` (the directory) or `run`; `budget` or `key` of the history; `tool` of transcripts.
    #[arg(hide_possible_values = true, hide_default_value = true, long, value_enum, value_name = "WHAT",
        default_value_t = By::Day)]
    by: By,
    /// Count from this day: `2026-01-31`, `7d`
    ///
    /// A date, or days until today.
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Since>,
    /// Time zone of days
    ///
    /// A name such as `Europe/Berlin`, an offset such as `+02:00`, or `local`.
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone,
        allow_hyphen_values = true)]
    timezone: TimeZone,
    /// Print JSON with exact amounts
    #[arg(long)]
    json: bool,
    /// Draw a bar for each row's cost
    #[arg(long)]
    chart: bool,
    /// For transcripts: read prices from this file
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    #[cfg(unix)]
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if nothing is recorded, or a file cannot be read.
pub fn run(args: &SpendArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    match args.reads_history() {
        true => of_history(args, out),
        false => of_transcripts(args, out),
    }
}

/// The spend that the history has.
fn of_history(args: &SpendArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    if args.by == By::Tool {
        return Err(CliError::new("--by tool needs transcripts: the history has no tool calls")
            .with_hint("add --transcripts"));
    }
    if args.prices.is_some() {
        output::note("the history has costs as they were counted: --prices needs --transcripts");
    }
    let report = args.recorded()?;
    let summary = recorded::summary_of(args.by, &report)
        .map_err(|error| CliError::new(format!("an amount of the spend is none: {error}")))?;
    match args.json {
        true => writeln!(out, "{:#}", output::json(&report))?,
        false => args.print(&summary, out)?,
    }
    out.flush()?;
    tell_of_unpriced(&summary, "their cost is what --unpriced said, or nothing");
    Ok(ExitCode::SUCCESS)
}

/// The cost of transcripts.
fn of_transcripts(args: &SpendArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    if let By::Budget | By::Key = args.by {
        let name = args.by.name();
        return Err(CliError::new(format!(
            "--by {name} needs the history: transcripts have no {name}s"
        ))
        .with_hint("leave out --transcripts and the paths"));
    }
    let table = prices(args.prices.as_deref())?;
    let table = table.as_ref().unwrap_or_else(|| PriceTable::embedded());
    let mut found = recordings(&args.paths);
    if found.is_sample {
        found.transcripts.clear();
    }
    let selection = args.selection();
    let begin = selection.begin();
    let runs = read_all(&found.transcripts, table);
    let mut warnings = found.warnings;
    let mut summary = SpendSummary::default();
    for file in runs {
        warnings.extend(file.warnings);
        for run in file.runs {
            summary.add(&run, begin, |call| args.key(&selection, &run, call));
        }
    }
    if summary.runs == 0 {
        warn_folded(&warnings);
        return match args.paths.is_empty() {
            false => Err(nothing_read(&args.paths)),
            true => Err(CliError::new("no transcripts in the directories of the known tools")
                .with_hint(match has_local_store() {
                    true => "`endstop budget` shows the spend through Endstop; or pass files or directories with transcripts",
                    false => "pass files or directories with transcripts",
                })),
        };
    }
    match args.json {
        true => writeln!(out, "{:#}", args.to_json(&summary))?,
        false => args.print(&summary, out)?,
    }
    out.flush()?;
    tell_of_unpriced(&summary, "they cost nothing here; --prices FILE adds prices");
    warn_folded(&warnings);
    Ok(ExitCode::SUCCESS)
}

/// Names the models without a price, and what their calls cost here.
fn tell_of_unpriced(summary: &SpendSummary, cost: &str) {
    let calls: u64 = summary.unpriced.values().sum();
    if calls == 0 {
        return;
    }
    let names: Vec<&str> =
        summary.unpriced.keys().take(MAX_NAMED_MODELS).map(String::as_str).collect();
    output::warn(&format!(
        "no price for {} of `{}`: {cost}",
        output::counted(calls, "call"),
        names.join("`, `")
    ));
}

/// The calls of each transcript, in the order of the transcripts. All cores read in parallel.
fn read_all(transcripts: &[Transcript], table: &PriceTable) -> Vec<Reader> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(transcripts.len()));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let bar = output::progress(transcripts.len() as u64, "files");
    std::thread::scope(|scope| {
        for _ in 0..threads.min(transcripts.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(transcript) = transcripts.get(index) else { return };
                    let mut reader = Reader::default();
                    transcript.read(table, &mut reader);
                    bar.inc(1);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, reader));
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, reader)| reader).collect()
}

impl SpendArgs {
    fn reads_history(&self) -> bool {
        self.paths.is_empty() && !self.transcripts
    }

    /// The spend of the history, here or at the gateway of --server.
    fn recorded(&self) -> Result<SpendReport, CliError> {
        let selection = self.selection();
        #[cfg(unix)]
        if let Some(report) = remote::report(&self.server, &selection)? {
            return Ok(report);
        }
        recorded::report(&selection).map_err(|error| match error.kind {
            SourceErrorKind::Unknown => CliError::from(error)
                .with_hint("`endstop spend --transcripts` reads what agent programs left on disk"),
            _ => CliError::from(error).with_exit(ExitMeaning::Usage),
        })
    }

    fn selection(&self) -> Selection {
        Selection { by: self.by, since: self.since, timezone: self.timezone.clone() }
    }

    /// The row of a call of a transcript.
    fn key(&self, selection: &Selection, run: &RunCalls, call: &tally::Call) -> String {
        match self.by {
            By::Day => selection.day(call.wall),
            By::Model => call.model.clone(),
            By::Project => run.project.clone(),
            By::Run => run.id.clone(),
            By::Budget | By::Key | By::Tool => String::new(),
        }
    }

    /// The cost of transcripts as JSON.
    fn to_json(&self, summary: &SpendSummary) -> Value {
        let name = self.by.name();
        let rows: Vec<Value> = match self.by {
            By::Tool => summary
                .tools
                .iter()
                .map(|(tool, used)| {
                    json!({ name: tool, "calls": used.calls, "failed": used.failed,
                        "result_bytes": used.result_bytes, "cost_usd": used.cost.to_decimal() })
                })
                .collect(),
            _ => summary
                .rows
                .iter()
                .map(|(key, amounts)| {
                    let mut row = output::json(&amounts.to_totals());
                    if let Some(row) = row.as_object_mut() {
                        row.insert(name.to_owned(), json!(key));
                    }
                    row
                })
                .collect(),
        };
        json!({
            "version": 1,
            "source": "transcripts",
            "by": name,
            "rows": rows,
            "total": summary.total.to_totals(),
            "runs": summary.runs,
            "duplicates": summary.duplicates,
            "unpriced_models": summary.unpriced,
        })
    }

    fn print(&self, summary: &SpendSummary, out: &mut dyn Write) -> Result<(), CliError> {
        if self.by == By::Tool {
            let header = ["tool", "calls", "failed", "result bytes", "cost"];
            let mut table = output::table(&header, &[1, 2, 3, 4]);
            for (tool, used) in &summary.tools {
                table.add_row([
                    tool.clone(),
                    output::count(used.calls),
                    output::count(used.failed),
                    output::count(used.result_bytes),
                    output::money(used.cost),
                ]);
            }
            writeln!(out, "{}", output::shown(&table.to_string()))?;
        } else {
            let mut header = vec![self.by.name(), "calls", "input", "cached", "output", "cost"];
            if self.chart {
                header.push("");
            }
            let mut table = output::table(&header, &[1, 2, 3, 4, 5]);
            let most = summary.rows.values().map(|row| row.cost).max().unwrap_or_default();
            let room = bar_room(output::terminal_width());
            for (key, row) in &summary.rows {
                let mut cells = self.cells(key, row);
                if self.chart {
                    cells.push(bar(row.cost.picos(), most.picos(), room));
                }
                table.add_row(cells);
            }
            let mut cells = self.cells("total", &summary.total);
            if self.chart {
                cells.push(String::new());
            }
            table.add_row(cells);
            writeln!(out, "{}", output::shown(&table.to_string()))?;
        }
        if summary.duplicates > 0 {
            let calls = output::counted(summary.duplicates, "call");
            writeln!(out, "{calls} of resumed sessions counted once")?;
        }
        if let (calls @ 1.., sum) = summary.unconfirmed {
            let (sum, calls) = (output::money(sum), output::counted(calls, "call"));
            writeln!(
                out,
                "{sum} of it is unconfirmed: the worst case of {calls} without a usage report"
            )?;
        }
        if summary.in_many_rows > 0 {
            let calls = output::counted(summary.in_many_rows, "call");
            writeln!(out, "{calls} in several rows; the total counts each once")?;
        }
        Ok(())
    }

    fn cells(&self, key: &str, row: &Amounts) -> Vec<String> {
        vec![
            key.to_owned(),
            output::count(row.calls),
            output::short(row.input),
            output::short(row.cached),
            output::short(row.output),
            output::money(row.cost),
        ]
    }
}

/// The signs of the longest bar: a sixth of the width, because the columns of numbers need most of it.
fn bar_room(columns: u16) -> u16 {
    (columns / 6).clamp(4, 20)
}

/// A bar of at most `room` signs.
fn bar(part: u64, whole: u64, room: u16) -> String {
    let signs = u128::from(part) * u128::from(room) / u128::from(whole.max(1));
    "#".repeat(usize::try_from(signs).unwrap_or(0).max(usize::from(part > 0)))
}

#[cfg(test)]
mod tests;
