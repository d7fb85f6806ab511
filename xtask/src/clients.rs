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
mod progress;
mod readme;
mod run;
mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::page;
use install::Packages;
pub(crate) use install::version;
use intercept::{HTTP_CLIENTS, HttpClient};
use list::{CLIENTS, Client};
use programs::{PROGRAMS, Program, ProgramRun};
use progress::Progress;
use readme::{README, ReadmeLine};
use run::Ended;

/// The page that has the table.
const PAGE: &str = "docs/clients.md";

/// Installs a group of Python packages, unless it is installed. Returns its interpreter.
///
/// # Errors
/// If a package manager fails, or the group is not described.
pub(crate) fn python(root: &Path, group: &str) -> Result<PathBuf, String> {
    let installed = Packages::new(root).install(group);
    installed.map(|it| it.interpreter).map_err(install::NotRun::into_text)
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
/// `--intercept`, those named, and otherwise those that run for each change. With `--write` puts the rows of each client
/// into their page when it has ended, so that a later one that takes too long loses none.
///
/// # Errors
/// If a client did not do as it should, or the binary cannot be built.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let chosen = chosen(words)?;
    let endstop = build(root)?;
    let lines = readme::lines(root)?;
    let lines: Vec<&ReadmeLine> = lines.iter().filter(|line| chosen.has_line(line)).collect();
    let packages = Packages::new(root);
    let progress = Progress::new(chosen.rows().saturating_add(lines.len()));
    let mut groups = BTreeSet::new();
    if chosen.installs_at_once() {
        groups = chosen.groups();
        groups.extend(lines.iter().map(|line| line.packages()));
    }
    let (chosen, packages) = (&chosen, &packages);
    let mut task = ClientTask { root, endstop: &endstop, chosen, packages, progress };
    std::thread::scope(|scope| {
        // Most of an installation waits for the network: all start now, while the first clients run. Each client waits for its
        // own packages, and reports those that cannot be had.
        for group in groups {
            scope.spawn(move || packages.install(&group).ok());
        }
        let clients = task.run_clients();
        let http = task.run_http();
        let programs = task.run_programs();
        task.run_readme(&lines);
        println!("\n{}", task.progress.total());
        clients.and(http).and(programs).and_then(|()| task.progress.result())
    })
}

/// One call of `cargo xtask clients`.
struct ClientTask<'a> {
    root: &'a Path,
    endstop: &'a Path,
    chosen: &'a Chosen<'a>,
    packages: &'a Packages<'a>,
    progress: Progress,
}

/// A table of the page.
struct Table {
    task: &'static str,
    /// The names of all of its rows.
    names: Vec<&'static str>,
    page: fn(&[Ended]) -> String,
}

