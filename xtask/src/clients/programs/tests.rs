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
fn a_program_with_interception_has_to_call_its_providers_own_host() {
    let way = Way::Intercept.name();
    assert!(fault(&ProgramRun { way, ..right() }, 1).is_some());
    let connections = Connections { intercepted: 2, ..Connections::default() };
    assert_eq!(fault(&ProgramRun { way, connections, ..right() }, 1), None);
    // One that ended the connection had no limit, and none that was refused was answered.
    for connections in [
        Connections { untrusted: 1, ..connections },
        Connections { refused: 1, ..connections },
        Connections { direct: 1, ..connections },
    ] {
        assert!(fault(&ProgramRun { way, connections, ..right() }, 1).is_some());
    }
}

#[test]
fn codex_and_claude_are_run_with_interception_as_they_are_without_it() {
    for (name, native) in [("codex", "codex --intercept"), ("claude", "claude --intercept")] {
        let find = |name: &str| PROGRAMS.iter().find(|program| program.name == name).unwrap();
        let (program, native) = (find(name), find(native));
        assert_eq!((program.packages(), program.command), (native.packages(), native.command));
        assert_eq!(native.way.flags(), ["--intercept"]);
        assert_eq!(native.way.flags_of_doctor(), ["--intercept"]);
        assert!(program.way.flags().is_empty() && !native.calls_home);
    }
    let only: Vec<&str> = PROGRAMS
        .iter()
        .filter(|program| program.way == Way::InterceptOnly)
        .map(|program| program.name)
        .collect();
    assert_eq!(only, ["llm-gemini"]);
    assert!(Way::InterceptOnly.flags_of_doctor().is_empty());
}

#[test]
fn codex_is_also_run_without_its_adapter_and_has_to_be_ended_by_the_guard() {
    let unadapted = PROGRAMS.iter().filter(|program| program.unadapted.is_some());
    assert_eq!(unadapted.map(|program| program.name).collect::<Vec<_>>(), ["codex"]);
    let ends = |script: &str| is_ended_by_the_guard(Command::new("sh").args(["-c", script]));
    let line = "endstop: ended the command:\n  refused 9 connections to api.openai.com";
    assert_eq!(ends(&format!("echo '{line}' >&2; exit 125")), Ok(()));
    assert!(ends(&format!("echo '{line}' >&2; exit 1")).is_err());
    // It was not started, or no call came.
    assert!(ends("echo 'error: no limit would apply' >&2; exit 125").is_err());
}

#[test]
fn programs_of_the_same_packages_follow_each_other() {
    // Their packages are removed after the last of them.
    let groups = PROGRAMS.chunk_by(|one, next| one.packages() == next.packages());
    let groups: Vec<String> = groups.map(|of_group| of_group[0].packages()).collect();
    let different: std::collections::BTreeSet<&String> = groups.iter().collect();
    assert_eq!(different.len(), groups.len(), "{groups:?}");
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

/// The cells of the rows of the page.
fn rows_of_page() -> Vec<Vec<String>> {
    let text = crate::page::read(&crate::root::root(), super::super::PAGE, "clients --programs");
    let rows = text.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    rows.map(cells).collect()
}

#[test]
fn the_page_has_18_programs_that_are_limited_and_none_that_goes_around_unnoticed() {
    let mut limited = std::collections::BTreeSet::new();
    for row in rows_of_page() {
        let [name, _, way, doctor, _, calls, _, refused, code, how] = row.as_slice() else {
            panic!("{row:?}")
        };
        if way == "not yet" {
            continue;
        }
        let program = PROGRAMS.iter().find(|program| program.name == name);
        let program = program.unwrap_or_else(|| panic!("{name} is no program of this task"));
        assert_eq!(program.way.name(), way, "{name}");
        assert!(doctor == way || doctor == "no, use --intercept", "{name}: {doctor}");
        assert_eq!((calls.as_str(), code.as_str()), ("3", "124"), "{name}");
        assert!(how.starts_with("on its own, "), "{name}: {how}");
        assert!(refused == "0" || program.calls_home, "{name}: {refused} refused");
        limited.insert(name.split(' ').next().unwrap_or_default().to_owned());
    }
    assert!(limited.len() >= 18, "{}: {limited:?}", limited.len());
}

#[test]
fn the_page_names_every_key_that_the_task_makes_up_and_every_program_with_two_modes() {
    let page = std::fs::read_to_string(crate::root::root().join(super::super::PAGE)).unwrap();
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let keys: std::collections::BTreeSet<&str> = PROGRAMS
        .iter()
        .flat_map(|program| program.variables.iter().chain(program.unadapted.unwrap_or_default()))
        .filter_map(|(name, _)| name.ends_with("_KEY").then_some(*name))
        .collect();
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["CODEX_API_KEY", "LLM_GEMINI_KEY"]);
    for text in ["`CODEX_API_KEY` for `codex --intercept`", "`LLM_GEMINI_KEY` for `llm-gemini`"] {
        assert!(page.contains(text), "{text}");
    }
    let whole = PROGRAMS.iter().filter(|program| program.command.contains(&"--no-stream"));
    assert_eq!(whole.map(|program| program.packages()).collect::<Vec<_>>(), ["program-llm"]);
    assert!(page.contains("Only `llm` runs with and without streaming"), "{page}");
}

#[test]
fn each_program_has_a_pinned_version() {
    let root = crate::root::root();
    for program in PROGRAMS {
        let version = version(&root, &program.packages(), program.package).unwrap();
        assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
    }
}
