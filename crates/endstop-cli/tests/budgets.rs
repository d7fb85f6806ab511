//! Budgets over time in the command: processes that share one, what a full one says, and corrections.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A separate home, with the budgets of a user.
struct Home(PathBuf);

impl Home {
    fn new(test: &str, config: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("budgets").join(test);
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(path.join("config/endstop")).unwrap();
        std::fs::write(path.join("config/endstop/config.toml"), config).unwrap();
        Self(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let endstop = snapbox::cmd::cargo_bin!("endstop");
        let mut command = Command::new(endstop);
        command.env("HOME", &self.0).env("AGENT", endstop);
        command.env("XDG_STATE_HOME", self.0.join("state"));
        command.env("XDG_CONFIG_HOME", self.0.join("config"));
        command.stdin(Stdio::null()).args(arguments);
        command
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Begins the demo's agent over the scripted model; what happened goes to a file.
    fn begin(
        &self,
        number: usize,
        upstream: &str,
        flags: &[&str],
        iterations: u32,
    ) -> (Child, PathBuf) {
        let file = self.0.join(format!("run-{number}.json"));
        let mut command = self.command(&["run", "-q", "--upstream", upstream, "--json-file"]);
        command.arg(&file).args(flags).args(["--", "/bin/sh", "-c"]);
        command.arg(format!("\"$AGENT\" demo-agent --iterations {iterations} --searches 3"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        (child, file)
    }

    fn run(&self, flags: &[&str]) -> Value {
        let (mut child, file) = self.begin(0, "sim", flags, 9);
        child.wait().unwrap();
        read(&file)
    }

    /// The first limit of a budget.
    fn budget(&self, name: &str) -> Value {
        self.json(&["budget", name, "--json"])["budgets"][0]["limits"][0].clone()
    }
}

fn read(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// An exact amount of dollars in pico-dollars.
fn picos(amount: &Value) -> u64 {
    let (whole, rest) =
        amount.as_str().unwrap().split_once('.').unwrap_or((amount.as_str().unwrap(), ""));
    whole.parse::<u64>().unwrap() * 1_000_000_000_000
        + format!("{rest:0<12}").parse::<u64>().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A scripted model that processes share.
struct Sim(Child, String);

impl Sim {
    fn start(home: &Home) -> Self {
        let mut sim = home.command(&["sim"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(sim.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_once("http://").unwrap().1.split(',').next().unwrap().to_owned();
        Self(sim, address)
    }

    /// The number of calls that it has served.
    fn calls(&self) -> u64 {
        let mut stream = TcpStream::connect(&self.1).unwrap();
        let host = &self.1;
        write!(stream, "GET /sim/stats HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let body = response.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str::<Value>(body).unwrap()["calls"].as_u64().unwrap()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn sixteen_processes_that_want_two_thousand_calls_spend_one_budget_and_not_a_pico_dollar_more() {
    let home = Home::new("processes", "[budget.me]\nlimit = \"$1 per month\"\n");
    let sim = Sim::start(&home);
    let (flags, upstream) = (["--steps", "125", "--usd", "100"], format!("http://{}", sim.1));
    let children: Vec<_> =
        (0..16).map(|number| home.begin(number, &upstream, &flags, 40)).collect();
    let (mut spent, mut calls) = (0, 0);
    for (mut child, file) in children {
        child.wait().unwrap();
        let report = &read(&file)["report"];
        spent += picos(&report["spend"]["usd"]);
        calls += report["totals"]["attempts"].as_u64().unwrap();
        assert_eq!(report["reason"], "cost_limit", "{report}");
    }
    let budget = home.budget("me");
    assert_eq!((picos(&budget["spent"]), picos(&budget["held"])), (spent, 0));
    assert_eq!(calls, sim.calls(), "each call that was served is in the books");
    assert!(spent <= 1_000_000_000_000, "{spent}");
    // The rest is too little for the worst case of a further call.
    assert!(spent > 850_000_000_000, "{spent}");
}

#[test]
fn a_full_budget_refuses_the_next_run_and_says_when_it_resets() {
    let home = Home::new("full", "");
    let flags = ["--budget", "$0.03 per day", "--usd", "100"];
    assert_eq!(home.run(&flags)["report"]["reason"], "cost_limit");
    let fill = ["budget", "adjust", "me", "+0.03", "--why", "a test", "--budget", "$0.03 per day"];
    assert!(home.command(&fill).output().unwrap().status.success());
    let again = home.run(&flags);
    assert_eq!(
        (&again["upstream_calls"], &again["report"]["reason"]),
        (&0.into(), &"cost_limit".into())
    );
    let stop = again["report"].to_string();
    assert!(stop.contains("budget:me") && stop.contains("resets in"), "{stop}");
    // Without the flag nothing is limited but the run.
    let other = home.run(&["--steps", "2"]);
    assert_eq!(other["report"]["reason"], "steps_limit");
}

#[test]
fn budgets_are_chosen_by_name_and_have_parents() {
    let config = "[budget.me]\nlimit = \"$9\"\n[budget.team]\nlimit = [\"$5 per week\", \"5 steps per \
                  day\"]\nparent = \"org\"\n[budget.org]\nlimit = \"$8 per month\"\n";
    let home = Home::new("names", config);
    let told = home.run(&["--budget", "team"]);
    assert_eq!(
        (&told["report"]["reason"], &told["report"]["totals"]["steps"]),
        (&"steps_limit".into(), &5.into())
    );
    let spent = |name| picos(&home.budget(name)["spent"]);
    assert!(spent("team") > 0 && spent("team") == spent("org"));
    assert_eq!(spent("me"), 0);
    let shown = "team ($5.00 per week, 5 steps per day; parent org)";
    for named in
        [&["run", "--budget", "team", "--", "true"][..], &["check", "--stop", "steps >= 5"]]
    {
        let said = text(&home.command(named).output().unwrap());
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(shown), "{said}");
    }
    let unknown = home.command(&["run", "--budget", "teem", "--", "true"]).output().unwrap();
    assert!(text(&unknown).contains("no budget `teem`"), "{}", text(&unknown));
}

#[test]
fn an_error_in_a_budget_names_its_file_and_line() {
    let good = "[budget.me]\nlimit = \"$5 per day\"\n";
    let place = |problem: &str| format!("{good}\n[budget.team]\nlimit = \"$9\"\n{problem}\n");
    for (problem, message, at, hint) in [
        ("warn = \"150%\"", "`150%` is not a threshold", ":6:8", "hint: write `80%`"),
        ("timezone = \"Mars\"", "no time zone `Mars`", ":6:12", "hint: write a name such as"),
        ("on_full = \"wait\"", "`wait` is not known here", ":6:11", "hint: write `refuse`"),
        ("parent = \"org\"", "the budget `org`, which is not defined", ":6:10", "parent ="),
        ("lmit = 5", "unknown field `lmit`", ":6:1", "hint: expected one of"),
        ("[budget.x]\nlimit = 5", "`limit` is a text", ":7:9", "limit = 5"),
        ("[budget.y]\nlimit = \"$5 a day\"", "`$5 a day` is not an amount", ":7:9", "hint: write"),
        ("[budget.\"a b\"]\nlimit = \"$5\"", "a name has 1 to", ":6:9", "a b"),
    ] {
        let file = place(problem);
        let home = Home::new("places", &file);
        let output = home.command(&["budget"]).output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(message) && said.contains(hint), "{problem}: {said}");
        assert!(said.contains(&format!("config.toml{at}\n")), "{problem}: {said}");

        let home = Home::new("places", "");
        let policy = home.0.join("policy.toml");
        std::fs::write(&policy, format!("[stop]\nlong = \"steps >= 5\"\n\n{file}")).unwrap();
        let policy = policy.to_str().unwrap();
        let output = home.command(&["run", "--policy", policy, "--", "true"]).output().unwrap();
        let said = text(&output);
        let line: usize = at[1..2].parse().unwrap();
        let at = format!("policy.toml:{}{}", line + 3, &at[2..]);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(&at), "{problem}: {said}");
    }
}

#[test]
fn an_endstop_inside_another_counts_no_call_twice() {
    let config = "[budget.me]\nlimit = \"$9\"\n[budget.inner]\nlimit = \"$9\"\nparent = \"me\"\n";
    let home = Home::new("nested", config);
    let file = home.0.join("outer.json");
    let mut command =
        home.command(&["run", "-q", "--upstream", "sim", "--steps", "5", "--json-file"]);
    command.arg(&file).args(["--", "/bin/sh", "-c"]);
    command.arg(
        "\"$AGENT\" run -q --budget inner -- \"$AGENT\" demo-agent --iterations 9 --searches 3",
    );
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    let spent = picos(&read(&file)["report"]["spend"]["usd"]);
    assert!(spent > 0);
    for name in ["me", "inner"] {
        let budget = home.budget(name);
        assert_eq!((picos(&budget["spent"]), picos(&budget["held"])), (spent, 0), "{name}");
    }
}

#[test]
fn spend_without_transcripts_names_the_budgets() {
    let home = Home::new("spend", "[budget.me]\nlimit = \"$5 per day\"\n");
    let said = text(&home.command(&["spend", "--transcripts"]).output().unwrap());
    assert!(said.contains("no transcripts") && !said.contains("endstop budget"), "{said}");
    home.budget("me");
    let said = text(&home.command(&["spend", "--transcripts"]).output().unwrap());
    assert!(said.contains("`endstop budget` shows the spend"), "{said}");
}

#[test]
fn a_damaged_file_of_budgets_says_what_to_do() {
    let home = Home::new("damaged", "[budget.me]\nlimit = \"$5 per day\"\n");
    home.budget("me");
    let file = home.0.join("state/endstop/budgets.sqlite");
    std::fs::write(&file, "no database, but long enough to have a header of one".repeat(99))
        .unwrap();
    let said = text(&home.command(&["budget"]).output().unwrap());
    assert!(said.contains("is not a store of budgets") && said.contains("hint: move `"), "{said}");
}

#[test]
fn what_a_shell_has_replaced_in_double_quotes_is_guessed() {
    let home = Home::new("quotes", "");
    for (budget, message, hint) in [
        // `"$5 per day"`, `"$20 per day"` and `"$5"`.
        (" per day", "`` is not an amount", "hint: write '$5 per day' in single quotes"),
        ("0 per day", "`0` is not an amount", "hint: write '$5 per day' in single quotes"),
        ("", "the name of a budget is missing", "'$5 per day' in single quotes"),
    ] {
        for command in
            [&["run", "--budget", budget, "--", "true"][..], &["budget", "--budget", budget]]
        {
            let said = text(&home.command(command).output().unwrap());
            assert!(said.contains(message) && said.contains(hint), "{command:?}: {said}");
        }
    }
}

#[test]
fn a_limit_of_the_command_line_is_for_all_calls() {
    let config = "[budget.me]\nlimit = \"$9\"\nmodels = [\"claude-opus-*\"]\n";
    let home = Home::new("by-model", config);
    let flags = ["run", "--budget", "$5 per day", "--", "true"];
    let output = home.command(&flags).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    assert!(text(&output).contains("is a budget of some models"), "{}", text(&output));
    // It may be a default.
    let home = Home::new("default", "budget = \"2 steps\"\n");
    let told = home.run(&[]);
    assert_eq!(
        (&told["report"]["reason"], &told["report"]["totals"]["steps"]),
        (&"steps_limit".into(), &2.into())
    );
}

#[test]
fn the_agent_loop_draws_on_them_too() {
    let home = Home::new("agent", "[budget.me]\nlimit = \"3 steps\"\n");
    let agent =
        ["agent", "--no-store", "--json", "--model", "scripted:loop@claude-sonnet-4-5", "go on"];
    let output = home.command(&agent).output().unwrap();
    assert_eq!(output.status.code(), Some(124), "{}", text(&output));
    assert!(text(&output).contains("budget:me"), "{}", text(&output));
    assert_eq!(home.budget("me")["spent"], 3);
}

#[test]
fn amounts_have_one_form_on_all_screens() {
    let home = Home::new("form", "[budget.me]\nlimit = [\"$3,000 per month\", \"2M tokens\"]\n");
    let screens: [(&[&str], &[&str]); 4] = [
        (&["budget"], &["$3,000.00 per month", "2M tokens"]),
        (&["check", "--stop", "cost >= $3000 or tokens >= 2000000"], &["$3,000.00", "2M"]),
        (
            &["run", "--usd", "3000", "--tokens", "2000000", "--", "true"],
            &["$3,000.00 or 2M tokens"],
        ),
        (&["run", "--budget", "$9999.50", "--usd", "1", "--", "true"], &["$9,999.50"]),
    ];
    for (arguments, forms) in screens {
        let output = home.command(arguments).output().unwrap();
        let shown = text(&output);
        for form in forms {
            assert!(shown.contains(form), "{arguments:?}: {shown}");
        }
        // Conditions are shown as the policy language has them.
        let amounts = shown.lines().filter(|line| !line.contains(">="));
        let has_other =
            amounts.into_iter().any(|line| line.contains("$9999") || line.contains("$3000"));
        assert!(!has_other, "{arguments:?}: {shown}");
    }
}

#[test]
fn a_correction_counts_in_the_budgets_above_in_dollars_tokens_and_steps() {
    let config = "[budget.team-a]\nlimit = [\"$5 per day\", \"2M tokens\"]\nparent = \"org\"\n\
        [budget.org]\nlimit = [\"$50 per month\", \"100 steps\"]\n";
    let home = Home::new("adjust-parents", config);
    let adjust = |amount: &str| {
        let adjust = ["budget", "adjust", "team-a", amount, "--why", "a test"];
        let output = home.command(&adjust).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    };
    let shown = adjust("+1.50");
    assert!(shown.contains("team-a") && shown.contains("$50.00 per month"), "{shown}");
    adjust("+1.2M tokens");
    adjust("-200k tokens");
    adjust("+9 steps");
    adjust("-5 steps");
    let spent = |name: &str| {
        let budgets = home.json(&["budget", name, "--json"]);
        let limits = budgets["budgets"][0]["limits"].clone();
        (limits[0]["spent"].clone(), limits[1]["spent"].clone())
    };
    assert_eq!(spent("team-a"), ("1.5".into(), 1_000_000.into()));
    assert_eq!(spent("org"), ("1.5".into(), 4.into()));
    let shown = adjust("-7 steps");
    let rest = "budget org, 100 steps: only 4 was spent, so 3 of 7 were not taken back";
    assert!(shown.contains(rest), "{shown}");
    // The spend of another budget below the same parent stays.
    let other = ["budget", "adjust", "org", "+4", "--why", "a test"];
    assert!(home.command(&other).output().unwrap().status.success());
    let all = ["budget", "adjust", "team-a", "-5", "--why", "a test"];
    let output = home.command(&all).output().unwrap();
    assert!(!output.status.success() && text(&output).contains("take back at most $1.50"));
    assert_eq!((spent("team-a").0, spent("org").0), ("1.5".into(), "5.5".into()));
    // A unit without a limit is no mistake, and no surprise.
    let org = ["budget", "adjust", "org", "+5 tokens", "--why", "a test"];
    let shown = text(&home.command(&org).output().unwrap());
    assert!(shown.contains("no limit counts tokens"), "{shown}");
}

#[test]
fn a_correction_is_added_and_taken_back() {
    let home = Home::new("adjust", "[budget.me]\nlimit = \"$5 per day\"\n");
    for (amount, spent) in [("+1.50", "1.5"), ("-0.25", "1.25"), ("+2", "3.25")] {
        let output =
            home.command(&["budget", "adjust", "me", amount, "--why", "a test"]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(home.budget("me")["spent"], spent);
    }
    let shown = home.command(&["budget"]).output().unwrap();
    assert!(
        text(&shown).contains("$5.00 per day") && text(&shown).contains("$1.75"),
        "{}",
        text(&shown)
    );
    let past = &home.json(&["budget", "me", "--json"])["budgets"][0]["adjustments"];
    assert_eq!(past.as_array().unwrap().len(), 3);
    assert_eq!(
        (&past[0]["spent"]["usd"], &past[1]["returned"]["usd"]),
        (&"2".into(), &"0.25".into())
    );
    assert!(past[0]["who"].as_str().unwrap().contains("(endstop, process "), "{past}");
    assert!(past[0]["at"].as_str().unwrap().ends_with(" UTC"), "{past}");
    for number in 0..9 {
        let why = format!("number {number}");
        let adjust = ["budget", "adjust", "me", "+0", "--why", &why];
        assert!(home.command(&adjust).output().unwrap().status.success());
    }
    let shown = text(&home.command(&["budget", "me"]).output().unwrap());
    assert!(shown.contains("number 8") && shown.contains("+$2.00"), "{shown}");
    assert!(!shown.contains("-$0.25") && !shown.contains("+$1.50"), "no more than ten: {shown}");
    // The list of all budgets stays short.
    let shown = text(&home.command(&["budget"]).output().unwrap());
    assert!(!shown.contains("number 8"), "{shown}");
    let more = ["budget", "adjust", "me", "-9", "--why", "a test"];
    let more = home.command(&more).output().unwrap();
    let refused = "$9.00 cannot be taken back: budget me has spent $3.25 in its current windows";
    assert_eq!(more.status.code(), Some(2));
    // Lines are wrapped.
    let said = text(&more).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(refused) && said.contains("take back at most $3.25"), "{said}");
    assert_eq!(home.budget("me")["spent"], "3.25");
    let all = ["budget", "adjust", "me", "-3.25", "--why", "a test"];
    assert!(home.command(&all).output().unwrap().status.success());
    assert_eq!(home.budget("me")["spent"], "0");
    for wrong in [
        &["budget", "adjust", "me", "much", "--why", "x"][..],
        &["budget", "adjust", "me", "1", "--why", "x"],
        &["budget", "adjust", "me", "+1", "--why", ""],
        &["budget", "adjust", "me", "+1 dollars", "--why", "x"],
        &["budget", "adjust", "me", "+5 steps per day", "--why", "x"],
        &["budget", "adjust", "me", "5 steps", "--why", "x"],
        &["budget", "adjust", "you", "+1", "--why", "x"],
        &["budget", "you"],
        &["budget", "adjust", "me", "1"],
        &["run", "--budget", "$5 per year", "--", "true"],
    ] {
        let output = home.command(wrong).output().unwrap();
        assert!(
            !output.status.success() && text(&output).contains("error:"),
            "{wrong:?}: {}",
            text(&output)
        );
    }
}

#[test]
fn a_process_that_is_killed_leaves_its_hold_to_expire() {
    let home = Home::new("killed", "[budget.me]\nlimit = \"$1\"\n");
    let (mut child, _) = home.begin(0, "sim:slow", &["--usd", "100"], 9);
    for _ in 0..600 {
        if home.0.join("state/endstop/budgets.sqlite").exists()
            && picos(&home.budget("me")["held"]) > 0
        {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let budget = home.budget("me");
    assert!(picos(&budget["held"]) + picos(&budget["spent"]) > 0, "{budget}");
    // The next process uses a store that was not closed.
    let told = home.run(&["--steps", "1"]);
    assert_eq!(told["report"]["reason"], "steps_limit", "{told}");
}

/// The status line with which a gateway answers a call of a model.
fn answer_of_gateway(home: &Home, flags: &[&str], model: &str) -> String {
    let serve = ["serve", "--json", "--listen", "127.0.0.1:0", "--stop-with", "error"];
    let mut command = home.command(&serve);
    command.args(["--upstream", "sim"]).args(flags);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    let address = told["address"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let gateway = Sim(child, address);
    let mut stream = TcpStream::connect(&gateway.1).unwrap();
    let body = serde_json::json!({
        "model": model, "max_tokens": 100, "messages": [{ "role": "user", "content": "hi" }],
    });
    let body = body.to_string();
    write!(
        stream,
        "POST /r/one/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.lines().next().unwrap().to_owned()
}

#[test]
fn under_the_default_limits_a_budget_in_dollars_takes_no_model_without_a_price() {
    let home = Home::new("unpriced", "");
    for (flags, model, status) in [
        (&["--budget", "$5 per day"][..], "no-such-model", "402"),
        (&["--total-usd", "5"], "no-such-model", "402"),
        (&["--budget", "$5 per day"], "gpt-4o", "200"),
        (&["--budget", "9 steps"], "no-such-model", "200"),
        (&["--budget", "$5 per day", "--unpriced", "ignore"], "no-such-model", "200"),
        (&[], "no-such-model", "200"),
    ] {
        let answer = answer_of_gateway(&home, flags, model);
        assert!(answer.contains(status), "{flags:?} {model}: {answer}");
    }
}

#[test]
fn a_wait_for_a_budget_is_shown_and_ends_the_run_if_it_takes_too_long() {
    use std::os::unix::fs::DirBuilderExt as _;
    let config = "[budget.me]\nlimit = \"$0.03 per month\"\non_full = \"pause\"\n";
    let home = Home::new("waits", config);
    // The runtime directory of this test, with a short path for sockets.
    let live = std::env::temp_dir().join(format!("endstop-waits-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&live).unwrap();
    let command = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.env("XDG_RUNTIME_DIR", &live).env("TMPDIR", &live);
        command
    };
    let fill = ["budget", "adjust", "me", "+0.03", "--why", "a test"];
    assert!(command(&fill).output().unwrap().status.success());
    let waits = |limit| {
        let mut run = command(&["run", "--upstream", "sim", "--pause-limit", limit]);
        run.args(["--", "/bin/sh", "-c", "\"$AGENT\" demo-agent --iterations 3 --searches 3"]);
        run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let over = waits("5s").wait_with_output().unwrap();
    let said = text(&over);
    assert_eq!(over.status.code(), Some(124), "{said}");
    assert!(said.contains("endstop: waits for budget me until "), "{said}");
    assert!(
        said.contains("endstop: stopped: budget me has used $0.03 of $0.03 per month"),
        "{said}"
    );
    let mut child = waits("10m");
    let begun = std::time::Instant::now();
    loop {
        let listed = text(&command(&["ps", "--json"]).output().unwrap());
        if listed.contains("\"waits_for\": \"budget me until ") {
            break;
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{listed}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_dir_all(&live).unwrap();
}
