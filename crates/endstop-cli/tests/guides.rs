//! The `sh` blocks of guides, run as they are written in a clean home directory.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// No block takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A fenced block of a page.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    language: String,
    text: String,
}

/// The blocks of a page, in their order.
fn blocks(page: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(page);
    let page = fs::read_to_string(path).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            match open.take() {
                Some(block) => blocks.push(block),
                None => open = Some(Block { language: language.to_owned(), text: String::new() }),
            }
        } else if let Some(block) = &mut open {
            block.text.push_str(line);
            block.text.push('\n');
        }
    }
    blocks
}

/// A user who has installed `endstop`, and nothing else.
struct Home(PathBuf);

impl Home {
    fn new(test: &str) -> Self {
        let name = format!("endstop-guide-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(path.join("bin")).unwrap();
        Self(path)
    }

    /// A program of the user.
    fn program(&self, name: &str, script: &str) {
        let file = self.0.join("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a block up to its first error, and returns the output of its processes. Those in the background
    /// run until the shell is dropped.
    fn run(&self, block: &str, variables: &[(&str, &str)]) -> (Shell, String) {
        let endstop = snapbox::cmd::cargo_bin!("endstop");
        let (own, installed) = (self.0.join("bin"), endstop.parent().unwrap());
        let system = std::env::var("PATH").unwrap();
        let path = format!("{}:{}:{system}", own.display(), installed.display());
        // Not a pipe: processes in the background would keep it open.
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let output = self.0.join(format!("output-{}", RUNS.fetch_add(1, Ordering::Relaxed)));
        let file = File::create(&output).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", block]).env_clear().envs(variables.iter().copied());
        shell.env("PATH", path).env("HOME", &self.0).env("TMPDIR", &self.0).current_dir(&self.0);
        shell.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut shell = Shell(shell.process_group(0).spawn().unwrap());
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = shell.0.try_wait().unwrap() {
                break status;
            }
            let printed = || fs::read_to_string(&output).unwrap();
            assert!(Instant::now() < until, "{block}\n{}", printed());
            thread::sleep(Duration::from_millis(20));
        };
        let printed = fs::read_to_string(&output).unwrap();
        assert!(status.success(), "{block}\n{printed}");
        (shell, printed)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A shell with its processes, which end with it.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        // All may have ended.
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

/// Whether a program is installed; standard error says if not.
#[allow(clippy::print_stderr, reason = "a test that is skipped has to be seen")]
fn is_installed(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let is_installed = version.is_ok_and(|status| status.success());
    if !is_installed {
        eprintln!("SKIPPED: `{program}` is not installed");
    }
    is_installed
}

#[test]
fn the_guide_for_teams_works_as_it_is_written() {
    let home = Home::new("team");
    home.program("my-agent", "exec endstop demo-agent --iterations 1 --searches 1");
    let config = home.0.join(".config/endstop");
    fs::create_dir_all(&config).unwrap();
    let mut printed = Vec::new();
    for block in blocks("team-budget.md") {
        match block.language.as_str() {
            "toml" => fs::write(config.join("config.toml"), block.text).unwrap(),
            // The agent of the guide calls a provider; this one calls the scripted model.
            "sh" => printed.push(home.run(&block.text, &[("ENDSTOP_RUN_UPSTREAM", "sim")]).1),
            _ => {}
        }
    }
    let [run, balance, correction] = printed.as_slice() else { panic!("{printed:?}") };
    // Lines are wrapped.
    let run = run.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(run.contains("me ($5.00 per day)"), "{run}");
    for line in ["$60.00 per month", "$200.00 per day", "$3,000.00 per month", "$50.00 per week"] {
        assert!(balance.contains(line), "{line}: {balance}");
    }
    assert!(balance.contains("\"name\":\"team-a\""), "{balance}");
    assert!(correction.contains("$5.00 per day"), "{correction}");
}

#[test]
fn the_trial_of_many_gateways_works_as_it_is_written() {
    if !["redis-server", "redis-cli", "curl"].into_iter().all(is_installed) {
        return;
    }
    let all = blocks("many-gateways.md");
    let trial = all.iter().find(|block| block.text.starts_with("# A trial")).unwrap();
    assert_eq!(trial.language, "sh");
    // Others may use the ports of the page. All are open until the last is known, so they differ.
    let free = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = free.each_ref().map(|listener| listener.local_addr().unwrap().port());
    drop(free);
    let mut text = trial.text.clone();
    let named = ["6390", "8787", "8788"];
    // By way of letters: a free port may have the digits of another one.
    let letters = ["PORT_A", "PORT_B", "PORT_C"];
    for (named, letters) in named.into_iter().zip(letters) {
        assert!(text.contains(named), "{text}");
        text = text.replace(named, letters);
    }
    for (letters, free) in letters.into_iter().zip(ports) {
        text = text.replace(letters, &free.to_string());
    }
    let home = Home::new("trial");
    let (_shell, printed) = home.run(&text, &[]);
    assert_eq!(printed.matches("listening on http://").count(), 2, "{printed}");
    assert_eq!(printed.matches("\"chat.completion\"").count(), 2, "{printed}");
    let store = format!("redis://127.0.0.1:{}", ports[0]);
    let balance = "endstop budget --budget '$1 per day' --json";
    let (_, balance) = home.run(balance, &[("ENDSTOP_BUDGET_STORE", &store)]);
    let balance = balance.lines().find(|line| line.starts_with('{')).unwrap();
    let balance: serde_json::Value = serde_json::from_str(balance).unwrap();
    let limit = &balance["budgets"][0]["limits"][0];
    assert_eq!(limit["limit"], "$1.00 per day");
    assert!(limit["spent"] != "0" && limit["held"] == "0", "{balance}");

    // The other blocks, with the gateways of the trial. The key is issued in the first one.
    let block = |text: &str| all.iter().find(|block| block.text.contains(text)).unwrap();
    let keys = format!("endstop key new bob\n{}", block("endstop key revoke").text);
    let (_, printed) = home.run(&keys, &[("ENDSTOP_BUDGET_STORE", &store)]);
    assert!(printed.contains("bob") && printed.contains("revoked"), "{printed}");
    let kills = &block("endstop kill --all").text;
    home.run(kills, &[("ENDSTOP_BUDGET_STORE", &store)]);
    let list = "endstop kill --list --json --budget-store \"$STORE\"";
    let (_, printed) = home.run(list, &[("STORE", &store)]);
    assert!(printed.contains("wrong price") && printed.contains("nightly-17"), "{printed}");
}

#[test]
fn the_guide_to_spend_works_as_it_is_written() {
    let home = Home::new("spend");
    home.program("my-agent", "exec endstop demo-agent --iterations 1 --searches 1");
    // As the page says, nothing was spent before the first call.
    let (_, printed) = home.run("endstop spend || [ $? = 2 ]", &[]);
    assert!(printed.contains("no calls in the history"), "{printed}");

    let start =
        "endstop sim > sim.txt & until grep -q http:// sim.txt; do sleep 0.1; done; cat sim.txt";
    let (_sim, printed) = home.run(start, &[]);
    let address = printed.split("http://").nth(1).unwrap().split(',').next().unwrap();
    let upstream = format!("http://{address}");
    let run = "endstop run --usd 5 --budget '$5 per day' -- my-agent";
    home.run(run, &[("ENDSTOP_RUN_UPSTREAM", &upstream)]);
    let directory = home.0.join(".claude/projects/-home-me-shop");
    fs::create_dir_all(&directory).unwrap();
    let time = "2026-01-10T12:00:00.000Z";
    let user = serde_json::json!({ "type": "user", "uuid": "u1", "sessionId": "s1",
        "timestamp": time, "message": { "role": "user", "content": "go on" } });
    let assistant = serde_json::json!({
        "type": "assistant", "uuid": "a1", "sessionId": "s1", "requestId": "req_1",
        "timestamp": time, "version": "2.0.0",
        "message": { "id": "msg_1", "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
            "content": [{ "type": "text", "text": "done" }],
            "usage": { "input_tokens": 1000, "output_tokens": 100 } } });
    fs::write(directory.join("s1.jsonl"), format!("{user}\n{assistant}\n")).unwrap();

    let all = blocks("spend.md");
    let mut commands = all.iter().filter(|block| block.language == "sh");
    let block = commands.next().unwrap();
    assert_eq!(commands.next(), None);
    let (_, printed) = home.run(&block.text, &[]);
    let is_total = |line: &&str| line.split_whitespace().any(|word| word == "total");
    assert_eq!(printed.lines().filter(is_total).count(), 5, "five tables: {printed}");
    assert!(printed.contains("\"source\": \"history\""), "{printed}");
    let has_budget = |line: &str| line.split_whitespace().any(|word| word == "me");
    assert!(printed.lines().any(has_budget), "{printed}");
    assert!(printed.contains("2026-01-10") && printed.contains("####"), "{printed}");
}
