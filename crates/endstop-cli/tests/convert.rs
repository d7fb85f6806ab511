//! `endstop convert` as a user meets it.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use snapbox::{IntoData as _, assert_data_eq, str};

fn endstop(arguments: &[&str]) -> Output {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    command.args(arguments).current_dir(directory("")).output().unwrap()
}

/// A directory of this test, empty.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("convert").join(name);
    if !name.is_empty() && path.exists() {
        std::fs::remove_dir_all(&path).unwrap();
    }
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A list of chat messages in a directory, by its path relative to that of the tests.
fn chat(directory_name: &str, file: &str) -> String {
    let text = r#"{"id":"demo","messages":[{"role":"user","content":"4+4?"},
        {"role":"assistant","content":"","tool_calls":[{"id":"k","function":{"name":"add","arguments":"{\"a\": 4}"}}]},
        {"role":"tool","tool_call_id":"k","content":"8"},{"role":"assistant","content":"8"}]}"#;
    std::fs::write(directory(directory_name).join(file), text).unwrap();
    format!("{directory_name}/{file}")
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_run_goes_to_standard_output_as_atif() {
    let path = chat("atif", "chat.json");
    let output = endstop(&["convert", &path, "--to", "atif"]);
    assert_data_eq!(
        stdout(&output),
        str![[r#"
{"schema_version":"ATIF-v1.7","session_id":"demo","agent":{"name":"openai-chat","version":"unknown"},"steps":[{"step_id":1,"source":"user","message":""},{"step_id":2,"source":"agent","message":"","tool_calls":[{"tool_call_id":"call-1","function_name":"add","arguments":{"a": 4}}],"observation":{"results":[{"source_call_id":"call-1","content":"8"}]}},{"step_id":3,"source":"agent","message":"8"}],"extra":{"endstop":{"cost_is":"unknown"}}}

"#]]
    );
    assert_eq!(stderr(&output), "");
}

#[test]
fn runs_go_to_standard_output_as_a_trace() {
    let path = chat("trace", "chat.json");
    let output = endstop(&["convert", &path, "--to", "endstop"]);
    assert_data_eq!(
        stdout(&output),
        str![[r#"
{"endstop_trace":1,"run":"demo","cost_is":"unknown"}
{"at":0,"event":"run_begin"}
{"at":0,"event":"user_message"}
{"at":0,"event":"step_begin"}
{"at":0,"event":"attempt_begin"}
{"at":0,"event":"reply","tool_calls":1}
{"at":0,"event":"tool_begin","tool":"add"}
{"at":0,"event":"tool_end","tool":"add","arguments":"{\"a\": 4}","result":"8"}
{"at":0,"event":"step_end"}
{"at":0,"event":"step_begin"}
{"at":0,"event":"attempt_begin"}
{"at":0,"event":"piece","text":"8"}
{"at":0,"event":"reply","tool_calls":0}
{"at":0,"event":"step_end"}
{"at":0,"event":"run_end"}

"#]]
        .raw()
    );
}

#[test]
fn several_runs_need_a_directory() {
    chat("several", "a.json");
    let text = std::fs::read_to_string(directory("").join("several/a.json")).unwrap();
    std::fs::write(directory("").join("several/b.json"), text).unwrap();
    let output = endstop(&["convert", "several", "--to", "atif"]);
    assert_eq!(output.status.code(), Some(2));
    assert_data_eq!(
        stderr(&output),
        str![[r#"
error: there are 2 runs, and an ATIF document holds one
hint: `--out DIR` writes a file for each

"#]]
    );
    assert!(output.stdout.is_empty());

    directory("written");
    let output = endstop(&["convert", "several", "--to", "atif", "--out", "written/new"]);
    assert_eq!(stdout(&output), "");
    assert_data_eq!(
        stderr(&output),
        str![[r#"
2 runs written to `written/new`

"#]]
    );
    // The output is a transcript again.
    let output = endstop(&["convert", "written/new", "--to", "endstop"]);
    let headers = stdout(&output).lines().filter(|line| line.contains("endstop_trace")).count();
    assert_eq!(headers, 2);
    assert!(directory("").join("written/new/demo.json").is_file());
    assert!(directory("").join("written/new/demo-2.json").is_file());
}

#[test]
fn what_cannot_be_read_or_written_is_an_error() {
    std::fs::write(directory("nothing").join("empty.txt"), "").unwrap();
    for (arguments, expected) in [
        (
            &["convert", "nothing", "--to", "atif"][..],
            "warning: nothing: no transcript is in this directory\nerror: no run in `nothing`\n",
        ),
        (&["convert", "absent", "--to", "atif"], "warning: absent: cannot be read: "),
        (&["convert", "nothing", "--to", "csv"], "error: invalid value `csv` for `--to <FORMAT>`"),
        (&["convert", "--to", "atif"], "error: missing argument `<PATH>...`"),
    ] {
        let output = endstop(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).starts_with(expected), "{}", stderr(&output));
    }
    let path = chat("blocked", "chat.json");
    let output = endstop(&["convert", &path, "--to", "atif", "--out", &path]);
    assert!(stderr(&output).starts_with("error: cannot write `blocked/chat.json`"));
}
