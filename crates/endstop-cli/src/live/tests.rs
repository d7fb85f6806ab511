//! Tests of `live`.

use std::os::unix::net::UnixListener;

use super::*;
use crate::golden_file::golden;

#[test]
fn a_dead_process_is_removed_and_a_live_one_stays() {
    let directory = std::env::temp_dir().join(format!("endstop-l{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    let enter = |pid: u32| {
        let socket = directory.join(format!("{pid}.sock"));
        let text = json!({ "version": 1, "pid": pid, "kind": "run", "command": "agent",
            "limits": "steps >= 1", "started": "2026-01-01T00:00:00Z", "socket": socket });
        fs::write(directory.join(format!("{pid}.{SUFFIX}")), text.to_string()).unwrap();
        UnixListener::bind(&socket).unwrap()
    };
    let live = enter(1);
    drop(enter(2));
    fs::write(directory.join("3.live.json"), "{\"version\":9}").unwrap();
    let found = look_in(&directory);
    let pids: Vec<u32> = found.live.iter().map(|process| process.pid).collect();
    assert_eq!((pids, found.dead), (vec![1], vec![2]));
    assert!(!directory.join("2.sock").exists());
    assert_eq!(look_in(&directory).dead, [0_u32; 0]);
    fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert!(look_in(&directory).live.is_empty(), "others could have put it there");
    drop(live);
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn an_entry_of_version_1_is_written_and_read() {
    let directory = std::env::temp_dir().join(format!("endstop-g{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    let process = LiveProcess {
        pid: 4711,
        kind: "serve".to_owned(),
        command: "endstop serve --usd 2 --keys keys.jsonl".to_owned(),
        limits: "cost >= $2.00".to_owned(),
        started: "2026-11-25T12:00:00Z".to_owned(),
        socket: "/run/user/1000/endstop/run-4711.sock".into(),
    };
    let registration = register_in(&directory, &process).unwrap();
    let entry = directory.join("4711.live.json");
    let stored = golden("live-run-v1.json", &fs::read_to_string(&entry).unwrap(), &[]);
    drop(registration);
    fs::write(&entry, stored).unwrap();
    assert_eq!(entries(&directory), [(entry, process)]);
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn of_entries_with_one_socket_the_latest_is_the_process() {
    let directory = std::env::temp_dir().join(format!("endstop-s{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    let socket = directory.join("8484.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let process = |pid: u32, started: &str| LiveProcess {
        pid,
        kind: "serve".to_owned(),
        command: String::new(),
        limits: String::new(),
        started: started.to_owned(),
        socket: socket.clone(),
    };
    let pids = || -> Vec<u32> {
        let entries = entries(&directory);
        entries.into_iter().map(|(_, process)| process.pid).collect()
    };
    // Killed processes of a version that left their entries.
    for (pid, started) in [(7, "2026-01-01T00:00:00.5Z"), (9, "2026-01-01T00:00:00Z")] {
        let text = json!({ "version": 1, "pid": pid, "kind": "serve", "command": "",
            "limits": "", "started": started, "socket": socket });
        fs::write(directory.join(format!("{pid}.{SUFFIX}")), text.to_string()).unwrap();
    }
    let found = look_in(&directory);
    assert_eq!((found.live, found.dead), (vec![process(7, "2026-01-01T00:00:00.5Z")], vec![9]));
    assert_eq!(pids(), [7]);
    let registration = register_in(&directory, &process(8, "2026-01-02T00:00:00Z")).unwrap();
    assert_eq!(pids(), [8]);
    assert!(is_there(&process(8, "")));
    drop((registration, listener));
    assert!(pids().is_empty() && !is_there(&process(8, "")));
    fs::remove_dir_all(&directory).unwrap();
}
