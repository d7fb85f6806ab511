//! `cargo xtask clients`: real clients that loop for ever, under `endstop run --steps 3`.
//!
//! Each client is a program in `tests/clients`; its packages are installed below `target/clients` once. It has to end
//! by itself on the first answer that says that its run has stopped, with exactly three calls behind it. Where Python,
//! Node or their packages cannot be had, the task says what it skipped.

mod install;
mod list;
mod run;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::page;
use install::Installed;
use list::{CLIENTS, Client};
use run::Ended;

/// The page that has the table.
const PAGE: &str = "docs/clients.md";

/// Which clients are run.
#[derive(Debug, Default)]
struct Chosen<'a> {
    is_all: bool,
    is_written: bool,
    names: Vec<&'a str>,
}

/// Runs clients: all with `--all`, those named, else those that are run for each change (`--ci`). With `--write` puts
/// the table into its page.
///
/// # Errors
/// If a client did not do as it should, or the binary cannot be built.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let chosen = chosen(words)?;
    let clients: Vec<&Client> = CLIENTS.iter().filter(|client| chosen.has(client)).collect();
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
    report(root, &chosen, &rows, &skipped)
}

fn report(
    root: &Path,
    chosen: &Chosen<'_>,
    rows: &[Ended],
    skipped: &[String],
) -> Result<(), String> {
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
            self.is_all || client.is_in_ci
        } else {
            self.names.contains(&client.name)
        }
    }
}

fn chosen<'a>(words: &[&'a str]) -> Result<Chosen<'a>, String> {
    let mut chosen = Chosen::default();
    for word in words {
        match *word {
            "--all" => chosen.is_all = true,
            "--ci" => {}
            "--write" => chosen.is_written = true,
            name if CLIENTS.iter().any(|client| client.name == name) => chosen.names.push(name),
            other => {
                let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
                return Err(format!("`{other}` is no client; there are {}", names.join(", ")));
            }
        }
    }
    if chosen.is_written && !(chosen.is_all && chosen.names.is_empty()) {
        return Err("`--write` needs `--all`: the page has all clients".to_owned());
    }
    Ok(chosen)
}

/// Builds the binary with what the test command has built already: of the same packages, features and kinds.
const AS_THE_TESTS: [&str; 7] =
    ["build", "--quiet", "--workspace", "--features", "endstop/otel", "--bins", "--examples"];

/// Builds the binary; gives its path.
fn build(root: &Path) -> Result<PathBuf, String> {
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
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<&'static str> {
        let chosen = chosen(words).unwrap();
        CLIENTS.iter().filter(|client| chosen.has(client)).map(|client| client.name).collect()
    }

    #[test]
    fn a_change_is_tried_on_the_sdks_and_four_frameworks_and_all_on_demand() {
        let few = names(&[]);
        assert_eq!(few, names(&["--ci"]));
        for name in ["openai", "anthropic", "openai-node", "anthropic-node"] {
            assert!(few.contains(&name), "{name}");
        }
        for name in ["langgraph", "autogen", "smolagents", "openai-agents"] {
            assert!(few.contains(&name), "{name}");
        }
        assert_eq!(names(&["--all"]).len(), CLIENTS.len());
        assert!(few.len() < CLIENTS.len());
    }

    #[test]
    fn clients_are_chosen_by_name() {
        assert_eq!(names(&["vercel-ai"]), ["vercel-ai"]);
        assert!(chosen(&["nobody"]).unwrap_err().contains("crewai"));
        assert!(chosen(&["--write"]).is_err());
        assert!(chosen(&["--all", "--write"]).is_ok());
    }

    #[test]
    fn each_client_has_its_program_and_a_pinned_version() {
        let root = crate::root::root();
        for client in CLIENTS {
            assert!(root.join(list::DIRECTORY).join(client.program).exists(), "{}", client.program);
            let version = install::version(&root, client.group, client.package).unwrap();
            assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
        }
    }
}
