//! `endstop spend` on generated sessions, compared with `endstop replay` on the same.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// A directory with two sessions of a project; the second one resumes the first, and has its calls too.
fn sessions(test: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spend").join(test);
    drop(std::fs::remove_dir_all(&root));
    let project = root.join("projects").join("-home-me-shop");
    std::fs::create_dir_all(&project).unwrap();
    let message = |session: &str, number: u32, day: u32| {
        let time = format!("2026-01-{day:02}T23:30:{number:02}.000Z");
        let user = json!({ "type": "user", "uuid": format!("u{number}"), "sessionId": session,
            "timestamp": time, "message": { "role": "user", "content": "go on" } });
        let assistant = json!({
            "type": "assistant", "uuid": format!("a{number}"), "sessionId": session,
            "requestId": format!("req_{number}"), "timestamp": time, "version": "2.0.0",
            "message": { "id": format!("msg_{number}"), "type": "message", "role": "assistant",
                "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
                "content": [{ "type": "text", "text": "done" }],
                "usage": { "input_tokens": 1000 + number, "output_tokens": 100 } } });
        format!("{user}\n{assistant}\n")
    };
    let first: String = (1..=3).map(|number| message("s1", number, 10)).collect();
    let resumed: String = (1..=3).map(|number| message("s2", number, 10)).collect();
    let later: String = (4..=5).map(|number| message("s2", number, 12)).collect();
    std::fs::write(project.join("s1.jsonl"), first).unwrap();
    std::fs::write(project.join("s2.jsonl"), resumed + &later).unwrap();
    root
}

fn endstop(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    let output = command.env("ENDSTOP_CONFIG", "").args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn spend(path: &Path, arguments: &[&str]) -> Value {
    let path = path.to_str().unwrap();
    let (code, out) = endstop(&[&["spend", "--json"], arguments, &[path]].concat());
    assert_eq!(code, Some(0), "{out}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn days_projects_and_models_add_up_and_copies_count_once() {
    let root = sessions("rows");
    // 5 calls of 1,001 to 1,005 input tokens at $3, and 100 output tokens at $15 for a million.
    let total = "0.022545";
    for by in ["day", "model", "project", "run"] {
        let bill = spend(&root, &["--by", by]);
        assert_eq!(bill["total"]["cost_usd"], total, "{bill}");
        assert_eq!(bill["source"], "transcripts");
        assert_eq!(
            (bill["total"]["calls"].as_u64(), bill["duplicates"].as_u64()),
            (Some(5), Some(3))
        );
    }
    let days = |arguments: &[&str]| {
        let bill = spend(&root, arguments);
        let rows = bill["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["day"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(days(&[]), ["2026-01-10", "2026-01-12"]);
    for zone in ["+01:00", "Europe/Berlin"] {
        assert_eq!(days(&["--timezone", zone]), ["2026-01-11", "2026-01-13"], "{zone}");
    }
    assert_eq!(days(&["--since", "2026-01-11"]), ["2026-01-12"]);
    let projects = spend(&root, &["--by", "project"]);
    assert_eq!(projects["rows"][0]["project"], "-home-me-shop");
    let (code, table) = endstop(&["spend", "--chart", root.to_str().unwrap()]);
    assert!(code == Some(0) && table.contains("total") && table.contains("####"), "{table}");
}

#[test]
fn one_session_costs_what_a_replay_says() {
    let root = sessions("replay");
    let file = root.join("projects").join("-home-me-shop").join("s2.jsonl");
    let bill = spend(&file, &[]);
    let (_, replayed) = endstop(&["replay", "--json", file.to_str().unwrap()]);
    let replayed: Value = serde_json::from_str(&replayed).unwrap();
    let model = &replayed["usage"]["models"]["claude-sonnet-4-5"];
    assert_eq!(bill["total"]["cost_usd"], model["cost_usd"]);
    assert_eq!(bill["total"]["input_tokens"], model["input_tokens"]);
    assert_eq!(bill["total"]["calls"], model["calls"]);
}

#[test]
fn tools_have_their_calls_failures_results_and_the_money_that_they_declared() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spend").join("tools");
    drop(std::fs::remove_dir_all(&root));
    std::fs::create_dir_all(&root).unwrap();
    let text = r#"{"endstop_trace":1,"run":"research","model":"claude-sonnet-4-5","cost_is":"computed"}
{"at":0,"wall":1793610000000,"event":"run_begin"}
{"at":0,"event":"user_message"}
{"at":0,"event":"step_begin"}
{"at":0,"event":"attempt_begin"}
{"at":10,"event":"reply","model":"claude-sonnet-4-5","usage":{"input":1000,"output":100},"cost":"0.0045","finish":"tool_use","tool_calls":3}
{"at":10,"event":"tool_begin","tool":"search"}
{"at":20,"event":"tool_cost","tool":"search","cost":"0.25"}
{"at":20,"event":"tool_end","tool":"search","arguments":"{}","result":"4 hits"}
{"at":20,"event":"tool_begin","tool":"search"}
{"at":30,"event":"tool_cost","tool":"search","cost":"0.05"}
{"at":30,"event":"tool_end","tool":"search","arguments":"{}","result":"1 hit"}
{"at":30,"event":"tool_begin","tool":"fetch"}
{"at":40,"event":"tool_end","tool":"fetch","arguments":"{}","result":"no such page","failed":true}
{"at":40,"event":"step_end"}
"#;
    let file = root.join("research.jsonl");
    std::fs::write(&file, text).unwrap();
    let bill = spend(&file, &["--by", "tool"]);
    let row = |tool: &str, [calls, failed, result_bytes]: [u64; 3], cost: &str| json!({ "tool": tool, "calls": calls, "failed": failed, "result_bytes": result_bytes, "cost_usd": cost });
    let rows = json!([row("fetch", [1, 1, 12], "0"), row("search", [2, 0, 11], "0.3")]);
    assert_eq!(bill["rows"], rows, "{bill}");
    assert_eq!((&bill["by"], &bill["source"]), (&json!("tool"), &json!("transcripts")));

    let (code, table) = endstop(&["spend", "--by", "tool", file.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{table}");
    let cells = |line: &str| -> Vec<String> {
        line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let table: Vec<Vec<String>> = table.lines().map(cells).collect();
    let header = ["tool", "calls", "failed", "result bytes", "cost"];
    assert!(table.iter().any(|cells| *cells == header), "{table:?}");
    for row in [["fetch", "1", "1", "12", "$0.00"], ["search", "2", "0", "11", "$0.30"]] {
        assert!(table.iter().any(|cells| *cells == row), "{row:?} in {table:?}");
    }
}
