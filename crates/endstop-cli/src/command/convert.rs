//! `endstop convert`: recorded runs, written in another format.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use endstop::store::create_private_directory;
use endstop_price::PriceTable;
use endstop_transcript::Warning;
use endstop_transcript::export::{Exported, Target, export};

use super::replay::input::{Recordings, nothing_read, prices, recordings, warn_folded};
use crate::error::CliError;
use crate::limits::MAX_FILE_NAME_CHARS;
use crate::output;

const HELP: &str = "\
Examples:
  endstop convert session.jsonl --to atif > trajectory.json
  endstop convert ~/.claude/projects --to atif --out trajectories
  endstop convert results.json --to endstop | jq 'select(.event == \"reply\")'

Endstop converts any transcript that `endstop replay` reads. With --out, each
run gets one file, named after it. Otherwise the runs go to standard output: one
run for `atif`, and any number for `endstop`, whose lines begin with a header
for each run. Events do not contain the messages of the user, so user steps have
an empty message.";

/// Arguments of `endstop convert`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct ConvertArgs {
    /// Transcripts, directories of them, or `-` for standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Output format: atif or endstop
    ///
    /// `atif`: ATIF v1.7 (Harbor), one JSON document per run. `endstop`: Endstop's own trace, JSON lines.
    #[arg(hide_possible_values = true, long, value_enum, value_name = "FORMAT")]
    to: To,
    /// Write one file per run into this directory
    ///
    /// It is created if it is missing.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Read prices from this file
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// ATIF v1.7 (Harbor), one JSON document per run
    Atif,
    /// Endstop's own trace, JSON lines
    Endstop,
}

impl To {
    const fn target(self) -> Target {
        match self {
            Self::Atif => Target::Atif,
            Self::Endstop => Target::Endstop,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a path or the prices cannot be read, a file cannot be written, there is no run, or there are
/// several for an output that takes one.
pub fn run(args: &ConvertArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let Recordings { transcripts, mut warnings, .. } = recordings(&args.paths);
    let table = prices(args.prices.as_deref())?;
    let prices = table.as_ref().unwrap_or_else(|| PriceTable::embedded());
    let target = args.to.target();
    let mut place = match &args.out {
        Some(directory) => Destination::Directory(Directory::make(directory, target)?),
        None if args.to == To::Atif => Destination::Single(None, 0),
        None => Destination::Stream(out, 0),
    };
    let mut dropped = 0u64;
    let bar = output::progress(u64::try_from(transcripts.len()).unwrap_or(u64::MAX), "files");
    for transcript in &transcripts {
        let (before, mut written) = (place.runs(), Ok(()));
        warnings.extend(export(transcript, prices, target, &mut |run| {
            dropped = dropped.saturating_add(run.dropped);
            if written.is_ok() {
                written = place.put(run);
            }
        }));
        written?;
        if place.runs() == before {
            warnings.push(Warning::no_runs(transcript.main.name()));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let runs = place.runs();
    match place {
        Destination::Single(Some(run), 1) => out.write_all(run.text.as_bytes())?,
        Destination::Single(_, runs) if runs > 1 => {
            let message = format!("there are {}, and an ATIF document holds one", said(runs));
            return Err(CliError::new(message).with_hint("`--out DIR` writes a file for each"));
        }
        _ => {}
    }
    if let (Some(directory), true) = (&args.out, runs > 0) {
        output::note(&format!("{} written to `{}`", said(runs), directory.display()));
    }
    warn_folded(&warnings);
    if dropped > 0 {
        let events = output::counted(dropped, "event");
        output::warn(&format!("{events} have no place in {} and were dropped", target.value()));
    }
    if runs == 0 {
        return Err(nothing_read(&args.paths));
    }
    Ok(ExitCode::SUCCESS)
}

fn said(runs: u64) -> String {
    output::counted(runs, "run")
}

/// Where runs go.
enum Destination<'o> {
    Directory(Directory),
    /// The first run, and how many there were.
    Single(Option<Exported>, u64),
    Stream(&'o mut dyn Write, u64),
}

impl Destination<'_> {
    fn put(&mut self, run: Exported) -> Result<(), CliError> {
        match self {
            Self::Directory(directory) => directory.put(&run)?,
            Self::Single(first, runs) => {
                first.get_or_insert(run);
                *runs += 1;
            }
            Self::Stream(out, runs) => {
                out.write_all(run.text.as_bytes())?;
                *runs += 1;
            }
        }
        Ok(())
    }

    const fn runs(&self) -> u64 {
        match self {
            Self::Directory(directory) => directory.runs,
            Self::Single(_, runs) | Self::Stream(_, runs) => *runs,
        }
    }
}

struct Directory {
    path: PathBuf,
    ending: &'static str,
    runs: u64,
    /// How often a name was taken, in lower case: not every file system distinguishes cases.
    names: BTreeMap<String, u64>,
}

impl Directory {
    fn make(path: &Path, target: Target) -> Result<Self, CliError> {
        create_private_directory(path).map_err(|error| CliError::cannot_write(path, &error))?;
        let (path, ending) = (path.to_owned(), target.ending());
        Ok(Self { path, ending, runs: 0, names: BTreeMap::new() })
    }

    fn put(&mut self, run: &Exported) -> Result<(), CliError> {
        let name = self.name(&run.id);
        let path = self.path.join(name);
        output::create_private(&path)
            .and_then(|mut file| file.write_all(run.text.as_bytes()))
            .map_err(|error| CliError::cannot_write(&path, &error))?;
        self.runs += 1;
        Ok(())
    }

    /// A name that no other run of this command has.
    fn name(&mut self, id: &str) -> String {
        let stem = file_name(id);
        let mut name = stem.clone();
        loop {
            let taken = self.names.entry(name.to_lowercase()).or_insert(0);
            *taken += 1;
            if *taken == 1 {
                return format!("{name}.{}", self.ending);
            }
            let number = self.names.entry(stem.to_lowercase()).or_insert(1);
            name = format!("{stem}-{number}");
        }
    }
}

/// A run's name as a file's: letters, digits, `.`, `_` and `-`, not hidden.
fn file_name(id: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = id.chars().map(safe).take(MAX_FILE_NAME_CHARS).collect();
    match name.trim_start_matches('.') {
        "" => "run".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