impl ClientTask<'_> {
    fn run_readme(&mut self, lines: &[&ReadmeLine]) {
        for line in lines {
            let name = format!("{README}: {}", line.text);
            self.progress.begins(&name);
            match line.run(self.root, self.endstop, self.packages) {
                Ok(how) => self.progress.ends(&name, &format!("ok     {name}: {how}"), None, ""),
                Err(why) => self.progress.is_not_run(&name, 1, &why),
            }
            self.sweep(&line.packages());
        }
    }

    fn run_clients(&mut self) -> Result<(), String> {
        let chosen = self.chosen;
        let clients: Vec<&Client> = CLIENTS.iter().filter(|client| chosen.has(client)).collect();
        let names = CLIENTS.iter().map(|client| client.name).collect();
        let table = Table { task: "clients --all", names, page: table::page };
        let mut rows: Vec<Ended> = Vec::new();
        for of_group in clients.chunk_by(|one, next| one.group == next.group) {
            for client in of_group {
                rows.extend(self.run_client(&table, client)?);
            }
            of_group.first().into_iter().for_each(|it| self.sweep(it.group));
        }
        print_table(&table, &rows);
        Ok(())
    }

    /// Runs a client on all of its interfaces, and puts its rows into the table.
    fn run_client(&mut self, table: &Table, client: &Client) -> Result<Vec<Ended>, String> {
        let place = match self.packages.install(client.group) {
            Ok(place) => place,
            Err(why) => {
                self.progress.is_not_run(client.name, client.rows(), &why);
                return Ok(Vec::new());
            }
        };
        let mut rows = Vec::new();
        for &api in client.apis {
            self.progress.begins(&format!("{} {api}", client.name));
            let both = run::both(self.root, self.endstop, &place, client, api);
            self.print_ends(&both);
            rows.extend(both);
        }
        self.write(table, &rows)?;
        Ok(rows)
    }

    fn run_http(&mut self) -> Result<(), String> {
        let chosen = self.chosen;
        let names = HTTP_CLIENTS.iter().map(|client| client.name).collect();
        let table = Table { task: "clients --intercept", names, page: intercept::page };
        let mut rows: Vec<Ended> = Vec::new();
        for client in HTTP_CLIENTS.iter().filter(|client| chosen.has_http(client)) {
            self.progress.begins(client.name);
            match intercept::both(self.root, self.endstop, self.packages, client) {
                Ok(both) => {
                    self.print_ends(&both);
                    self.write(&table, &both)?;
                    rows.extend(both);
                }
                Err(why) => self.progress.is_not_run(client.name, intercept::ROWS, &why),
            }
        }
        print_table(&table, &rows);
        Ok(())
    }

    fn run_programs(&mut self) -> Result<(), String> {
        let chosen = self.chosen;
        let mut rows: Vec<ProgramRun> = Vec::new();
        let programs: Vec<&Program> = PROGRAMS.iter().filter(|it| chosen.has_program(it)).collect();
        for of_group in programs.chunk_by(|one, next| one.packages() == next.packages()) {
            for program in of_group {
                self.progress.begins(program.name);
                match programs::one(self.root, self.endstop, self.packages, program) {
                    Ok(row) => rows.push(self.program_ended(program, row)?),
                    Err(why) => self.progress.is_not_run(program.name, 1, &why),
                }
            }
            of_group.first().into_iter().for_each(|it| self.sweep(&it.packages()));
        }
        if !rows.is_empty() {
            println!("\n{}", programs::page(&rows));
        }
        Ok(())
    }

    /// Prints how a program ended, and puts its row into the table, which also shows the programs that failed, and how.
    fn program_ended(&mut self, program: &Program, row: ProgramRun) -> Result<ProgramRun, String> {
        let line = programs::line(&row);
        self.progress.ends(program.name, &line, row.fault.as_deref(), &row.output);
        let page = programs::page(std::slice::from_ref(&row));
        self.chosen.write(self.root, "clients --programs", &page, &programs::names())?;
        Ok(row)
    }

    fn print_ends(&mut self, rows: &[Ended]) {
        for row in rows {
            let line = table::line(row);
            self.progress.ends(row.client, &line, row.fault.as_deref(), &row.errors);
        }
    }

    /// Puts all rows of a client into their table. Rows of other clients stay.
    fn write(&self, table: &Table, rows: &[Ended]) -> Result<(), String> {
        self.chosen.write(self.root, table.task, &(table.page)(rows), &table.names)
    }

    fn sweep(&self, group: &str) {
        if self.chosen.is_swept {
            self.packages.remove(group);
        }
    }
}

fn print_table(table: &Table, rows: &[Ended]) {
    if !rows.is_empty() {
        println!("\n{}", (table.page)(rows));
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
            self.names.contains(&README) || self.names.contains(&line.choice)
        }
    }

    /// Rows of the clients and programs.
    fn rows(&self) -> usize {
        let clients = CLIENTS.iter().filter(|client| self.has(client)).map(Client::rows);
        let http = HTTP_CLIENTS.iter().filter(|client| self.has_http(client));
        let programs = PROGRAMS.iter().filter(|program| self.has_program(program));
        clients.chain(http.map(|_| intercept::ROWS)).chain(programs.map(|_| 1)).sum()
    }

    /// Puts the rows of a task into its table, if `--write` asks for that. Rows of other names stay.
    fn write(&self, root: &Path, task: &str, page: &str, names: &[&str]) -> Result<(), String> {
        if !self.is_written {
            return Ok(());
        }
        page::merge(root, PAGE, task, page, names)
    }

    /// Whether the packages of all are installed at the same time, while the first clients run. Together they need the most
    /// room.
    const fn installs_at_once(&self) -> bool {
        !self.is_all && !self.is_swept
    }

    /// The groups of packages of the clients and programs.
    fn groups(&self) -> BTreeSet<String> {
        let clients = CLIENTS.iter().filter(|client| self.has(client));
        let programs = PROGRAMS.iter().filter(|program| self.has_program(program));
        clients.map(|it| it.group.to_owned()).chain(programs.map(Program::packages)).collect()
    }
}

/// The names of everything that can be run.
fn names() -> impl Iterator<Item = &'static str> {
    let clients = CLIENTS.iter().map(|client| client.name);
    let http = HTTP_CLIENTS.iter().map(|client| client.name);
    let programs = PROGRAMS.iter().map(|program| program.name);
    clients.chain(http).chain(programs).chain([README]).chain(readme::choices())
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
