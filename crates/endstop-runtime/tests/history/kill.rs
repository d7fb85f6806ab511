//! Two processes at once, and `kill -9` of them: the calls that were settled are in the history.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use endstop_core::policy::Policy;
use endstop_runtime::store::RunId;
use endstop_runtime::{RunHandle, history::HistoryRecorder};

use super::{Place, info, origin, pricing, program, reply, step, watched};

/// How many times the six kills are repeated each night; where a change is pushed they are not.
const ROUNDS: &str = "ENDSTOP_HISTORY_ROUNDS";
const FILE: &str = "ENDSTOP_KILLED_HISTORY";
/// Set if the child writes through a journal.
const JOURNAL: &str = "ENDSTOP_KILLED_JOURNAL";
/// The prefix of a child's lines; the test harness prints others.
const TOLD: &str = "told:";

#[test]
fn settled_calls_of_two_processes_survive_their_kill() {
    if let Ok(path) = env::var(FILE) {
        work(&path);
        return;
    }
    survives(&Place::new(), false);
}

#[test]
fn settled_calls_in_journals_survive_their_kill() {
    survives(&Place::new(), true);
}

fn survives(place: &Place, has_journal: bool) {
    let mut told = 0;
    let rounds = env::var(ROUNDS).ok().and_then(|rounds| rounds.parse::<u64>().ok()).unwrap_or(1);
    for round in 0..rounds {
        for wanted in [1, 7, 20] {
            let children = [begin(place, has_journal), begin(place, has_journal)];
            for mut child in children {
                told += kill_after(&mut child, wanted + round % 5);
            }
        }
    }
    let mut calls = 0;
    place.history().each_call(None, |_| calls += 1).unwrap();
    // Each child can have settled one call more than it said.
    let most = told + 6 * rounds;
    assert!(told <= calls && calls <= most, "{told} were settled, and {calls} are there");
}

fn begin(place: &Place, has_journal: bool) -> Child {
    let test = "kill::settled_calls_of_two_processes_survive_their_kill";
    Command::new(env::current_exe().unwrap())
        .envs(has_journal.then_some((JOURNAL, "1")))
        .args([test, "--exact", "--nocapture"])
        .env(FILE, place.file())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The child: settles calls, and reports each, until it is killed.
fn work(path: &str) {
    let has_journal = env::var_os(JOURNAL).is_some();
    let recorder = HistoryRecorder::new(path, origin());
    let recorder = if has_journal { recorder.through_journal() } else { recorder };
    let recorder = std::sync::Arc::new(recorder);
    let policy = Policy { unbounded: true, ..Policy::default() };
    let watching = watched(vec![std::sync::Arc::<HistoryRecorder>::clone(&recorder)]);
    let run = RunHandle::root(info(RunId::new()), program(&policy), watching);
    run.begin();
    for call in 1u64.. {
        reply(step(&run, &pricing()));
        run.record_plain(&endstop_core::EventKind::StepEnd);
        // One that the other process kept from being written for too long does not count. A journal has each at once.
        let written = if has_journal { call } else { call - recorder.finish() };
        // Past the harness, which captures output.
        std::io::stdout().write_all(format!("\n{TOLD} {written}\n").as_bytes()).unwrap();
    }
}

/// Kills a child once it has settled so many calls. Returns how many it has said to be settled.
fn kill_after(child: &mut Child, wanted: u64) -> u64 {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let number = |line: &str| line.strip_prefix(TOLD).and_then(|told| told.trim().parse().ok());
    let mut last = 0;
    while last < wanted {
        last = number(&lines.next().unwrap().unwrap()).unwrap_or(last);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for line in lines.map_while(Result::ok) {
        last = number(&line).unwrap_or(last);
    }
    last
}
