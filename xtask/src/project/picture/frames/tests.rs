//! Tests of `frames`.

use super::*;

fn status(text: &str) -> String {
    format!("\u{1b}7\u{1b}[26;1H\u{1b}[0m\u{1b}[K{text}\u{1b}8")
}

fn written(steps: &[&str]) -> String {
    let lines: String = steps.iter().map(|text| status(text)).collect();
    let begin = "endstop: stops at 3 steps\r\n\u{1b}D\u{1b}[1A\u{1b}7\u{1b}[1;25r\u{1b}8";
    let end = "      \rendstop: stopped\r\n\u{1b}7\u{1b}[r\u{1b}[26;1H\u{1b}[0m\u{1b}[K\u{1b}8";
    let stopped = status("stopped \u{b7} step 3/3 \u{b7} 1m 9s \u{b7} next: steps");
    format!("{begin}{lines}{stopped}{end}endstop: 3 steps \u{b7} 1m 10s\r\n")
}

#[test]
fn there_is_a_screen_for_each_step_with_the_time_of_the_step() {
    let text = written(&[
        "step 1/3 \u{b7} held $1 \u{b7} 4s \u{b7} next",
        "step 1/3 \u{b7} $1 \u{b7} 5s \u{b7} next",
        "step 1/3 \u{b7} $1 \u{b7} 6s \u{b7} next",
        "step 2/3 \u{b7} $2 \u{b7} 59s \u{b7} next",
    ]);
    let frames = Frames::of("endstop run", &text).unwrap();
    let last: Vec<&str> = frames.screens.iter().map(|rows| rows[25].as_str()).collect();
    let stopped = "stopped \u{b7} step 3/3 \u{b7} 3s \u{b7} next: steps";
    let steps =
        ["step 1/3 \u{b7} $1 \u{b7} 1s \u{b7} next", "step 2/3 \u{b7} $2 \u{b7} 2s \u{b7} next"];
    assert_eq!(last, ["", steps[0], steps[1], stopped, ""]);
    assert_eq!(
        frames.transcript,
        [
            "$ endstop run",
            "endstop: stops at 3 steps",
            "endstop: stopped",
            "endstop: 3 steps \u{b7} 3s"
        ]
    );
    assert!(frames.screens[4].starts_with(&frames.transcript));
}

#[test]
fn a_step_that_was_never_shown_is_an_error() {
    let error = Frames::of("endstop run", &written(&["step 1/3 \u{b7} 5s"])).unwrap_err();
    assert!(error.contains("step 2 "), "{error}");
}

#[test]
fn colors_are_an_error() {
    let error = Frames::of("endstop run", "\u{1b}[31mred").unwrap_err();
    assert!(error.contains("colors"), "{error}");
}
