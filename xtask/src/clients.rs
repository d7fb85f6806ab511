//! `cargo xtask clients`: real clients that loop forever, under `endstop run --steps 3`.
//!
//! Each client is a program in `tests/clients`; its packages are installed below `target/clients` once. It has to end
//! on its own on the first response that says that its run has stopped, with exactly three calls behind it. Agent programs
//! such as Codex are run in the same way, as people install them ([`programs`]), HTTP clients with their provider's own
//! address ([`intercept`]), and the lines of README word for word ([`readme`]). Where Python, Node or packages cannot
//! be had, the task says what it skipped.

mod doctor;
mod home;
mod install;
mod intercept;
mod list;
mod programs;
mod readme;
mod run;
mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::page;
use install::NotRun;
pub(crate) use install::version;
use intercept::{HTTP_CLIENTS, HttpClient};
use list::{CLIENTS, Client};
use programs::{PROGRAMS, Program, ProgramRun};
use readme::{README, ReadmeLine};
use run::Ended;

/// The page that has the table.
const PAGE: &str = "docs/clients.md";

/// Installs a group of Python packages, unless it is installed. Returns its interpreter.
///
/// # Errors
/// If a package manager fails, or the group is not described.
pub(crate) fn python(root: &Path, group: &str) -> Result<PathBuf, String> {
    match install::install(root, group) {
        Ok(installed) => Ok(installed.interpreter),
        Err(NotRun::Skipped(why) | NotRun::Broken(why)) => Err(why),
    }
}

/// Which clients are run.
#[derive(Debug, Default)]
struct Chosen<'a> {
    is_all: bool,
    /// Programs, and no others.
    is_of_programs: bool,
    /// HTTP clients under `--intercept`, and no others.
    is_of_http: bool,
    /// Whether packages are removed after their runs, for machines with little room.
    is_swept: bool,
    is_written: bool,
    names: Vec<&'a str>,
}

/// Runs clients, programs and the lines of README: all with `--all`, the programs with `--programs`, HTTP clients with
/// `--intercept`, those named, and otherwise those that run for each change. With `--write` puts the rows into their page.
///
/// # Errors
/// If a client did not do as it should, or the binary cannot be built.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let chosen = chosen(words)?;
    let endstop = build(root)?;
    let lines = readme::lines(root)?;
    let lines: Vec<&ReadmeLine> = lines.iter().filter(|line| chosen.has_line(line)).collect();
    if chosen.installs_at_once() {
        let mut groups = chosen.groups();
        groups.extend(lines.iter().map(|line| line.packages()));
        install::all(root, &groups);
    }
    let clients = run_clients(root, &endstop, &chosen);
    let http = run_http(root, &endstop, &chosen);
    let programs = run_programs(root, &endstop, &chosen);
    let readme = run_readme(root, &endstop, &chosen, &lines);
    clients.and(http).and(programs).and(readme)
}

fn run_readme(
    root: &Path,
    endstop: &Path,
    chosen: &Chosen<'_>,
    lines: &[&ReadmeLine],
) -> Result<(), String> {
    let mut failed = 0_usize;
    for line in lines {
        match line.run(root, endstop) {
            Ok(how) => println!("ok     {README}: {}: {how}", line.text),
            Err(NotRun::Skipped(why)) => println!("skipped: {README}: {}: {why}", line.text),
            Err(NotRun::Broken(why)) => {
                failed = failed.saturating_add(1);
                eprintln!("failed: {README}: {}: {why}", line.text);
            }
        }
        chosen.sweep(root, &line.packages());
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} lines of {README}")) }
}

fn run_clients(root: &Path, endstop: &Path, chosen: &Chosen<'_>) -> Result<(), String> {
    let clients: Vec<&Client> = CLIENTS.iter().filter(|client| chosen.has(client)).collect();
    let mut runs = Runs::default();
    for of_group in clients.chunk_by(|one, next| one.group == next.group) {
        let Some(group) = of_group.first().map(|client| client.group) else { continue };
        let place = install::install(root, group);
        for client in of_group {
            match &place {
                Ok(place) => runs.extend(run::all(root, endstop, place, client)),
                Err(why) => runs.not_run(client.name, why),
            }
        }
        chosen.sweep(root, group);
    }
    let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
    runs.report(root, chosen, &Table { task: "clients --all", names: &names, page: table::page })
}

fn run_http(root: &Path, endstop: &Path, chosen: &Chosen<'_>) -> Result<(), String> {
    let mut runs = Runs::default();
    for client in HTTP_CLIENTS.iter().filter(|client| chosen.has_http(client)) {
        match intercept::both(root, endstop, client) {
            Ok(rows) => runs.extend(rows.into_iter()),
            Err(why) => runs.not_run(client.name, &why),
        }
    }
    let names: Vec<&str> = HTTP_CLIENTS.iter().map(|client| client.name).collect();
    let table = Table { task: "clients --intercept", names: &names, page: intercept::page };
    runs.report(root, chosen, &table)
}

fn run_programs(root: &Path, endstop: &Path, chosen: &Chosen<'_>) -> Result<(), String> {
    let mut rows: Vec<ProgramRun> = Vec::new();
    let programs: Vec<&Program> = PROGRAMS.iter().filter(|it| chosen.has_program(it)).collect();
    for of_group in programs.chunk_by(|one, next| one.packages() == next.packages()) {
        for program in of_group {
            match programs::one(root, endstop, program) {
                Ok(ended) => {
                    println!("{}", programs::line(&ended));
                    rows.push(ended);
                }
                Err(why) => println!("skipped: {}: {why}", program.name),
            }
        }
        of_group.first().into_iter().for_each(|it| chosen.sweep(root, &it.packages()));
    }
    if rows.is_empty() {
        return Ok(());
    }
    println!("\n{}", programs::page(&rows));
    let failed: Vec<&ProgramRun> = rows.iter().filter(|row| row.fault.is_some()).collect();
    for row in &failed {
        let fault = row.fault.as_deref().unwrap_or_default();
        eprintln!("failed: {}: {fault}\n{}", programs::line(row), row.output);
    }
    // The table also shows the programs that failed, and how.
    chosen.write(root, "clients --programs", &programs::page(&rows), &programs::names())?;
    if failed.is_empty() { Ok(()) } else { Err(format!("{} runs of programs", failed.len())) }
}

