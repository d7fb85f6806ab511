//! Tests of `programs`.

use super::*;

fn right() -> ProgramRun {
    let counts = Counts { calls: Some(3), stop_responses: Some(1) };
    ProgramRun {
        name: "x",
        counts,
        code: Some(124),
        says_why: true,
        shows_reason: true,
        ..ProgramRun::default()
    }
}

#[test]
fn each_fault_of_a_program_is_told() {
    assert_eq!(fault(&right(), 1), None);
    let counts = |calls, stop_responses| {
        fault(&ProgramRun { counts: Counts { calls, stop_responses }, ..right() }, 1)
    };
    assert!(counts(Some(4), Some(1)).is_some() && counts(None, Some(1)).is_some());
    assert!(counts(Some(3), Some(2)).is_some());
    assert!(fault(&ProgramRun { code: Some(0), ..right() }, 1).is_some());
    let connections = Connections { refused: 1, ..Connections::default() };
    assert!(fault(&ProgramRun { connections, ..right() }, 1).is_some());
    assert_eq!(fault(&ProgramRun { connections, calls_home: true, ..right() }, 1), None);
    let connections = Connections { direct: 1, ..connections };
    assert!(fault(&ProgramRun { connections, calls_home: true, ..right() }, 1).is_some());
    assert!(fault(&right(), 3).is_some());
    let silent = ProgramRun { says_why: false, ..right() };
    assert!(fault(&silent, 1).is_some());
    assert_eq!(fault(&ProgramRun { shows_reason: false, ..silent }, 1), None);
}

#[test]
fn a_program_that_endstop_had_to_end_has_not_ended_on_its_own() {
    let signal = || Some("SIGTERM".to_owned());
    let signals = EndSignals { command: signal(), left_behind: None };
    let told = fault(&ProgramRun { signals, leaves_daemon: true, ..right() }, 1);
    assert_eq!(told.unwrap(), "it did not end on its own: Endstop sent SIGTERM");
    let left = || EndSignals { command: None, left_behind: signal() };
    assert!(fault(&ProgramRun { signals: left(), ..right() }, 1).is_some());
    let known = ProgramRun { signals: left(), leaves_daemon: true, ..right() };
    assert_eq!(fault(&known, 1), None);
    assert!(page(&[known]).contains("on its own, in 0 s; SIGTERM ended what it left behind |"));
}

#[test]
fn the_table_has_programs_that_failed_and_those_that_could_not_be_had() {
    let failed = ProgramRun { fault: Some("a | b".to_owned()), ..right() };
    let page = page(&[right(), failed]);
    assert!(page.contains("| x |  |  |  |  | 3 | 1 | 0 | 124 | on its own, in 0 s |"), "{page}");
    assert!(page.contains("| 124 | a / b |"), "{page}");
    assert!(page.contains("| goose | - | not yet |"), "{page}");
}

#[test]
fn each_program_has_a_pinned_version() {
    let root = crate::root::root();
    for program in PROGRAMS {
        let version = version(&root, &program.packages(), program.package).unwrap();
        assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
    }
}
