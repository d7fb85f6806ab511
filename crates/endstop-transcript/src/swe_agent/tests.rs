//! The kinds of an entry: a call, a reply without one, or the harness's own closing note.

use super::*;
use crate::Part;

fn turn(entry: &str) -> Turn {
    Turn::of_entry(serde_json::from_str(entry).unwrap())
}

fn name(turn: &Turn) -> (String, String) {
    split_action(&turn.action)
}

#[test]
fn the_tool_is_the_first_word() {
    for (action, tool, arguments) in [
        ("open a.py 3\n", "open", "a.py 3"),
        ("edit 1:1\nx\nend_of_edit\n", "edit", "1:1\nx\nend_of_edit"),
        ("edit\nx\nend_of_edit", "edit", "x\nend_of_edit"),
        ("  submit ", "submit", ""),
        ("", "", ""),
    ] {
        let entry = serde_json::json!({ "action": action }).to_string();
        assert_eq!(name(&turn(&entry)), (tool.to_owned(), arguments.to_owned()));
    }
}

#[test]
fn an_action_without_result_state_and_time_was_not_executed() {
    for (rest, is_refused) in [
        (r#""observation":"","state":{},"execution_time":0.0"#, true),
        (r#""observation":"","state":{ },"execution_time":0"#, true),
        (r#""observation":"a","state":{},"execution_time":0.0"#, false),
        (r#""observation":"","state":{"open_file":""},"execution_time":0.0"#, false),
        (r#""observation":"","state":{},"execution_time":0.2"#, false),
        (r#""observation":"","state":"{}""#, false),
    ] {
        assert_eq!(turn(&format!("{{\"action\":\"ls\",{rest}}}")).is_refused, is_refused, "{rest}");
    }
}

#[test]
fn the_closing_note_of_the_harness_is_no_reply_of_the_model() {
    let closes = |action: &str, thought: &str, response: &str| {
        let entry =
            serde_json::json!({ "action": action, "thought": thought, "response": response });
        turn(&entry.to_string()).is_closing
    };
    assert!(closes("exit_cost", "Exit due to cost limit", ""));
    assert!(closes("", "Exit due to context window", "Exit due to context window"));
    assert!(closes("", "Exiting due to forfeit", "Exiting due to forfeit"));
    // The model's last, unreadable reply is recorded with the note.
    assert!(!closes("exit_format", "Exit due to format error", "I am done."));
    assert!(!closes("ls", "Exit due to boredom", "Exit due to boredom\n```\nls\n```"));
    assert!(!closes("", "I think.", "I think."));
}

/// The tool of each turn, with a history of which so many bytes are held at once.
fn named(history: &str, turns: &[(&str, &str)], limit: usize) -> Vec<Option<String>> {
    let part = Part::bytes("x.traj", format!("{{\"history\":[{history}]}}").into_bytes());
    let warnings = Warnings::default();
    let lists = Lists::of(Reading::of_part(&part, &warnings));
    let mut functions = Functions::with_limit(&lists, limit);
    let names = turns.iter().map(|(words, action)| {
        let (words, action) = ((*words).to_owned(), (*action).to_owned());
        let mut turn = Turn { words, action, ..Turn::default() };
        functions.name(&mut turn);
        turn.function.map(|(tool, _)| tool)
    });
    names.collect()
}

fn told(words: &str, action: &str, tool: &str) -> String {
    let call = serde_json::json!({ "function": { "name": tool, "arguments": "{}" } });
    let call = [call];
    serde_json::json!({
        "role": "assistant", "content": words, "action": action, "tool_calls": call
    })
    .to_string()
}

#[test]
fn functions_are_found_by_the_words_and_skip_what_was_not_executed() {
    let history =
        [told("a", "ls", "bash"), told("", "ls -F", "bash"), told("b", "edit 'x'", "str_replace")];
    let turns = [
        ("not executed", "vim"),
        ("a", "ls"),
        ("", "ls -F"),
        // The quotes of an action may differ.
        ("b", "edit \"x\""),
        ("c", "submit"),
    ];
    let names = named(&history.join(","), &turns, 1 << 20);
    let names: Vec<Option<&str>> = names.iter().map(Option::as_deref).collect();
    assert_eq!(names, [None, Some("bash"), Some("bash"), Some("str_replace"), None]);
}

#[test]
fn a_history_that_is_not_held_whole_names_the_same_functions() {
    let words: Vec<String> = (0..500).map(|number| format!("turn {number}")).collect();
    let history = words.iter().map(|words| told(words, "ls", &format!("tool of {words}")));
    let history: Vec<String> = history.collect();
    let turns = words.iter().enumerate().filter(|(index, _)| index % 7 != 3);
    let turns: Vec<(&str, &str)> = turns.map(|(_, words)| (&**words, "ls")).collect();
    let names = named(&history.join(","), &turns, 1);
    let expected: Vec<_> =
        turns.iter().map(|(words, _)| Some(format!("tool of {words}"))).collect();
    assert_eq!(names, expected);
}

#[test]
fn the_model_is_read_from_both_forms_of_the_settings() {
    let model = |json: &str| model_of(serde_json::from_str::<&RawValue>(json).unwrap());
    let plain = r#"{"agent":{"model":{"name":"gpt-4o"}}}"#;
    assert_eq!(model(plain).as_deref(), Some("gpt-4o"));
    assert_eq!(model(&serde_json::to_string(plain).unwrap()).as_deref(), Some("gpt-4o"));
    assert_eq!(model(r#"{"agent":{"model":{"name":"human"}}}"#), None);
    assert_eq!(model("null"), None);
}

#[test]
fn only_trajectories_are_recognized() {
    let detects = |text: &str| detect(&Head::new(text.as_bytes(), b""));
    let entry = r#"[{"action":"ls","observation":"a","response":"x","thought":"x"}]"#;
    assert!(detects(&format!("{{\"trajectory\":{entry}")));
    assert!(detects(&format!("{{\"attempts\":[{{\"trajectory\":{entry}")));
    assert!(!detects(&format!("[{{\"trajectory\":{entry}")));
    assert!(!detects(&format!("{{\"trajectory_format\":\"x\",\"messages\":{entry}")));
    let history =
        r#"[{"role":"system","content":"","agent":"main","message_type":"system_prompt"}]"#;
    assert!(detects(&format!("{{\"history\":{history}}}")));
    assert!(!detects(&format!("{{\"instance_id\":\"a\",\"history\":{history}}}")));
    assert!(!detects(r#"{"history":[{"id":1,"source":"agent","action":"run"}]}"#));
}
