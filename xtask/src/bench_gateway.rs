//! `cargo xtask bench gateway`: what a call costs through Endstop, and through other gateways, in one run.
//!
//! The gateway under test has core 0, clients and upstream have core 1. All gateways run at the same time and
//! are measured in turns, round after round, so that a busy machine is busy for each of them. Each round starts those that
//! start quickly again: a process keeps the places in memory that it got at its start, and two of one program can differ by a half.
//! Nothing here fails by time. An earlier revision of Endstop is one more of them.

mod goals;
mod measure;
mod peers;
mod process;
mod subjects;
mod table;

pub(crate) use peers::{LITELLM, litellm_program, random_word};
pub(crate) use process::free_address;
pub(crate) use table::machine;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use measure::{CASES, Memory, Taken};
use process::Running;
use subjects::{OURS, SUBJECTS, Subject};

use crate::against::{self, Figures};

/// How long starting and measuring may take; builds and installations come before.
const LONGEST: Duration = Duration::from_secs(14 * 60);
const LONGEST_QUICK: Duration = Duration::from_secs(170);

/// The options of the command line.
#[derive(Debug)]
struct Options {
    rounds: usize,
    /// By how much windows are shorter than usual.
    shorter: u64,
    only: Vec<String>,
    built: Built,
    earlier: Option<Earlier>,
}

/// An earlier `endstop`, which is compared with today's.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Earlier {
    Revision(String),
    Program(PathBuf),
}

/// Where the command `endstop` comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Built {
    /// It is built here, as it is released.
    Here,
    /// It was built before.
    Before(PathBuf),
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options =
            Self { rounds: 5, shorter: 1, only: Vec::new(), built: Built::Here, earlier: None };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--quick" => (options.rounds, options.shorter) = (2, 3),
                "--binary" => {
                    options.built = Built::Before(program_after(word, words.next())?);
                }
                "--against" => {
                    let revision = words.next().ok_or("--against needs a revision")?;
                    options.earlier = Some(Earlier::Revision((*revision).to_owned()));
                }
                "--binary-before" => {
                    options.earlier = Some(Earlier::Program(program_after(word, words.next())?));
                }
                "--only" => options.only.extend(words.by_ref().map(|&name| name.to_owned())),
                other => {
                    return Err(format!(
                        "`{other}` is unknown; there are --quick, --binary FILE, --against REV, \
                         --binary-before FILE and --only NAME.."
                    ));
                }
            }
        }
        let known = |name: &String| SUBJECTS.iter().any(|subject| subject.name == name);
        if let Some(name) = options.only.iter().find(|name| !known(name)) {
            let names: Vec<_> = SUBJECTS.iter().map(|subject| subject.name).collect();
            return Err(format!("no gateway `{name}`; there are {}", names.join(", ")));
        }
        if options.earlier.is_some() {
            let both = OURS.iter().flat_map(|(today, before)| [*today, *before]);
            options.only.extend(both.map(str::to_owned));
        }
        Ok(options)
    }

    fn is_quick(&self) -> bool {
        self.shorter > 1
    }

    fn has(&self, subject: &Subject) -> bool {
        // Everything else is compared with it.
        subject.name == "direct"
            || (self.only.is_empty() && !subjects::is_before(subject.name))
            || self.only.iter().any(|n| n == subject.name)
    }
}

/// The path of an `endstop` that an option names.
fn program_after(option: &str, word: Option<&&str>) -> Result<PathBuf, String> {
    let path = word.ok_or_else(|| format!("{option} needs the path of an `endstop`"))?;
    std::path::absolute(path).map_err(|error| error.to_string())
}

/// Where things are.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    /// The files that are built, installed and written.
    directory: PathBuf,
    /// The program with both ends.
    ends: PathBuf,
    upstream: SocketAddr,
    built: Built,
    /// An earlier `endstop`.
    before: Option<PathBuf>,
}

/// A gateway that runs, and what was found about it.
#[derive(Debug)]
struct Measured {
    name: &'static str,
    /// `None` if it could not be started again.
    running: Option<Running>,
    taken: Taken,
    memory: Memory,
}

