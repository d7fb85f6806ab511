//! `endstop spend`: what runs cost, by day, model, project, run, budget, key or tool: from the history of this user, or from
//! transcripts.

mod tally;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use endstop::core::units::WallTime;
use endstop::runtime::history::RecordedCall;
use endstop_price::PriceTable;
use endstop_transcript::Transcript;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use serde_json::{Value, json};

use super::replay::input::{nothing_read, prices, recordings, warn_folded};
use crate::budgets::has_local_store;
use crate::error::CliError;
use crate::history::{self, history_error};
use crate::limits::MAX_NAMED_MODELS;
use crate::output;
use tally::{Amounts, Bill, Reader, RunCalls, UNNAMED};

/// The row of calls without a budget or a key.
const NONE: &str = "(none)";

const HELP: &str = "\
Examples:
  endstop spend
  endstop spend --by model --since 7d
  endstop spend --by project --since 2026-01-01 --json
  endstop spend --by budget --since 7d
  endstop spend --transcripts
  endstop spend --by tool ~/.claude/projects

It reads the history: every call that `endstop run`, `serve` and `agent` of this
user settled, at the cost that the limits counted. With --transcripts or a path
it reads what agent programs left on disk instead, with or without Endstop. Both
have the calls of an agent under `endstop run`, so they are not added up. A call
that a resumed session copied from an earlier one counts once.

--by budget and --by key need the history, --by tool needs transcripts. Days
begin at midnight UTC, or in the time zone of --timezone.";

/// Arguments of `endstop spend`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
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
}

/// The rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// The day of each call
    Day,
    /// The model that answered
    Model,
    /// The directory of the transcript, or the one in which the run began
    Project,
    /// The run
    Run,
    /// The budget over time
    Budget,
    /// The key of the client
    Key,
    /// The tool: its calls, failures and the bytes of its results
    Tool,
}

/// The beginning of what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Date(Date),
    Days(i64),
}

fn since(text: &str) -> Result<Since, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    match days {
        Some(days) => Ok(Since::Days(days.into())),
        None => text
            .parse()
            .map(Since::Date)
            .map_err(|_| "write a date such as `2026-01-31`, or days such as `7d`".to_owned()),
    }
}

fn zone(text: &str) -> Result<TimeZone, String> {
    if text == "local" {
        return TimeZone::try_system().map_err(|_| {
            "the system names no time zone; write an offset such as `+02:00`".to_owned()
        });
    }
    if text.starts_with(['+', '-']) {
        return offset(text).map(TimeZone::fixed);
    }
    TimeZone::get(text).map_err(|_| {
        "write a zone such as `Europe/Berlin`, an offset such as `+02:00`, or `local`".to_owned()
    })
}

fn offset(text: &str) -> Result<Offset, String> {
    let wrong = || "write an offset such as `+02:00`".to_owned();
    let (sign, rest) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (_, Some(rest)) => (-1, rest),
        _ => return Err(wrong()),
    };
    let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
    let (hours, minutes): (i32, i32) =
        (hours.parse().map_err(|_| wrong())?, minutes.parse().map_err(|_| wrong())?);
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
        return Err(wrong());
    }
    Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).map_err(|_| wrong())
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
    let failed = |error| history_error(&error);
    let history = history::read()?;
    let history = match history {
        Some(history) if !history.is_empty().map_err(failed)? => history,
        _ => {
            return Err(CliError::new("no calls in the history").with_hint(
                "`endstop spend --transcripts` reads what agent programs left on disk",
            ));
        }
    };
    let mut bill = Bill::default();
    let begin = args.begin().map(WallTime);
    let add = |call: RecordedCall| bill.add_recorded(&call, args.rows(&call));
    history.each_call(begin, add).map_err(failed)?;
    match args.json {
        true => writeln!(out, "{:#}", args.to_json(&bill))?,
        false => args.print(&bill, out)?,
    }
    out.flush()?;
    tell_of_unpriced(&bill, "their cost is what --unpriced said, or nothing");
    Ok(ExitCode::SUCCESS)
}