/// Runs of clients, and the clients that were not run.
#[derive(Default)]
struct Runs {
    rows: Vec<Ended>,
    skipped: Vec<String>,
    /// Clients that fail because something in this repository is wrong.
    broken: Vec<String>,
}

/// A table of the page.
struct Table<'a> {
    task: &'a str,
    /// The names of all of its rows.
    names: &'a [&'a str],
    page: fn(&[Ended]) -> String,
}

impl Runs {
    fn extend(&mut self, rows: impl Iterator<Item = Ended>) {
        for ended in rows {
            println!("{}", table::line(&ended));
            self.rows.push(ended);
        }
    }

    fn not_run(&mut self, client: &str, why: &NotRun) {
        let (list, why) = match why {
            NotRun::Skipped(why) => (&mut self.skipped, why),
            NotRun::Broken(why) => (&mut self.broken, why),
        };
        list.push(format!("{client}: {why}"));
    }

    fn report(&self, root: &Path, chosen: &Chosen<'_>, table: &Table<'_>) -> Result<(), String> {
        let Self { rows, skipped, broken } = self;
        if rows.is_empty() && skipped.is_empty() && broken.is_empty() {
            return Ok(());
        }
        println!("\n{}", (table.page)(rows));
        for why in skipped {
            println!("skipped: {why}");
        }
        let failed: Vec<&Ended> = rows.iter().filter(|row| row.fault.is_some()).collect();
        for row in &failed {
            let fault = row.fault.as_deref().unwrap_or_default();
            eprintln!("failed: {}: {fault}\n{}", table::line(row), row.errors);
        }
        for why in broken {
            eprintln!("failed: {why}");
        }
        let (passed, failed) =
            (rows.len().saturating_sub(failed.len()), failed.len().saturating_add(broken.len()));
        println!("{passed} passed, {failed} failed, {} skipped", skipped.len());
        // The rows of clients that were skipped stay.
        chosen.write(root, table.task, &(table.page)(rows), table.names)?;
        if failed == 0 { Ok(()) } else { Err(format!("{failed} runs of clients")) }
    }
}

impl Chosen<'_> {
    fn has(&self, client: &Client) -> bool {
        if self.names.is_empty() {
            self.is_all || (client.is_in_ci && !self.is_of_programs && !self.is_of_http)
        } else {
            self.names.contains(&client.name)
        }
    }

    fn has_program(&self, program: &Program) -> bool {
        if self.names.is_empty() {
            self.is_all || self.is_of_programs || (program.is_in_ci && !self.is_of_http)
        } else {
            self.names.contains(&program.name)
        }
    }

    fn has_http(&self, client: &HttpClient) -> bool {
        if self.names.is_empty() {
            self.is_all || self.is_of_http
        } else {
            self.names.contains(&client.name)
        }
    }

    fn has_line(&self, line: &ReadmeLine) -> bool {
        if self.names.is_empty() {
            self.is_all || self.is_of_programs || (line.is_in_ci && !self.is_of_http)
        } else {
            self.names.contains(&README)
        }
    }

    /// Puts the rows of a task into its table, if `--write` asks for that. Rows of other names stay.
    fn write(&self, root: &Path, task: &str, page: &str, names: &[&str]) -> Result<(), String> {
        if !self.is_written {
            return Ok(());
        }
        let old = page::read(root, PAGE, task);
        page::write(root, PAGE, task, &table::merged(&old, page, names))
    }

    /// Whether the packages of all are installed at the same time. Together they need the most room.
    const fn installs_at_once(&self) -> bool {
        !self.is_all && !self.is_swept
    }

    /// The groups of packages of the clients and programs.
    fn groups(&self) -> BTreeSet<String> {
        let clients = CLIENTS.iter().filter(|client| self.has(client));
        let programs = PROGRAMS.iter().filter(|program| self.has_program(program));
        clients.map(|it| it.group.to_owned()).chain(programs.map(Program::packages)).collect()
    }

    fn sweep(&self, root: &Path, group: &str) {
        if self.is_swept {
            install::remove(root, group);
        }
    }
}

/// The names of everything that can be run.
fn names() -> impl Iterator<Item = &'static str> {
    let clients = CLIENTS.iter().map(|client| client.name);
    let http = HTTP_CLIENTS.iter().map(|client| client.name);
    clients.chain(http).chain(PROGRAMS.iter().map(|program| program.name)).chain([README])
}

fn chosen<'a>(words: &[&'a str]) -> Result<Chosen<'a>, String> {
    let mut chosen = Chosen::default();
    for word in words {
        match *word {
            "--all" => chosen.is_all = true,
            "--programs" => chosen.is_of_programs = true,
            "--intercept" => chosen.is_of_http = true,
            "--sweep" => chosen.is_swept = true,
            "--write" => chosen.is_written = true,
            name if names().any(|known| known == name) => chosen.names.push(name),
            other => {
                let names: Vec<&str> = names().collect();
                return Err(format!("`{other}` is no client; there are {}", names.join(", ")));
            }
        }
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
