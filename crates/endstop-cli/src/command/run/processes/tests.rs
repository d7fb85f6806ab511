//! Tests of `processes`.

use super::*;

#[test]
fn a_name_may_hold_anything() {
    let entry = parse(7, "7 (a) S 99 (b) S 3 7 8 0 -1").unwrap();
    assert_eq!((entry.group, entry.session), (7, 8));
    assert_eq!((entry.parent, entry.name.as_str(), entry.is_dead), (3, "a) S 99 (b", false));
    assert!(parse(7, "7 (a) Z 3 7 7").unwrap().is_dead);
    for broken in ["", "7", "7 (a", "7 (a)", "7 (a) S", "7 (a) S x", "7 (a) S 3 7", ")("] {
        assert!(parse(7, broken).is_none(), "{broken}");
    }
}

#[test]
fn processes_below_are_found_at_any_depth_and_circles_end() {
    let entry = |pid: i32, parent, is_dead| {
        let name = pid.to_string();
        ProcessEntry { pid, parent, group: pid, session: 1, name, is_dead }
    };
    let entries = vec![
        entry(2, 1, false),
        entry(3, 2, true),
        entry(4, 3, false),
        entry(9, 8, false),
        entry(1, 4, false),
    ];
    let found: Vec<i32> = below(1, entries).iter().map(|entry| entry.pid).collect();
    assert_eq!(found, [2, 3, 4], "parents first");
}

#[test]
fn only_groups_of_the_commands_own_are_ended() {
    let entry = |group, session| {
        let name = String::new();
        ProcessEntry { pid: 50, parent: 7, group, session, name, is_dead: false }
    };
    let main_group = Pid::from_raw(40);
    let known = BTreeSet::from([40, 41]);
    let sweep = KillSweep { own: 7, session: Some(3), main_group, known };
    assert!(sweep.is_own_group(&entry(41, 3)), "led by a process of the command");
    assert!(sweep.is_own_group(&entry(60, 50)), "in a separate session");
    assert!(!sweep.is_own_group(&entry(3, 3)), "the shell's");
    assert!(!sweep.is_own_group(&entry(0, 50)) && !sweep.is_own_group(&entry(1, 50)));
}