/// The cost of transcripts.
fn of_transcripts(args: &SpendArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    if let By::Budget | By::Key = args.by {
        let name = args.name();
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
    let begin = args.begin();
    let runs = read_all(&found.transcripts, table);
    let mut warnings = found.warnings;
    let mut bill = Bill::default();
    for file in runs {
        warnings.extend(file.warnings);
        for run in file.runs {
            bill.add(&run, begin, |call| args.key(&run, call));
        }
    }
    if bill.runs == 0 {
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
        true => writeln!(out, "{:#}", args.to_json(&bill))?,
        false => args.print(&bill, out)?,
    }
    out.flush()?;
    tell_of_unpriced(&bill, "they cost nothing here; --prices FILE adds prices");
    warn_folded(&warnings);
    Ok(ExitCode::SUCCESS)
}

/// Names the models without a price, and what their calls cost here.
fn tell_of_unpriced(bill: &Bill, cost: &str) {
    let calls: u64 = bill.unpriced.values().sum();
    if calls == 0 {
        return;
    }
    let names: Vec<&str> =
        bill.unpriced.keys().take(MAX_NAMED_MODELS).map(String::as_str).collect();
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

    /// The rows of a call of the history. Only with budgets it can be in several.
    fn rows(&self, call: &RecordedCall) -> Vec<String> {
        let one = |name: &Option<String>, missing: &str| {
            vec![name.clone().unwrap_or_else(|| missing.to_owned())]
        };
        match self.by {
            By::Day => vec![self.day(call.at.0)],
            By::Model => match &call.tool {
                Some(tool) => vec![format!("(tool {tool})")],
                None => one(&call.model, UNNAMED),
            },
            By::Project => vec![call.directory.clone()],
            By::Run => vec![call.run.clone()],
            By::Key => one(&call.key, NONE),
            By::Budget if call.budgets.is_empty() => vec![NONE.to_owned()],
            By::Budget => call.budgets.clone(),
            By::Tool => Vec::new(),
        }
    }

    /// The first millisecond that counts.
    fn begin(&self) -> Option<u64> {
        let date = match self.since? {
            Since::Date(date) => date,
            Since::Days(days) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
                let now = Timestamp::from_second(i64::try_from(now.as_secs()).ok()?).ok()?;
                let today = now.to_zoned(self.timezone.clone()).date();
                // Today is one of the days.
                let back = days.saturating_sub(1).max(0);
                today.checked_sub(jiff::Span::new().try_days(back).ok()?).ok()?
            }
        };
        let begin = date.to_zoned(self.timezone.clone()).ok()?.timestamp().as_millisecond();
        Some(u64::try_from(begin).unwrap_or(0))
    }

    /// The row of a call.
    fn key(&self, run: &RunCalls, call: &tally::Call) -> String {
        match self.by {
            By::Day => self.day(call.wall),
            By::Model => call.model.clone(),
            By::Project => run.project.clone(),
            By::Run => run.id.clone(),
            By::Budget | By::Key | By::Tool => String::new(),
        }
    }

    fn day(&self, wall: u64) -> String {
        let time = i64::try_from(wall).ok().filter(|wall| *wall > 0);
        let time = time.and_then(|wall| Timestamp::from_millisecond(wall).ok());
        let day = time.map(|time| time.to_zoned(self.timezone.clone()).date().to_string());
        day.unwrap_or_else(|| "(no time)".to_owned())
    }

    fn name(&self) -> &'static str {
        match self.by {
            By::Day => "day",
            By::Model => "model",
            By::Project => "project",
            By::Run => "run",
            By::Budget => "budget",
            By::Key => "key",
            By::Tool => "tool",
        }
    }

    fn to_json(&self, bill: &Bill) -> Value {
        let name = self.name();
        let rows: Vec<Value> = match self.by {
            By::Tool => bill
                .tools
                .iter()
                .map(|(tool, used)| {
                    json!({ name: tool, "calls": used.calls, "failed": used.failed,
                        "result_bytes": used.result_bytes, "cost_usd": used.cost.to_decimal() })
                })
                .collect(),
            _ => bill
                .rows
                .iter()
                .map(|(key, amounts)| {
                    let mut row = amounts.to_json();
                    if let Some(row) = row.as_object_mut() {
                        row.insert(name.to_owned(), json!(key));
                    }
                    row
                })
                .collect(),
        };
        let mut all = json!({
            "version": 1,
            "source": if self.reads_history() { "history" } else { "transcripts" },
            "by": name,
            "rows": rows,
            "total": bill.total.to_json(),
            "runs": bill.runs,
            "duplicates": bill.duplicates,
            "unpriced_models": bill.unpriced,
        });
        if let Some(all) = all.as_object_mut().filter(|_| self.reads_history()) {
            let (calls, sum) = bill.unconfirmed;
            all.insert("unconfirmed_calls".to_owned(), json!(calls));
            all.insert("unconfirmed_usd".to_owned(), json!(sum.to_decimal()));
        }
        all
    }

    fn print(&self, bill: &Bill, out: &mut dyn Write) -> Result<(), CliError> {
        if self.by == By::Tool {
            let mut table = output::table(&["tool", "calls", "failed", "result bytes"], &[1, 2, 3]);
            for (tool, used) in &bill.tools {
                table.add_row([
                    tool.clone(),
                    output::count(used.calls),
                    output::count(used.failed),
                    output::count(used.result_bytes),
                ]);
            }
            writeln!(out, "{}", output::shown(&table.to_string()))?;
        } else {
            let mut header = vec![self.name(), "calls", "input", "cached", "output", "cost"];
            if self.chart {
                header.push("");
            }
            let mut table = output::table(&header, &[1, 2, 3, 4, 5]);
            let most = bill.rows.values().map(|row| row.cost).max().unwrap_or_default();
            for (key, row) in &bill.rows {
                let mut cells = self.cells(key, row);
                if self.chart {
                    cells.push(bar(row.cost.picos(), most.picos()));
                }
                table.add_row(cells);
            }
            let mut cells = self.cells("total", &bill.total);
            if self.chart {
                cells.push(String::new());
            }
            table.add_row(cells);
            writeln!(out, "{}", output::shown(&table.to_string()))?;
        }
        if bill.duplicates > 0 {
            let calls = output::counted(bill.duplicates, "call");
            writeln!(out, "{calls} of resumed sessions counted once")?;
        }
        if let (calls @ 1.., sum) = bill.unconfirmed {
            let (sum, calls) = (output::money(sum), output::counted(calls, "call"));
            writeln!(
                out,
                "{sum} of it is unconfirmed: the worst case of {calls} without a usage report"
            )?;
        }
        if bill.in_many_rows > 0 {
            let calls = output::counted(bill.in_many_rows, "call");
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

/// A bar of at most 20 signs.
fn bar(part: u64, whole: u64) -> String {
    let signs = u128::from(part) * 20 / u128::from(whole.max(1));
    "#".repeat(usize::try_from(signs).unwrap_or(20).max(usize::from(part > 0)))
}

#[cfg(test)]
mod tests;
