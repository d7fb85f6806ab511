//! Tests of `run`.

use super::*;

fn right() -> Ended {
    let result =
        ClientResult { text: "Endstop stopped this run: x".to_owned(), ..ClientResult::default() };
    Ended {
        counts: Counts { calls: Some(3), stop_responses: Some(1) },
        code: Some(124),
        result: Some(result),
        ..Ended::default()
    }
}

#[test]
fn each_fault_is_told() {
    let faults = |ended: Ended| fault(&ended, 1);
    assert_eq!(faults(right()), None);
    let counts = |calls, stop_responses| {
        faults(Ended { counts: Counts { calls, stop_responses }, ..right() })
    };
    assert!(counts(Some(4), Some(1)).is_some());
    assert!(counts(None, Some(1)).is_some());
    assert!(counts(Some(3), Some(2)).is_some());
    assert!(fault(&right(), 2).is_some());
    let connections = Connections { refused: 1, ..Connections::default() };
    assert!(faults(Ended { connections, ..right() }).is_some());
    assert!(faults(Ended { code: Some(0), ..right() }).is_some());
    assert!(faults(Ended { result: None, ..right() }).is_some());
    let raised = ClientResult { raised: Some("Error".to_owned()), ..right().result.unwrap() };
    assert!(faults(Ended { result: Some(raised), ..right() }).is_some());
    let silent = Some(ClientResult::default());
    assert!(faults(Ended { result: silent, ..right() }).is_some());
}

#[test]
fn only_the_text_of_a_stop_is_the_reason() {
    let reason = "Endstop stopped this run: steps_limit: steps is 3 (limit 3).";
    for shown in [
        reason.to_owned(),
        format!("{{\"text\":\"{reason}\"}}"),
        "  \u{2502} Endstop stopped   \u{2502}\n  \u{2502} this run: steps_limit \u{2502}"
            .to_owned(),
        "\u{1b}[1mEndstop\u{1b}[0m \u{1b}[38;5;9mstopped this\u{1b}[K\r\nrun".to_owned(),
    ] {
        assert!(says_why(&shown), "{shown:?}");
    }
    for other in ["", "Endstop", "stopped this run", "endstop: stopped (steps_limit)", "\u{1b}["] {
        assert!(!says_why(other), "{other:?}");
    }
    // As the guard says it.
    assert!(!says_why(
        "endstop: refused 2 connections to chatgpt.com: Endstop limits no call there"
    ));
}

#[test]
fn the_last_line_is_read_among_others() {
    let output =
        "noise\n{\"ended\": \"raised\", \"error\": \"X\", \"text\": \"t\", \"tools_run\": 2}\n";
    let expected =
        ClientResult { raised: Some("X".to_owned()), text: "t".to_owned(), tools_run: 2 };
    assert_eq!(client_result(output), Some(expected));
    assert_eq!(client_result("noise\n"), None);
    assert_eq!(client_result("{}\n"), None);
    assert_eq!(client_result(""), None);
}

#[test]
fn output_and_status_of_a_command_are_taken() {
    let mut command = Command::new("sh");
    command.args(["-c", "echo out; echo err >&2; exit 3"]);
    let (status, output, errors) = finished(&mut command).unwrap();
    assert_eq!(status.and_then(|status| status.code()), Some(3));
    assert_eq!((output.as_str(), errors.as_str()), ("out\n", "err\n"));
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    let mut command = Command::new("sleep");
    command.arg("600");
    assert_eq!(status_within(&mut command, Duration::ZERO).unwrap(), None);
    let status = status_within(&mut Command::new("true"), PATIENCE).unwrap();
    assert!(status.unwrap().success());
}

#[test]
fn the_signals_that_ended_a_command_are_read() {
    let file = std::env::temp_dir().join(format!("xtask-signals-{}.json", std::process::id()));
    fs::write(&file, "{\"ended_by\":\"SIGTERM\",\"left_behind_ended_by\":null}").unwrap();
    let command = Some("SIGTERM".to_owned());
    assert_eq!(EndSignals::read(&file), EndSignals { command, left_behind: None });
    fs::remove_file(&file).unwrap();
    assert_eq!(EndSignals::read(&file), EndSignals::default());
}

#[test]
fn connections_to_all_hosts_are_counted() {
    let file = std::env::temp_dir().join(format!("xtask-connections-{}.json", std::process::id()));
    let guard =
        "{\"guard\":{\"refused\":{\"a\":2,\"b\":1},\"direct\":{},\"intercepted\":{\"a\":4}}}";
    fs::write(&file, guard).unwrap();
    let expected = Connections { refused: 3, intercepted: 4, ..Connections::default() };
    assert_eq!(Connections::read(&file), expected);
    fs::remove_file(&file).unwrap();
    assert_eq!(Connections::read(&file), Connections::default());
}