impl Measured {
    /// Starts it again, unless that takes too long.
    fn restart(&mut self, place: &Place) {
        let Some(running) = self.running.take_if(|it| it.can_restart()) else { return };
        self.memory.note_end(process::resident_mib(&running));
        let again = running.restarted(place, self.name);
        match again.and_then(|running| measure::first_calls(place, running)) {
            Ok(running) => self.running = Some(running),
            Err(why) => self.taken.note(format!("started again: {why}")),
        }
    }
}

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let options = Options::parse(words)?;
    let place = prepare(root, &options)?;
    let (mut launches, mut skipped) = (Vec::new(), Vec::new());
    for subject in SUBJECTS.iter().filter(|subject| options.has(subject)) {
        match (subject.prepare)(&place) {
            Ok(launch) => launches.push((subject, launch)),
            Err(why) => {
                println!("skipped: {}: {why}", subject.name);
                skipped.push(format!("{}: {why}", subject.name));
            }
        }
    }
    let begun = Instant::now();
    process::end_all_after(if options.is_quick() { LONGEST_QUICK } else { LONGEST });
    let upstream = Running::upstream(&place)?;
    let mut all = Vec::new();
    for (subject, launch) in launches {
        let started = Running::start(&place, subject.name, launch, &upstream);
        match started.and_then(|running| measure::first_calls(&place, running)) {
            Ok(running) => {
                println!("{}: runs", subject.name);
                let memory = measure::memory(&place, &running, options.is_quick());
                let (name, running) = (subject.name, Some(running));
                all.push(Measured { name, running, taken: Taken::default(), memory });
            }
            Err(why) => {
                println!("skipped: {}: {why}", subject.name);
                skipped.push(format!("{}: {why}", subject.name));
            }
        }
    }
    for round in 1..=options.rounds {
        println!("round {round} of {}", options.rounds);
        for measured in &mut all {
            measured.restart(&place);
            let Some(running) = &measured.running else { continue };
            for case in CASES {
                measured.taken.add(case.name, measure::one(&place, running, case, options.shorter));
            }
        }
    }
    for measured in &mut all {
        measured.memory.note_end(measured.running.as_ref().and_then(process::resident_mib));
    }
    println!("\n{}", table::machine());
    println!("{}", table::all(&all, &skipped));
    println!("{}", goals::all(&all));
    if options.earlier.is_some() {
        println!("{}", beside_before(&all));
    }
    println!("measured in {} s", begun.elapsed().as_secs());
    Ok(())
}

/// Today's gateway and the earlier one: medians of all rounds, in one table.
fn beside_before(all: &[Measured]) -> String {
    let (mut today, mut before) = (Figures::default(), Figures::default());
    for (name, earlier) in OURS {
        for (figures, measured) in [(&mut today, name), (&mut before, earlier)] {
            let Some(measured) = table::named(all, measured) else { continue };
            for figure in measured.taken.figures(name) {
                figures.add(figure);
            }
        }
    }
    against::table(&before, &today)
}

/// Builds both ends, and the earlier gateway; the gateways are built or installed by their own rows.
fn prepare(root: &Path, options: &Options) -> Result<Place, String> {
    let directory = root.join("target/bench-gateway");
    std::fs::create_dir_all(&directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    let status = Command::new("cargo")
        .args(["build", "--release", "--target-dir"])
        .arg(directory.join("build"))
        .current_dir(root.join("benches/gateway"))
        .status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("the two ends of the benchmark do not build".to_owned());
    }
    let before = match &options.earlier {
        None => None,
        Some(Earlier::Program(path)) if !path.exists() => {
            return Err(format!("there is no {}", path.display()));
        }
        Some(Earlier::Program(path)) => Some(path.clone()),
        Some(Earlier::Revision(revision)) => Some(against::endstop_of(root, revision)?),
    };
    Ok(Place {
        root: root.to_path_buf(),
        ends: directory.join("build/release/gateway-load"),
        directory,
        upstream: process::free_address()?,
        built: options.built.clone(),
        before,
    })
}

#[cfg(test)]
mod tests;
