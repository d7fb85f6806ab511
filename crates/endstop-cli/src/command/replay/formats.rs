//! `--formats`: what is read, and where each tool keeps it.

use std::io::Write;
use std::process::ExitCode;

use endstop_transcript::{FORMATS, Format, Home, Supplies};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::output::table;

pub(super) fn run(as_json: bool, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    if as_json {
        let rows: Vec<Value> = FORMATS.iter().map(to_json).collect();
        writeln!(out, "{}", json!({ "version": 1, "formats": rows }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = table(&["format", "what it is", "location", "what it records"], &[]);
    for format in FORMATS {
        let homes: Vec<String> = format.homes().iter().map(place).collect();
        let homes = if homes.is_empty() { format.kept().to_owned() } else { homes.join("; ") };
        table.add_row([
            format.id().to_owned(),
            format.describe().to_owned(),
            homes,
            tells(format.supplies()),
        ]);
    }
    writeln!(out, "{table}\n")?;
    writeln!(
        out,
        "Endstop recognizes a format by a file's content, not by its name. Every format has steps, tool calls with\n\
         their arguments and results, model responses and user turns; the last column lists further data."
    )?;
    Ok(ExitCode::SUCCESS)
}

/// `~/.codex/sessions, ~/.codex/archived_sessions (or under $CODEX_HOME)`.
fn place(home: &Home) -> String {
    let directories: Vec<String> = directories(home);
    match home.variable {
        "" => directories.join(", "),
        variable => format!("{} (or under ${variable})", directories.join(", ")),
    }
}

fn directories(home: &Home) -> Vec<String> {
    let joined = |top: &str, below: &str| {
        let parts = ["~", top, below].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("/")
    };
    let tops = home.otherwise.iter();
    tops.flat_map(|top| home.below.iter().map(|below| joined(top, below))).collect()
}

fn named(supplies: Supplies) -> [(&'static str, bool); 8] {
    [
        ("tokens", supplies.tokens),
        ("money", supplies.money),
        ("time", supplies.time),
        ("tool failures", supplies.tool_failures),
        ("retries", supplies.retries),
        ("finish reasons", supplies.finish),
        ("sub-agents", supplies.subagents),
        ("interventions", supplies.interventions),
    ]
}

fn tells(supplies: Supplies) -> String {
    let told: Vec<&str> =
        named(supplies).into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect();
    if told.is_empty() { "-".to_owned() } else { told.join(", ") }
}

fn to_json(format: &Format) -> Value {
    let home = |home: &Home| json!({ "variable": home.variable, "folders": directories(home) });
    let supplies: serde_json::Map<String, Value> = named(format.supplies())
        .into_iter()
        .map(|(name, is)| (name.replace([' ', '-'], "_"), is.into()))
        .collect();
    json!({
        "id": format.id(),
        "what": format.describe(),
        "kept": format.kept(),
        "homes": format.homes().iter().map(home).collect::<Vec<_>>(),
        "supplies": supplies,
    })
}
