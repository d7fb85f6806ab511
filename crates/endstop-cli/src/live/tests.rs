//! Tests of `live`.

use std::os::unix::net::UnixListener;

use super::*;

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
