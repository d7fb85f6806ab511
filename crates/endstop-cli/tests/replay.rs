//! Whole commands of `endstop replay` beyond one policy: sweeps, charts, suggestions, drift, formats.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use snapbox::{assert_data_eq, str};

const SAMPLE: &str = "crates/endstop-transcript/data/sample";

fn endstop(arguments: &[&str]) -> Output {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    command.env("HOME", "/nonexistent").env_remove("CLAUDE_CONFIG_DIR").env_remove("CODEX_HOME");
    command.args(arguments).current_dir(root()).output().unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = endstop(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Where a test may write, by its own name.
fn place(name: &str) -> String {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).to_str().unwrap().to_owned()
}

#[test]
fn a_sweep_says_the_best_limit_first() {
    let output = endstop(&["replay", SAMPLE, "--sweep", "steps=5..20:5"]);
    assert_eq!(output.status.code(), Some(0));
    assert_data_eq!(
        stdout(&output),
        str![[r#"
4 limits over 10 runs, 5 succeeded and 4 failed.
`steps >= 10` saves most without losing a known success: it stops 5 runs, saves $0.51 of $0.88 and cuts 4 of 4 failures.
How 1 of the stopped runs ended is not known.

+-------------+--------------+-------+--------+----------------+--------------+
| limit       | runs stopped | saved | of all | successes lost | failures cut |
+=============================================================================+
| steps >= 5  |            7 | $0.72 |    82% |         2 of 5 |       4 of 4 |
| steps >= 10 |            5 | $0.51 |    59% |         0 of 5 |       4 of 4 |
| steps >= 15 |            2 | $0.33 |    38% |         0 of 5 |       2 of 4 |
| steps >= 20 |            1 | $0.19 |    22% |         0 of 5 |       1 of 4 |
+-------------+--------------+-------+--------+----------------+--------------+

"#]]
    );
    assert!(stderr(&output).contains("more: --chart FILE.html draws it"));
}

#[test]
fn without_outcomes_a_sweep_claims_nothing_about_successes() {
    let file = format!("{SAMPLE}/claude-code-session.jsonl");
    let output = endstop(&["replay", &file, "--quiet", "--sweep", "steps=1,5"]);
    let said = stdout(&output);
    assert!(said.starts_with("2 limits over 1 run; no run's outcome is known"), "{said}");
    assert!(said.contains("--outcomes FILE"), "{said}");
}

#[test]
fn a_sweep_is_json_too_and_agrees_with_single_replays() {
    let sweep = json(&["replay", SAMPLE, "--json", "--sweep", "cost=$0.05,$0.10"]);
    let rows = sweep["sweep"].as_array().unwrap();
    assert_eq!((&sweep["version"], rows.len()), (&1.into(), 2));
    for (row, limit) in rows.iter().zip(["$0.05", "$0.10"]) {
        let alone = json(&["replay", SAMPLE, "--json", "--stop", &format!("cost >= {limit}")]);
        assert_eq!(row["values"]["cost"], limit);
        for key in ["stopped", "saved_usd", "cost_usd", "runs", "steps", "tokens"] {
            assert_eq!(row["effect"][key], alone[key], "{key}");
        }
        let lost = &row["lost"];
        assert_eq!(lost["count"], alone["outcomes"]["succeeded_stopped"]);
        assert!(lost["low"].as_f64().unwrap() <= lost["high"].as_f64().unwrap());
    }
}

#[test]
fn a_policy_file_may_have_places_and_a_swept_gauge_beside() {
    let policy = place("places.toml");
    std::fs::write(&policy, "[stop]\nstuck = \"repeats >= {n}\"\nsteps = \"steps >= {most}\"\n")
        .unwrap();
    let sweep = json(&[
        "replay",
        SAMPLE,
        "--json",
        "--policy",
        &policy,
        "--sweep",
        "n=2,3",
        "--sweep",
        "most=8,90",
        "--sweep",
        "tokens=50k",
    ]);
    let labels: Vec<&str> = sweep["sweep"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["label"].as_str().unwrap())
        .collect();
    let expected = [
        "n = 2, most = 8, tokens >= 50k",
        "n = 2, most = 90, tokens >= 50k",
        "n = 3, most = 8, tokens >= 50k",
        "n = 3, most = 90, tokens >= 50k",
    ];
    assert_eq!(labels, expected);
}

#[test]
fn what_cannot_be_swept_is_told_before_anything_is_read() {
    for (arguments, said) in [
        (vec!["--sweep", "cost"], "`cost` is not a sweep"),
        (vec!["--sweep", "cost=1..2:1"], "write `$1.00`"),
        (vec!["--sweep", "x=1..3:1"], "`x` is neither a gauge nor in the policy as `{x}`"),
        (vec!["--sweep", "n=1,2", "--stop", "repeats > {n} extra"], "extra"),
        (vec!["--sweep", "steps=1..9:1", "--chart", "x.png"], "neither .svg nor .html"),
        (vec!["--chart", "x.svg"], "--sweep"),
        (vec!["--lose-at-most", "3%"], "--suggest"),
        (vec!["--lose-at-most", "3%"], "hint: for example `endstop replay --suggest "),
        (vec!["--suggest", "--lose-at-most", "lots"], "write a share such as `1%`"),
        (vec!["--suggest", "--lose-at-most", "1"], "hint: write `1%`, or a share such as `0.01`"),
        (vec!["--suggest", "--lose-at-most", "5"], "hint: write `5%`"),
        (vec!["--suggest", "--lose-at-most", "101%"], "write a share such as `1%` or `0.01`"),
        (vec!["--suggest", "--stop", "steps >= 3"], "cannot be used with"),
        (vec!["--drift", "/nonexistent.json"], "cannot read the baseline"),
    ] {
        let output = endstop(&[&["replay", SAMPLE], arguments.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty());
    }
}

#[test]
fn outcomes_that_name_no_run_are_told() {
    let outcomes = place("strange-outcomes.json");
    std::fs::write(&outcomes, "{\"weekly-digest\": true, \"no-such-run\": true}").unwrap();
    let output = endstop(&["replay", SAMPLE, "--stop", "steps >= 9", "--outcomes", &outcomes]);
    let said = stderr(&output);
    assert!(
        said.contains("1 of 2 outcomes name no run that was read, such as `no-such-run`"),
        "{said}"
    );
}

/// A list of chat messages tells neither money nor tokens, which is not the same as nothing saved.
#[test]
fn what_is_saved_is_told_in_what_the_runs_tell() {
    let file = format!("{SAMPLE}/chat-results.json");
    let said = stdout(&endstop(&["replay", &file, "--quiet", "--stop", "steps >= 5"]));
    assert!(said.contains("| steps saved |") && !said.contains('$'), "{said}");
}

/// The report of `replay` on files that it did not read: the exit code, the JSON's warnings as kind and count, and stderr.
fn unread(paths: &[&str]) -> (Option<i32>, Vec<(String, u64)>, String) {
    let with_json = endstop(&[&["replay", "--json"], paths].concat());
    let report: Value = serde_json::from_slice(&with_json.stdout).unwrap();
    let warnings = report["warnings"].as_array().unwrap().iter();
    let warnings = warnings
        .map(|w| (w["kind"].as_str().unwrap().to_owned(), w["count"].as_u64().unwrap()))
        .collect();
    let said = stderr(&endstop(&[&["replay", "--stop", "steps >= 9"], paths].concat()));
    (with_json.status.code(), warnings, said)
}

#[test]
fn what_is_not_read_is_counted_and_named() {
    let directory = place("unread");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let put = |name: &str, text: &str| {
        let path = format!("{directory}/{name}");
        std::fs::write(&path, text).unwrap();
        path
    };
    put("a.json", "{\"cost\":30}");
    put("b.json", "{\"cost\":3}");
    let empty = put(
        "empty.jsonl",
        "{\"timestamp\":\"2026-11-01T00:00:00Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"c1\"}}\n",
    );
    let of = |kind: &str, count: u64| (kind.to_owned(), count);

    // Next to a readable file, it is a warning.
    let (code, warnings, said) = unread(&[SAMPLE, &directory, "/nonexistent.jsonl"]);
    assert_eq!(code, Some(0), "{said}");
    let expected = [of("unreadable", 1), of("unknown_format", 2), of("no_runs", 1)];
    assert!(expected.iter().all(|one| warnings.contains(one)), "{warnings:?}");
    assert!(said.contains("a.json: not read, of no known format (and 1 other file)"), "{said}");
    assert!(said.contains("empty.jsonl: no run is in this file"), "{said}");
    assert!(said.contains("/nonexistent.jsonl: cannot be read"), "{said}");

    // Alone, it is an error, which the JSON reports too.
    let (code, warnings, said) = unread(&[&empty]);
    assert_eq!((code, warnings), (Some(2), vec![of("no_runs", 1)]));
    assert!(said.contains("error: no run in `"), "{said}");
    let (code, warnings, said) = unread(&["/nonexistent.jsonl"]);
    assert_eq!((code, warnings), (Some(2), vec![of("unreadable", 1)]));
    assert!(said.contains("error: `/nonexistent.jsonl` does not exist\n"), "{said}");
    let (code, _, said) = unread(&["/nonexistent.jsonl", "/nonexistent.db"]);
    assert_eq!(code, Some(2));
    let both = "error: `/nonexistent.jsonl`, `/nonexistent.db` do not exist\n";
    assert!(said.contains(both), "{said}");
    for mode in [vec!["--sweep", "steps=1,2"], vec!["--suggest"]] {
        let output = endstop(&[&["replay", "--json", &empty], mode.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{mode:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["warnings"][0]["kind"], "no_runs", "{mode:?}");
    }
}

#[test]
fn a_database_of_opencode_that_is_not_read_says_how_to_export_its_sessions() {
    let tables = "SQLite format 3\0CREATE TABLE future (id)";
    let directory = files("opencode-future", &[("opencode.db", tables)]);
    let database = format!("{directory}/opencode.db");
    for paths in [&[SAMPLE, database.as_str()][..], &[SAMPLE, directory.as_str()]] {
        let (code, _, said) = unread(paths);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("of no known format; `opencode export SESSION > "), "{said}");
    }
    let output = endstop(&["replay", "--quiet", &database]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("hint: `opencode export SESSION > session.json`"), "{said}");
}

#[test]
fn standard_input_is_a_transcript_like_any_other() {
    let session = std::fs::read(root().join(SAMPLE).join("claude-code-session.jsonl")).unwrap();
    let piped = |arguments: &[&str], bytes: &[u8]| {
        let input = place(&format!("piped-{}", arguments[0]));
        std::fs::write(&input, bytes).unwrap();
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        command.stdin(std::fs::File::open(&input).unwrap());
        command.args(arguments).current_dir(root()).output().unwrap()
    };
    let file = format!("{SAMPLE}/claude-code-session.jsonl");
    for command in
        [vec!["replay", "--json"], vec!["explain", "--json"], vec!["convert", "--to", "endstop"]]
    {
        let output = piped(&[command.as_slice(), &["-"]].concat(), &session);
        assert_eq!(output.status.code(), Some(0), "{command:?}: {}", stderr(&output));
        let named = endstop(&[command.as_slice(), &[&file]].concat());
        let id = "\"run\":\"";
        assert_eq!(stdout(&output).matches(id).count(), stdout(&named).matches(id).count());
        let nothing = piped(&[command.as_slice(), &["-"]].concat(), b"no transcript");
        assert_eq!(nothing.status.code(), Some(2), "{command:?}");
        let said = stderr(&nothing);
        assert!(said.contains("error: no run in standard input"), "{said}");
    }
}

/// A session of this many calls of this model, a thousand tokens each.
fn session(id: &str, model: &str, calls: u64) -> String {
    let head = |kind: &str, at: u64| {
        format!(
            "{{\"type\":\"{kind}\",\"sessionId\":\"{id}\",\"timestamp\":\"2026-11-01T00:00:{at:02}Z\","
        )
    };
    let mut text =
        format!("{}\"message\":{{\"role\":\"user\",\"content\":\"hi\"}}}}\n", head("user", 0));
    for call in 1..=calls {
        text.push_str(&format!(
            "{}\"requestId\":\"r{call}\",\"message\":{{\"id\":\"m{call}\",\"role\":\"assistant\",\"model\":\"{model}\",\
             \"content\":[{{\"type\":\"text\",\"text\":\"step {call}\"}}],\
             \"usage\":{{\"input_tokens\":1000,\"output_tokens\":0}}}}}}\n",
            head("assistant", call)
        ));
    }
    text
}

/// The directory of a test with these files in it.
fn files(name: &str, files: &[(&str, &str)]) -> String {
    let directory = place(name);
    let _ = std::fs::remove_dir_all(&directory);
    for (name, text) in files {
        let path = Path::new(&directory).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory
}

#[test]
fn no_headline_sweep_or_suggestion_rests_on_calls_without_a_price() {
    let (priced, unpriced) = (session("s1", "claude-sonnet-4-5", 9), session("s2", "acme-9", 9));
    let directory = files("unpriced", &[("s1.jsonl", &priced), ("s2.jsonl", &unpriced)]);
    let report = json(&["replay", "--json", "--stop", "steps >= 3", &directory]);
    assert_eq!(
        report["unpriced"],
        serde_json::json!({"runs": 1, "calls": 9, "models": ["acme-9"]})
    );
    assert_eq!(report["per_run"][1]["unpriced_calls"], 9);
    let output = endstop(&["replay", "--stop", "steps >= 3", &directory]);
    // Nine calls of $0.003 each, of the run that has prices.
    assert!(
        stdout(&output).contains("stopped 2 of 2 runs, saved $0.018 of $0.027"),
        "{}",
        stdout(&output)
    );
    let said = stderr(&output);
    assert!(said.contains("1 of 2 runs with 9 calls without a price (`acme-9`)"), "{said}");

    // A rule on money would stop that run at its first call: it is not testable there.
    let sweep = json(&["replay", "--json", "--sweep", "cost=$0.01", &directory]);
    let effect = &sweep["sweep"][0]["effect"];
    assert_eq!((&effect["stopped"], &effect["not_testable"]), (&1.into(), &1.into()));
    assert_eq!((&effect["cost_usd"], &sweep["unpriced"]["calls"]), (&"0.027".into(), &9.into()));
    let suggested = json(&["replay", "--json", "--suggest", &directory]);
    let rules = suggested["suggestion"]["rules"].as_array().unwrap();
    let cost = rules.iter().find(|rule| rule["id"] == "cost").unwrap();
    assert_eq!(cost["effect"]["not_testable"], 1);
    assert!(
        suggested["policy"]
            .as_str()
            .unwrap()
            .contains("# 1 of 2 runs with 9 calls without a price")
    );

    // Without any price, savings are shown in tokens.
    let file = format!("{directory}/s2.jsonl");
    let said = stdout(&endstop(&["replay", "--quiet", "--stop", "steps >= 3", &file]));
    assert!(said.contains("saved 6k of 9k tokens"), "{said}");
}

#[test]
fn a_sweep_whose_limits_lose_more_than_they_save_does_not_say_that_they_save_nothing() {
    let (won, failed) =
        (session("s1", "claude-sonnet-4-5", 9), session("s2", "claude-sonnet-4-5", 1));
    let directory = files("loses-more", &[("s1.jsonl", &won), ("s2.jsonl", &failed)]);
    let outcomes = format!("{directory}/outcomes.txt");
    std::fs::write(&outcomes, "{\"s1\": true, \"s2\": false}").unwrap();
    let sweep = |values: &str| {
        let arguments = ["replay", "--outcomes", &outcomes, "--sweep", values, &directory];
        stdout(&endstop(&arguments))
    };
    // Of ten calls five limit to five of the nine: 40% for every success.
    let said = sweep("steps=5,20");
    assert!(said.contains("Every limit that saves anything loses as large a share"), "{said}");
    let said = sweep("steps=20,30");
    assert!(said.contains("None of these limits would have saved anything."), "{said}");
}

#[test]
fn runs_of_equal_ids_are_told_apart_by_their_files() {
    let (short, long) =
        (session("s1", "claude-sonnet-4-5", 2), session("s1", "claude-sonnet-4-5", 9));
    let directory = files("equal", &[("a/s1.jsonl", &short), ("b/s1.jsonl", &long)]);
    let report = json(&["replay", "--json", &directory]);
    let of = |run: usize| report["per_run"][run]["file"].as_str().unwrap().to_owned();
    assert!(of(0).ends_with("a/s1.jsonl") && of(1).ends_with("b/s1.jsonl"), "{} {}", of(0), of(1));

    let outcomes = format!("{directory}/outcomes.txt");
    std::fs::write(&outcomes, "{\"s1\": true}").unwrap();
    let arguments = ["replay", "--stop", "steps >= 5", "--per-run", "--outcomes", &outcomes];
    let output = endstop(&[&arguments, [directory.as_str()].as_slice()].concat());
    let said = stderr(&output);
    assert!(
        said.contains("1 of 1 outcome are of more than one run each, such as `s1` of `"),
        "{said}"
    );
    // The table breaks long names over lines.
    assert!(stdout(&output).matches("s1 (").count() == 2, "{}", stdout(&output));
    let explained = stdout(&endstop(&["explain", &directory, "--stop", "steps >= 5"]));
    assert!(explained.contains("in ") && explained.contains("b/s1.jsonl"), "{explained}");
}

#[test]
fn charts_are_files_that_fetch_nothing() {
    for name in ["chart.svg", "chart.html"] {
        let path = place(name);
        let sweep = ["--sweep", "cost=$0.02..$0.14:$0.03", "--sweep", "steps=5..20:5"];
        let output = endstop(&[&["replay", SAMPLE, "--chart", &path], sweep.as_slice()].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains(&path));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("<polyline").count(), 2, "{name}");
        assert_eq!(text.matches("<g>").count(), 9, "{name}");
        assert!(text.contains("successes lost, % of all successes"));
        let addresses = text.matches("http").count();
        assert_eq!(addresses, text.matches("http://www.w3.org/2000/svg").count(), "{name}");
    }
}

#[test]
fn a_suggestion_is_a_policy_that_is_bounded() {
    let output = endstop(&["replay", SAMPLE, "--quiet", "--suggest"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with(
        "# Proposed by `endstop replay --suggest` from 10 runs (5 succeeded, 4 failed)"
    ));
    for said in [
        "loses 0 of 5 successes (0 to 43.4%)",
        "to show 1% takes 381 of them, with none lost",
        "[stop]\n",
    ] {
        assert!(text.contains(said), "{text}");
    }
    let policy = place("suggested.toml");
    std::fs::write(&policy, &text).unwrap();
    let checked = endstop(&["check", &policy]);
    assert_eq!(checked.status.code(), Some(0), "{}{}", stdout(&checked), stderr(&checked));
    // Its figures for the runs that it was made from are those of a replay.
    let told = json(&["replay", SAMPLE, "--json", "--suggest"]);
    let replayed = json(&["replay", SAMPLE, "--json", "--policy", &policy]);
    let together = &told["suggestion"]["together"];
    assert_eq!(together["stopped"], replayed["stopped"]);
    assert_eq!(together["saved_usd"], replayed["saved_usd"]);
    assert_eq!(told["policy"], text.as_str());
}

/// Claude Code does not record whether a run succeeded, so no run may be stopped, and no rule would stop one.
#[test]
fn without_outcomes_the_limits_that_stop_no_run_are_offered_in_comments() {
    let sessions: Vec<(String, String)> = (1..=8)
        .map(|calls| {
            (format!("s{calls}.jsonl"), session(&format!("s{calls}"), "claude-sonnet-4-5", calls))
        })
        .collect();
    let sessions: Vec<(&str, &str)> =
        sessions.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let directory = files("no-outcomes", &sessions);
    let output = endstop(&["replay", "--suggest", &directory]);
    let (text, said) = (stdout(&output), stderr(&output));
    assert!(said.contains("no rule is proposed: remove the `#` of a limit in the file"), "{said}");
    assert!(
        text.contains("# Nothing is proposed: a run that a rule stops may have been"),
        "{text}"
    );
    let offered = text.lines().filter_map(|line| line.strip_prefix('#'));
    let offered: Vec<&str> = offered.filter(|line| line.contains(" = \"")).collect();
    let names: Vec<&str> = offered.iter().filter_map(|rule| rule.split(' ').next()).collect();
    assert_eq!(names, ["steps", "cost", "tokens"], "{text}");
    assert!(!text.contains("# steps, "), "{text}");

    // As a user would enable them: a policy that is bounded, and stops none of these runs.
    let policy = place("enabled.toml");
    let enabled: String = text
        .lines()
        .map(|line| match line.strip_prefix('#').filter(|rest| offered.contains(rest)) {
            Some(rule) => format!("{rule}\n"),
            None => format!("{line}\n"),
        })
        .collect();
    std::fs::write(&policy, enabled).unwrap();
    let checked = endstop(&["check", &policy]);
    assert_eq!(checked.status.code(), Some(0), "{}{}", stdout(&checked), stderr(&checked));
    let replayed = json(&["replay", &directory, "--json", "--policy", &policy]);
    assert_eq!((&replayed["runs"], &replayed["stopped"]), (&8.into(), &0.into()));
}

#[test]
fn nothing_is_suggested_from_no_runs() {
    let output = endstop(&["replay", "docs", "--quiet", "--suggest"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no run in `docs`"));
}

/// The sample's runs as an earlier replay reported them, with every number under a key changed.
fn baseline(name: &str, key: &str, change: impl Fn(u64) -> u64) -> String {
    let mut report = json(&["replay", SAMPLE, "--json"]);
    let usage = report["usage"].as_object_mut().unwrap();
    for group in usage.values_mut() {
        for entry in group.as_object_mut().unwrap().values_mut() {
            if let Some(number) = entry.get(key).and_then(Value::as_u64) {
                entry[key] = change(number).into();
            }
        }
    }
    let path = place(name);
    std::fs::write(&path, report.to_string()).unwrap();
    path
}

#[test]
fn runs_that_use_what_they_used_have_not_drifted() {
    let path = baseline("same.json", "steps", |steps| steps);
    let output = endstop(&["replay", SAMPLE, "--quiet", "--drift", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "No drift: nothing rose by more than 20%.\n10 runs now, 10 before.\n"
    );
}

#[test]
fn runs_that_use_more_have_drifted() {
    let path = baseline("less.json", "steps", |steps| steps * 2 / 3);
    let output = endstop(&["replay", SAMPLE, "--quiet", "--drift", &path]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.starts_with("It drifted: steps per run of kind "), "{said}");
    assert!(said.contains("| kind |") && said.contains("yes"), "{said}");
    let drift = endstop(&["replay", SAMPLE, "--json", "--drift", &path]);
    assert_eq!(drift.status.code(), Some(1));
    let drift: Value = serde_json::from_slice(&drift.stdout).unwrap();
    assert_eq!((&drift["drifted"], &drift["tolerance"]), (&true.into(), &0.2.into()));
    let rose: Vec<&Value> =
        drift["figures"].as_array().unwrap().iter().filter(|f| f["is_drift"] == true).collect();
    assert!(rose.iter().all(|f| f["what"] == "steps per run" && f["change"] == "rose"), "{rose:?}");
    let wide = endstop(&["replay", SAMPLE, "--quiet", "--drift", &path, "--tolerance", "100%"]);
    assert_eq!(wide.status.code(), Some(0));
}

#[test]
fn no_runs_are_no_answer_to_drift() {
    let path = baseline("runs.json", "steps", |steps| steps);
    let output = endstop(&["replay", "docs", "--quiet", "--drift", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no run in `docs`"), "{}", stderr(&output));
}

#[test]
fn a_users_rule_is_kept_beside_a_swept_one() {
    let policy = place("swept.toml");
    std::fs::write(&policy, "[stop]\nswept = \"steps >= 3\"\n").unwrap();
    let sweep =
        json(&["replay", SAMPLE, "--json", "--policy", &policy, "--sweep", "cost=$100,$200"]);
    let alone = json(&["replay", SAMPLE, "--json", "--policy", &policy]);
    assert_eq!(sweep["sweep"][0]["effect"]["steps"], alone["steps"]);
    assert!(sweep["sweep"][0]["effect"]["stopped"].as_u64() >= alone["stopped"].as_u64());
    assert!(alone["stopped"].as_u64() > Some(3));
}

#[test]
fn a_file_that_is_no_baseline_says_how_to_make_one() {
    let path = place("no-baseline.json");
    std::fs::write(&path, "{\"version\":1}").unwrap();
    let output = endstop(&["replay", SAMPLE, "--drift", &path]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("does not record the usage of its runs"), "{said}");
    assert!(said.contains("endstop replay --json"), "{said}");
}

#[test]
fn formats_are_listed_with_their_places() {
    let text = stdout(&endstop(&["replay", "--formats"]));
    let listed = json(&["replay", "--formats", "--json"]);
    let rows = listed["formats"].as_array().unwrap();
    assert!(rows.len() >= 5);
    for row in rows {
        let id = row["id"].as_str().unwrap();
        assert!(text.contains(&format!("| {id} ")), "{id}");
        assert!(!row["what"].as_str().unwrap().is_empty());
        assert!(row["supplies"]["tokens"].is_boolean());
    }
    assert!(text.contains("~/.codex/sessions"), "{text}");
}

#[test]
fn the_placeholder_of_a_sweep_is_shown_in_the_help() {
    let help = stdout(&endstop(&["replay", "--help"]));
    let example = "--stop 'no_progress({k}) or repeats >= {k}' --sweep 'k=2..8:1'";
    assert!(help.contains(example), "{help}");
}
