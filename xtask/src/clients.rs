//! `cargo xtask clients`: real clients that loop for ever, under `endstop run --steps 3`.
//!
//! Each client is a program in `tests/clients`; its packages are installed below `target/clients` once. It has to end
//! by itself on the first answer that says that its run has stopped, with exactly three calls behind it. Agent programs
//! such as Codex are run in the same way, as people install them ([`programs`]). Where Python,
//! Node or their packages cannot be had, the task says what it skipped.

mod install;
mod list;
mod programs;
mod run;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::page;
use install::Installed;
use list::{CLIENTS, Client};
use programs::{PROGRAMS, Program, ProgramRun};
use run::Ended;

/// The page that has the table.
const PAGE: &str = "docs/clients.md";

/// Which clients are run.
#[derive(Debug, Default)]
struct Chosen<'a> {
    is_all: bool,
    /// Programs, and no others.
    is_of_programs: bool,
    is_written: bool,
    names: Vec<&'a str>,
}

/// Runs clients and programs: all with `--all`, the programs with `--programs`, those named, else those that are run for
/// each change (`--ci`). With `--write` puts the tables into their page.
///
/// # Errors
/// If a client did not do as it should, or the binary cannot be built.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let chosen = chosen(words)?;
    let clients: Vec<&Client> = CLIENTS.iter().filter(|client| chosen.has(client)).collect();
    let programs: Vec<&Program> = PROGRAMS.iter().filter(|it| chosen.has_program(it)).collect();
    let endstop = build(root)?;
    let mut rows = Vec::new();
    let mut skipped = Vec::new();
    let mut installed: Vec<(&str, Result<Installed, String>)> = Vec::new();
    for client in clients {
        if !installed.iter().any(|(group, _)| *group == client.group) {
            installed.push((client.group, install::install(root, client.group)));
        }
        let found = installed.iter().find(|(group, _)| *group == client.group);
        match found.map(|(_, result)| result) {
            Some(Ok(place)) => {
                for ended in run::all(root, &endstop, place, client) {
                    println!("{}", table::line(&ended));
                    rows.push(ended);
                }
            }
            Some(Err(why)) => skipped.push(format!("{}: {why}", client.name)),
            None => {}
        }
    }
    let of_programs = programs.into_iter().map(|program| {
        let ended = programs::one(root, &endstop, program);
        println!("{}", programs::line(&ended));
        ended
    });
    let of_programs: Vec<ProgramRun> = of_programs.collect();
    let of_programs = report_programs(root, &chosen, &of_programs);
    report(root, &chosen, &rows, &skipped).and(of_programs)
}

fn report_programs(root: &Path, chosen: &Chosen<'_>, rows: &[ProgramRun]) -> Result<(), String> {
    if rows.is_empty() {
        return Ok(());
    }
    println!("\n{}", programs::page(rows));
    let failed: Vec<&ProgramRun> = rows.iter().filter(|row| row.fault.is_some()).collect();
    for row in &failed {
        let fault = row.fault.as_deref().unwrap_or_default();
        eprintln!("failed: {}: {fault}\n{}", programs::line(row), row.output);
    }
    // The table also shows the programs that failed, and how.
    if chosen.is_written {
        page::write(root, PAGE, "clients --programs", &programs::page(rows))?;
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("{} runs of programs", failed.len())) }
}

fn report(
    root: &Path,
    chosen: &Chosen<'_>,
    rows: &[Ended],
    skipped: &[String],
) -> Result<(), String> {
    if rows.is_empty() && skipped.is_empty() {
        return Ok(());
    }
    println!("\n{}", table::page(rows));
    for why in skipped {
        println!("skipped: {why}");
    }
    let failed: Vec<&Ended> = rows.iter().filter(|row| row.fault.is_some()).collect();
    for row in &failed {
        let fault = row.fault.as_deref().unwrap_or_default();
        eprintln!("failed: {}: {fault}\n{}", table::line(row), row.errors);
    }
    println!(
        "{} passed, {} failed, {} skipped",
        rows.len().saturating_sub(failed.len()),
        failed.len(),
        skipped.len()
    );
    if chosen.is_written && skipped.is_empty() {
        page::write(root, PAGE, "clients --all", &table::page(rows))?;
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("{} runs of clients", failed.len())) }
}

impl Chosen<'_> {
    fn has(&self, client: &Client) -> bool {
        if self.names.is_empty() {
            self.is_all || (client.is_in_ci && !self.is_of_programs)
        } else {
            self.names.contains(&client.name)
        }
    }

    fn has_program(&self, program: &Program) -> bool {
        if self.names.is_empty() {
            self.is_all || self.is_of_programs || program.is_in_ci
        } else {
            self.names.contains(&program.name)
        }
    }
}

fn chosen<'a>(words: &[&'a str]) -> Result<Chosen<'a>, String> {
    let mut chosen = Chosen::default();
    for word in words {
        match *word {
            "--all" => chosen.is_all = true,
            "--programs" => chosen.is_of_programs = true,
            "--ci" => {}
            "--write" => chosen.is_written = true,
            name if CLIENTS.iter().any(|client| client.name == name)
                || PROGRAMS.iter().any(|program| program.name == name) =>
            {
                chosen.names.push(name);
            }
            other => {
                let names = CLIENTS.iter().map(|client| client.name);
                let names: Vec<&str> =
                    names.chain(PROGRAMS.iter().map(|program| program.name)).collect();
                return Err(format!("`{other}` is no client; there are {}", names.join(", ")));
            }
        }
    }
    let is_whole = (chosen.is_all || chosen.is_of_programs) && chosen.names.is_empty();
    if chosen.is_written && !is_whole {
        return Err(
            "`--write` needs `--all` or `--programs`: a table has all of its rows".to_owned()
        );
    }
    Ok(chosen)
}

/// Builds the binary with what the test command has built already: of the same packages, features and kinds.
const AS_THE_TESTS: [&str; 7] =
    ["build", "--quiet", "--workspace", "--features", "endstop/otel", "--bins", "--examples"];

/// Builds the binary; gives its path.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    let status = Command::new("cargo")
        .args(AS_THE_TESTS)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot start `cargo`: {error}"))?;
    if !status.success() {
        return Err(format!("the binary cannot be built: {status}"));
    }
    // This program lies where the binary does.
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(own.with_file_name("endstop"))
}

#[cfg(test)]
mod tests;
