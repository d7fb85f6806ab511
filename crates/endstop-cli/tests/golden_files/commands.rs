//! `tail`, `show`, `prune`, `key`, `config` and `convert`.

use super::*;

const CONTROL: [&str; 6] = [
    "--control",
    "127.0.0.1:0",
    "--control-token-env",
    "ENDSTOP_TEST_TOKEN",
    "--control-socket",
    "control/a.sock",
];

/// A time in a golden file.
const TIME: &str = "\"2026-11-29T20:00:00Z\"";

/// A command line and its output, standard error after standard output.
fn told(arguments: &[&str], output: &Output) -> String {
    let (out, error) = (stdout(output, 0), text(&output.stderr));
    format!("$ endstop {}\n{out}{error}", arguments.join(" "))
}

/// A command with the state and the configuration of a place, and no live runs of others.
fn at_home(place: &Place, arguments: &[&str]) -> Command {
    let mut command = endstop(place);
    command.env("XDG_STATE_HOME", &place.0).env("XDG_RUNTIME_DIR", place.0.join("runtime"));
    command.env("TMPDIR", &place.0).env("ENDSTOP_CONFIG", "config.toml").args(arguments);
    command
}

/// `tail-lines.txt` and `tail-lines.jsonl` have the lines of pauses, which change while a run is followed.
#[test]
fn tail_and_show_of_a_live_run() {
    let place = Place::new("tail");
    place.file("policy.toml", "[stop]\nlimit = 'steps >= 1'\n[warn]\nsoon = 'steps >= 1'\n");
    let serving = Serving::start(&place, &[&["--policy", "policy.toml"], &CONTROL[..]].concat());
    chat(&serving.addr);
    let stopped = chat(&serving.addr);
    assert!(stopped.contains("x-endstop-reason: steps_limit"), "{stopped}");
    let server = format!("http://{}", serving.control);
    let remote = |arguments: &[&str]| {
        let mut command = endstop(&place);
        command.env("ENDSTOP_TEST_TOKEN", "control-1").args(arguments);
        command.args(["--server", &server, "--token-env", "ENDSTOP_TEST_TOKEN"]);
        stdout(&command.output().unwrap(), 0)
    };
    // Each ends when no call of the run is in flight any longer.
    golden("tail.txt", &remote(&["tail", "build-1"]), &[]);
    golden("tail.jsonl", &remote(&["tail", "build-1", "--json"]), &[]);
    golden("show.json", &remote(&["show", "build-1"]), &TIMES);
}

