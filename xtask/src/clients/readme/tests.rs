//! Tests of `readme`.

use super::*;

#[test]
fn readme_has_a_line_for_each_named_program() {
    let root = crate::root::root();
    let lines = lines(&root).unwrap();
    let programs: Vec<&str> = lines.iter().map(|line| line.program).collect();
    assert_eq!(programs, ["claude", "codex", "python"]);
    let groups: Vec<String> = lines.iter().map(ReadmeLine::packages).collect();
    assert_eq!(groups, ["program-claude", "program-codex", "sdk"]);
    let in_ci: Vec<bool> = lines.iter().map(|line| line.is_in_ci).collect();
    assert_eq!(in_ci, [false, true, true]);
    let choices: Vec<&str> = lines.iter().map(|line| line.choice).collect();
    assert_eq!(choices, ["README:claude", "README:codex", "README:python"]);
    assert!(root.join(DIRECTORY).join(AGENT).exists());
}

#[test]
fn other_lines_are_left_out() {
    let text = "text endstop run -- codex\nendstop run --upstream sim -- endstop demo-agent\n\
                endstop run --usd 2 -- codex exec \"x\"\nendstop demo\n";
    let lines: Vec<String> = lines_of(text).into_iter().map(|line| line.text).collect();
    assert_eq!(lines, ["endstop run --usd 2 -- codex exec \"x\""]);
}

#[test]
fn each_fault_of_a_line_is_told() {
    let right = || LineRun {
        counts: Counts { calls: Some(40), stop_responses: Some(1) },
        connections: Connections { refused: 1, ..Connections::default() },
        code: Some(124),
        ..LineRun::default()
    };
    assert_eq!(fault(&right()), None);
    assert!(fault(&LineRun { code: Some(0), ..right() }).is_some());
    let none = Counts { calls: Some(0), ..Counts::default() };
    assert!(fault(&LineRun { counts: none, ..right() }).is_some());
    assert!(fault(&LineRun { counts: Counts::default(), ..right() }).is_some());
    let connections = Connections { direct: 1, ..Connections::default() };
    assert!(fault(&LineRun { connections, ..right() }).is_some());
}
