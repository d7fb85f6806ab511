//! Tests of `live_runs`.

use serde_json::json;

use super::*;
use crate::live::LiveProcess;

fn live_runs(no_answer: &[u32], rows: &[(usize, &str, &str)]) -> LiveRuns {
    let process = |pid| LiveProcess {
        pid,
        kind: "serve".to_owned(),
        command: String::new(),
        limits: String::new(),
        started: String::new(),
        socket: "/nowhere".into(),
    };
    let runs = rows.iter().map(|(gateway, id, status)| LiveRun {
        gateway: *gateway,
        id: (*id).to_owned(),
        value: json!({ "run": id, "status": status }),
    });
    LiveRuns {
        gateways: (10..13).map(|pid| Gateway::local(process(pid))).collect(),
        runs: each_once(runs.collect()),
        no_answer: no_answer.to_vec(),
    }
}

fn pids(found: &[(&Gateway, &LiveRun)]) -> Vec<u32> {
    found.iter().filter_map(|(gateway, _)| Some(gateway.process()?.pid)).collect()
}

#[test]
fn a_run_in_a_shared_store_is_that_of_the_gateway_which_has_it_in_memory() {
    let live_runs = live_runs(
        &[],
        &[
            (0, "job-1", "stored"),
            (0, "rests", "stored"),
            (1, "job-1", "paused"),
            (2, "rests", "stored"),
        ],
    );
    assert_eq!(pids(&live_runs.find_all("job-1").unwrap()), [11]);
    assert_eq!(pids(&[live_runs.find("job-").unwrap()]), [11]);
    assert_eq!(pids(&live_runs.find_all("rests").unwrap()), [10]);
    assert_eq!(live_runs.runs.len(), 2);
}

#[test]
fn a_run_of_one_name_in_several_processes_is_not_taken_for_one() {
    let live_runs = live_runs(
        &[],
        &[(0, "job-1", "paused"), (2, "job-1", "in_progress"), (2, "job-2", "paused")],
    );
    let error = live_runs.find("job-1").err().unwrap();
    assert_eq!(error.message, "run `job-1` is in 2 processes (pids 10, 12)");
    assert_eq!(pids(&live_runs.find_all("job-1").unwrap()), [10, 12]);
    let error = live_runs.find_all("job-").err().unwrap();
    assert_eq!(error.message, "`job-` matches 2 runs");
    assert_eq!(error.hint.as_deref(), Some("write more of it: job-1, job-2"));
}

#[test]
fn the_beginning_of_a_name_is_not_taken_while_a_process_does_not_answer() {
    let live_runs = live_runs(&[12, 13], &[(0, "job-1", "paused")]);
    assert!(live_runs.find("job-1").is_ok());
    assert!(live_runs.find("job-").is_err());
    let hint = live_runs.find("other").err().unwrap().hint.unwrap();
    assert_eq!(hint, "no answer from 2 processes: only whole names of runs are taken now");
}