/// The address of a scripted model whose calls are recorded, and its process.
fn sim(place: &Place) -> (std::process::Child, String) {
    let mut sim = endstop(place).arg("sim").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(sim.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().split(',').next().unwrap();
    let url = format!("http://{address}");
    (sim, url)
}

/// The size of a state differs from run to run.
fn without_size(text: &str) -> String {
    let (before, rest) = text.split_once(" (").unwrap();
    let (size, after) = rest.split_once(" KiB").unwrap();
    assert!(size.parse::<u64>().is_ok(), "{text}");
    format!("{before} (N KiB{after}")
}

#[test]
fn show_and_prune_of_what_is_over() {
    let place = Place::new("over");
    place.file("config.toml", "");
    let (mut sim, url) = sim(&place);
    let serving = Serving::start_at(&place, &url, &[&["--steps", "9"], &CONTROL[..]].concat());
    let answer = chat(&serving.addr);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for (act, why) in [("pause", "lunch"), ("resume", "back"), ("cancel", "enough")] {
        let path = format!("/endstop/v1/runs/build-1/{act}");
        let answer = post(&serving.control, &path, &json!({ "by": "ann", "message": why }));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    serving.end();
    drop(sim.kill());
    drop(sim.wait());
    let stored = place.json(124, &["-m", "scripted:loop", "--steps", "2", "Look around."]);

    let shown = stdout(&at_home(&place, &["show", "build-1"]).output().unwrap(), 0);
    let value: Value = serde_json::from_str(&shown).unwrap();
    let directory = [("began", TIME), ("at", TIME), ("directory", "\"DIR\"")];
    let ended = [("ended", TIME)];
    let ended = if value["ended"].is_string() { &ended[..] } else { &[] };
    golden("show-past.json", &shown, &[&directory[..], ended].concat());

    let mut all = String::new();
    for prune in
        [&["prune", "--older-than", "0s", "--dry-run"][..], &["prune", "--older-than", "0s"]]
    {
        let output = at_home(&place, prune).output().unwrap();
        all.push_str(&without_size(&told(prune, &output)));
    }
    golden("prune.txt", &renamed(&all, &stored["run"], "RUN"), &[]);
}

#[test]
fn keys() {
    let place = Place::new("key");
    place.file("config.toml", "[budget.team-a]\nlimit = \"$5 per day\"\n");
    let endstop = |arguments: &[&str]| at_home(&place, arguments).output().unwrap();
    let mut all = String::new();
    for arguments in [
        &["key", "new", "alice", "--budget", "team-a", "--usd", "20", "--expires", "90d"][..],
        &["key", "new", "bob", "--runs", "one", "--models", "gpt-*,o3"],
        &["key", "set", "bob", "--budget", "$5 per day"],
        &["key", "rotate", "alice", "--why", "a test"],
        &["key", "revoke", "bob", "--why", "left"],
        &["key", "list"],
    ] {
        let output = endstop(arguments);
        let out = stdout(&output, 0);
        let said = told(arguments, &output);
        all.push_str(&match out.starts_with("endstop_") {
            true => said.replace(out.trim_end(), "KEY"),
            false => said,
        });
    }
    let listed = stdout(&endstop(&["key", "list", "--json"]), 0);
    let value: Value = serde_json::from_str(&listed).unwrap();
    let expires = value["keys"][0]["expires"].as_str().unwrap();
    golden("key.txt", &all.replace(&expires[..10], "2027-02-27"), &[]);
    let times = ["created", "expires", "revoked", "at"].map(|key| (key, TIME));
    golden("key-list.json", &listed, &[&times[..], &[("by", "\"ann\"")]].concat());
}

#[test]
fn configuration() {
    let place = Place::new("config");
    let config = "[run]\nusd = 2\n[serve]\nsteps = 50\n\
                  [budget.team-a]\nlimit = \"$5 per day\"\nparent = \"org\"\nwarn = \"80%\"\n\
                  timezone = \"Europe/Berlin\"\non_full = \"pause\"\n\
                  [budget.org]\nlimit = [\"$60 per month\", \"9M tokens\"]\n\
                  [webhook]\nurl = \"https://example.com/hook?token=s3cret\"\nsecret_file = \"secret\"\n";
    place.file("config.toml", config);
    for (name, flags) in [("config.txt", &["config"][..]), ("config.json", &["config", "--json"])] {
        let output = at_home(&place, flags).env("ENDSTOP_RUN_STEPS", "40").output().unwrap();
        let printed = stdout(&output, 0);
        assert!(!printed.contains("s3cret"), "{printed}");
        golden(name, &printed, &[]);
    }
    place.file("config.toml", "");
    let output = at_home(&place, &["config"]).output().unwrap();
    golden("config-empty.txt", &stdout(&output, 0), &[]);
}

#[test]
fn converted_runs() {
    let place = Place::new("convert");
    let chat = json!({
        "id": "demo",
        "messages": [
            { "role": "user", "content": "4 + 4?" },
            { "role": "assistant", "content": "", "tool_calls": [
                { "id": "k", "function": { "name": "add", "arguments": "{\"a\": 4}" } },
            ] },
            { "role": "tool", "tool_call_id": "k", "content": "8" },
            { "role": "assistant", "content": "8" },
        ],
    });
    place.file("chat.json", &chat.to_string());
    for (name, format) in [("convert-atif.json", "atif"), ("convert-endstop.jsonl", "endstop")] {
        let output = run(&place, &["convert", "chat.json", "--to", format]);
        golden(name, &stdout(&output, 0), &[]);
    }
    let convert = ["convert", "chat.json", "--to", "atif", "--out", "runs"];
    golden("convert.txt", &told(&convert, &run(&place, &convert)), &[]);
}
