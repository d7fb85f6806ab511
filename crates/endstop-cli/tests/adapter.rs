//! `endstop run` and `endstop doctor` with programs of known names: shell scripts that say how they were started.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "../../../tests/support/golden.rs"]
mod file;
#[path = "support/upstream.rs"]
mod upstream;

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use file::golden;
use upstream::Upstream;

/// A home directory with programs in `bin`.
struct Home(PathBuf);

impl Home {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("adapter").join(test);
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(path.join("bin")).unwrap();
        Self(path)
    }

    fn file(self, name: &str, text: &str) -> Self {
        let file = self.0.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        self
    }

    fn program(self, name: &str, script: &str) -> Self {
        let this = self.file(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"));
        let file = this.0.join("bin").join(name);
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        this
    }

    fn command(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        let path = format!("{}:/usr/bin:/bin", self.0.join("bin").display());
        command.env_clear().env("HOME", &self.0).env("PATH", path).current_dir(&self.0);
        command.envs(variables.iter().copied()).stdin(Stdio::null()).args(arguments);
        command
    }

    fn endstop(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
        self.command(variables, arguments).output().unwrap()
    }

    fn run(&self, variables: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.endstop(variables, &[&["run"], arguments].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// The output of doctor, without the path of this directory.
    fn doctor(&self, variables: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.endstop(variables, &[&["doctor"], arguments].concat());
        assert!(output.stderr.is_empty(), "{output:?}");
        let home = self.0.to_str().unwrap();
        (output.status.code(), without_place(&text(&output.stdout).replace(home, "HOME")))
    }
}

/// The text without the parents of the directory for settings: they depend on who can write above this checkout.
fn without_place(text: &str) -> String {
    let mut parts = text.split("/endstop-RUN");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let kept =
            all.trim_end_matches(|sign: char| !sign.is_whitespace() && !"\"=".contains(sign));
        all = format!("{kept}PLACE/endstop-RUN{part}");
    }
    all
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const SAYS_ARGUMENTS: &str = "printf '%s\\n' \"$@\"";
const SIM: [&str; 2] = ["--upstream", "sim"];

#[test]
fn codex_is_started_with_flags_before_its_own() {
    let home = Home::new("codex").program("codex", SAYS_ARGUMENTS);
    let command = ["--", "codex", "exec", "-c", "a=b", "go"];
    let (code, out, errors) = home.run(&[], &[&SIM[..], &["--verbose"], &command].concat());
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, lines.len()), (Some(0), 8), "{out}{errors}");
    assert_eq!(lines[..3], ["-c", "model_provider=endstop", "-c"]);
    assert!(
        lines[3].starts_with("model_providers.endstop={name=\"Endstop\",base_url=\"http://127")
    );
    assert_eq!(lines[4..], ["exec", "-c", "a=b", "go"]);
    assert!(errors.contains("codex: adds flags -c model_provider=endstop"), "{errors}");
    let (_, out, errors) = home.run(&[], &[&SIM[..], &command].concat());
    assert!(out.contains("model_provider=endstop") && !errors.contains("adds"), "{errors}");
    let as_it_is = [&SIM[..], &["--no-adapter", "--verbose"], &command].concat();
    let (_, out, errors) = home.run(&[], &as_it_is);
    assert_eq!(out, "exec\n-c\na=b\ngo\n");
    assert!(!errors.contains("adds"), "{errors}");
}

/// A call to the address of the first flag that names a base URL, as Codex makes it.
const CODEX: &str = r#"
import json, sys, urllib.request
flag = [word for word in sys.argv if '.base_url=' in word][0]
base = json.loads(flag.split('=', 1)[1])
body = {'model': 'gpt-4o-mini', 'max_output_tokens': 50, 'input': 'Go.'}
headers = {'Content-Type': 'application/json', 'Authorization': 'Bearer key-of-corp'}
request = urllib.request.Request(base + '/responses', json.dumps(body).encode(), headers)
print(json.load(urllib.request.urlopen(request))['output'][0]['content'][0]['text'])
"#;

/// Codex does not read the variable, so the variable does not decide where the calls go.
#[test]
fn calls_of_codex_arrive_at_the_provider_of_its_own_settings() {
    let upstream = Upstream::start(|_| {
        let text = json!([{ "type": "output_text", "text": "Done.", "annotations": [] }]);
        let message = json!({ "type": "message", "id": "msg_1", "role": "assistant",
            "status": "completed", "content": text });
        let response = json!({ "id": "resp_1", "object": "response", "status": "completed",
            "model": "gpt-4o-mini", "output": [message],
            "usage": { "input_tokens": 9, "output_tokens": 1, "total_tokens": 10 } });
        (String::new(), response)
    });
    let config = format!(
        "model_provider = \"corp\"\n[model_providers.corp]\nname = \"Corp\"\nbase_url = \"{}/corp/v1\"\n",
        upstream.address
    );
    let home = Home::new("arrives")
        .program("codex", "exec python3 \"$HOME/codex.py\" \"$@\"")
        .file("codex.py", CODEX)
        .file(".codex/config.toml", &config);
    let file = home.0.join("run.json");
    let flags =
        ["--steps", "3", "--json-file", file.to_str().unwrap(), "--", "codex", "exec", "go"];
    let elsewhere = [("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")];
    let (code, out, errors) = home.run(&elsewhere, &flags);
    assert_eq!((code, out.as_str()), (Some(0), "Done.\n"), "{errors}");
    let heads = upstream.heads();
    assert_eq!(heads.len(), 1, "{heads:?}");
    assert!(heads[0].starts_with("POST /corp/v1/responses HTTP/1.1\r\n"), "{heads:?}");
    assert!(heads[0].contains("Bearer key-of-corp"), "{heads:?}");
    let told: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(told["upstream_calls"], 1, "{told}");
}

#[test]
fn a_program_that_is_missing_gets_no_advice_on_its_login() {
    let command = ["--usd", "1", "--", "codex", "exec", "go"];
    let home = Home::new("no-codex");
    let (code, _, errors) = home.run(&[], &command);
    assert_eq!(code, Some(127), "{errors}");
    assert!(errors.contains("`codex` not found") && !errors.contains("log in"), "{errors}");
    let (_, _, errors) = home.program("codex", "true").run(&[], &command);
    assert!(errors.contains("log in with `codex login`"), "{errors}");
}

#[test]
fn settings_are_in_a_private_directory_that_is_gone_at_the_end() {
    let says =
        "echo \"$GEMINI_CLI_SYSTEM_DEFAULTS_PATH\"; cat \"$GEMINI_CLI_SYSTEM_DEFAULTS_PATH\"; echo
                stat -c %a \"$(dirname \"$GEMINI_CLI_SYSTEM_DEFAULTS_PATH\")\"";
    let home = Home::new("gemini").program("gemini", says);
    let (code, out, errors) = home.run(&[], &[&SIM[..], &["--", "gemini"]].concat());
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, lines.len()), (Some(0), 3), "{out}{errors}");
    assert!(lines[1].contains("\"selectedType\":\"gemini-api-key\""), "{out}");
    assert_eq!(lines[2], "700");
    let file = Path::new(lines[0]);
    assert!(!file.exists() && !file.parent().unwrap().exists(), "{out}");
}

#[test]
fn a_gemini_in_a_script_gets_its_settings_unless_nothing_is_to_be_added() {
    let home = Home::new("script").program("gemini", "cat \"$GEMINI_CLI_SYSTEM_DEFAULTS_PATH\"");
    let run =
        |flags: &[&str]| home.run(&[], &[&SIM[..], flags, &["--", "sh", "-c", "gemini"]].concat());
    let (code, out, errors) = run(&[]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(out.contains("\"selectedType\":\"gemini-api-key\""), "{out}{errors}");
    for flag in ["--no-adapter", "--intercept"] {
        let (_, out, errors) = run(&[flag]);
        assert!(!out.contains("selectedType"), "{flag}: {out}{errors}");
    }
}

/// It can have keys of the user in it.
#[test]
fn the_private_directory_of_a_killed_run_is_removed_by_the_next_one() {
    let says = "echo $$; echo \"$GEMINI_CLI_SYSTEM_DEFAULTS_PATH\"; exec sleep 60";
    let home = Home::new("killed").program("gemini", says).program("my-agent", "true");
    let mut command = home.command(&[], &["run", "--upstream", "sim", "--", "gemini"]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let (left, file) = (lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap());
    // Before the kill: below a directory that everyone can write to, all tests share a place, and each run removes what is dead.
    assert!(Path::new(&file).exists(), "{file}");
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(Command::new("kill").arg(&left).status().unwrap().success());
    let (code, _, errors) = home.run(&[], &[&SIM[..], &["--", "my-agent"]].concat());
    assert_eq!(code, Some(0), "{errors}");
    assert!(!Path::new(&file).parent().unwrap().exists(), "{file}");
}

#[test]
fn the_scripted_model_sets_only_the_keys_that_a_program_reads() {
    let says = "echo \"$GEMINI_API_KEY,$GOOGLE_API_KEY,$OPENAI_API_KEY,$ANTHROPIC_API_KEY\"";
    let home = Home::new("keys").program("gemini", says).program("claude", says).program("x", says);
    let keys = |variables: &[(&str, &str)], program: &str| {
        home.run(variables, &[&SIM[..], &["--", program]].concat()).1
    };
    assert_eq!(keys(&[], "gemini"), "endstop-sim,,,\n");
    assert_eq!(keys(&[], "claude"), ",,,endstop-sim\n");
    assert_eq!(keys(&[("ANTHROPIC_AUTH_TOKEN", "t")], "claude"), ",,,\n");
    assert_eq!(keys(&[], "x"), "endstop-sim,endstop-sim,endstop-sim,endstop-sim\n");
    assert_eq!(keys(&[("GOOGLE_API_KEY", "g")], "x"), ",g,endstop-sim,endstop-sim\n");
    // Without additions too.
    for flag in ["--intercept", "--no-adapter"] {
        let (_, out, errors) = home.run(&[], &[&SIM[..], &[flag, "--", "gemini"]].concat());
        assert_eq!(out, "endstop-sim,,,\n", "{flag}: {errors}");
    }
}

#[test]
fn claude_on_bedrock_is_refused_unless_nothing_is_to_be_limited() {
    let home = Home::new("bedrock").program("claude", "echo started");
    let bedrock = [("CLAUDE_CODE_USE_BEDROCK", "1")];
    for limit in [&["--usd", "2"][..], &["--tokens", "100000"], &["--steps", "3"], &[]] {
        let (code, out, errors) = home.run(&bedrock, &[limit, &["--", "claude"]].concat());
        assert_eq!((code, out.as_str()), (Some(125), ""), "{errors}");
        let error = "error: claude uses Amazon Bedrock (CLAUDE_CODE_USE_BEDROCK)";
        assert!(errors.contains(error), "{errors}");
        assert!(errors.contains("hint: unset CLAUDE_CODE_USE_BEDROCK and set"), "{errors}");
    }
    for passes in [&["--no-adapter"][..], &["--dry-run"], &["--timeout", "10m"]] {
        let (code, out, errors) = home.run(&bedrock, &[passes, &["--", "claude"]].concat());
        assert_eq!((code, out.as_str()), (Some(0), "started\n"), "{errors}");
    }
    let (code, ..) = home.run(&[("CLAUDE_CODE_USE_BEDROCK", "0")], &["--", "claude"]);
    assert_eq!(code, Some(0));
}

#[test]
fn a_program_that_interception_cannot_limit_is_refused_with_it_too() {
    let home = Home::new("intercepted").program("claude", "echo started");
    let run = |variable: &str, flags: &[&str]| {
        let command = [&["--intercept"][..], flags, &["--", "claude"]].concat();
        let (code, out, errors) = home.run(&[(variable, "1")], &command);
        (code, out, errors.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    for variable in ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"] {
        let (code, out, errors) = run(variable, &["--steps", "3"]);
        assert_eq!((code, out.as_str()), (Some(125), ""), "{errors}");
        let error = "--intercept does not help, so no limit would apply";
        assert!(errors.contains(error) && errors.contains(variable), "{errors}");
        assert!(errors.contains(&format!("hint: unset {variable} and set")), "{errors}");
        for passes in [["--no-adapter"], ["--dry-run"]] {
            let (code, out, errors) = run(variable, &passes);
            assert_eq!((code, out.as_str()), (Some(0), "started\n"), "{errors}");
        }
    }
    // Where its calls go is not known.
    let (code, out, errors) = run("CLAUDE_CODE_USE_FOUNDRY", &["--steps", "3"]);
    assert_eq!((code, out.as_str()), (Some(0), "started\n"), "{errors}");
    let warning = "--intercept limits only those to addresses of model providers";
    assert!(errors.contains(warning), "{errors}");
}

#[test]
fn the_variables_of_interception_are_said_if_asked_for() {
    let home = Home::new("verbose").program("my-agent", "true");
    let (code, _, errors) = home.run(&[], &["--intercept", "--verbose", "--", "my-agent"]);
    assert_eq!(code, Some(0), "{errors}");
    let said = |begin: &str| errors.lines().find(|line| line.starts_with(begin)).unwrap();
    let set = said("endstop: --intercept: sets ");
    assert!(set.contains("SSL_CERT_FILE") && set.contains("NODE_EXTRA_CA_CERTS"), "{errors}");
    let left = said("endstop: --intercept: leaves ");
    assert!(left.contains("OPENAI_BASE_URL") && left.ends_with(" as before"), "{errors}");
    let (_, _, errors) = home.run(&[], &["--intercept", "--", "my-agent"]);
    assert!(!errors.contains("SSL_CERT_FILE"), "{errors}");
}

/// Of variables, settings and what adapters make of them.
#[test]
fn no_key_is_ever_said() {
    let home = Home::new("secret")
        .program("opencode", "true")
        .program("codex", "true")
        .file(".codex/auth.json", "{\"OPENAI_API_KEY\":\"sk-secret\"}");
    let content = "{\"provider\":{\"google\":{\"options\":{\"apiKey\":\"sk-secret\"}}}}";
    let variables = [("GEMINI_API_KEY", "sk-secret"), ("OPENCODE_CONFIG_CONTENT", content)];
    for program in ["opencode", "codex"] {
        let (code, out, errors) = home.run(&variables, &["--verbose", "--", program]);
        assert_eq!(code, Some(0), "{errors}");
        assert!(!format!("{out}{errors}").contains("sk-secret"), "{out}{errors}");
        for arguments in [&["--", program][..], &["--json", "--", program]] {
            let (_, said) = home.doctor(&variables, arguments);
            assert!(!said.contains("sk-secret"), "{said}");
        }
    }
}

/// A name, variables, a command, and the exit code.
type DoctorCase<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str], i32);

#[test]
fn doctor_says_whether_a_command_is_limited_and_how() {
    let marks = "echo started > \"$HOME/started\"";
    let home = Home::new("doctor").program("codex", marks).program("claude", marks);
    let home = home.program("gemini", marks).program("my-agent", marks).program("cn", marks);
    // The second part of the token has the plan.
    let token =
        "e30.eyJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9wbGFuX3R5cGUiOiJwbHVzIn19.sk-x";
    let chatgpt = format!("{{\"auth_mode\":\"chatgpt\",\"tokens\":{{\"id_token\":\"{token}\"}}}}");
    let claude = "{\"claudeAiOauth\":{\"accessToken\":\"sk-x\",\"subscriptionType\":\"max\"}}";
    let home = home.file("logins/codex/auth.json", &chatgpt);
    let home = home.file("logins/claude/.credentials.json", claude);
    let logins = home.0.join("logins");
    let [of_codex, of_claude] =
        ["codex", "claude"].map(|name| logins.join(name).to_str().unwrap().to_owned());
    let bedrock = [("CLAUDE_CODE_USE_BEDROCK", "1")];
    let cases: [DoctorCase<'_>; 9] = [
        ("codex", &[("OPENAI_API_KEY", "sk-x")], &["codex", "exec", "-m", "gpt-4o", "go"], 0),
        ("claude", &[("ANTHROPIC_API_KEY", "sk-x")], &["claude", "-p", "go"], 0),
        ("bedrock", &bedrock, &["claude", "-p", "go"], 1),
        ("chatgpt", &[("CODEX_HOME", of_codex.as_str())], &["codex", "exec", "go"], 0),
        ("subscription", &[("CLAUDE_CONFIG_DIR", of_claude.as_str())], &["claude", "-p", "go"], 0),
        ("--intercept bedrock", &bedrock, &["claude", "-p", "go"], 1),
        ("--intercept own", &[], &["cn", "--config", "x.yaml", "-p", "go"], 1),
        ("unknown", &[], &["my-agent"], 1),
        ("missing", &[], &["npx", "@google/gemini-cli"], 127),
    ];
    let mut all = String::new();
    for (name, variables, command, expected) in cases {
        let flags =
            if name.starts_with("--intercept") { &["--intercept", "--"][..] } else { &["--"] };
        let (code, said) = home.doctor(variables, &[flags, command].concat());
        // There may be an `npx` on the machine.
        let said = said.lines().filter(|line| name != "missing" || !line.starts_with("found"));
        let said: String = said.map(|line| format!("{line}\n")).collect();
        assert!(code == Some(expected) || name == "missing", "{name}: {code:?}\n{said}");
        all.push_str(&format!("$ {name}\n{said}\n"));
    }
    assert_eq!(home.doctor(&[], &["--", "no-such-program-anywhere"]).0, Some(127));
    assert!(!all.contains("sk-x"), "{all}");
    golden("doctor.txt", &all, &[]);
    assert!(!home.0.join("started").exists(), "doctor started a program");
    assert!(!home.0.join("endstop-RUN").exists(), "doctor made a directory");
}

#[test]
fn doctor_says_the_same_to_machines() {
    let home = Home::new("doctor-json").program("gemini", "true");
    let key = [("GEMINI_API_KEY", "sk-x")];
    let (code, said) = home.doctor(&key, &["--json", "--", "gemini", "-m", "gemini-2.5-pro"]);
    assert_eq!(code, Some(0));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["is_limited"], &said["way"]), (&true.into(), &"adapter".into()));
    golden("doctor.json", &format!("{said:#}"), &[]);
    let (code, said) = home.doctor(&[], &["--json", "--", "copilot"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (code, &said["is_limited"], &said["way"]),
        (Some(127), &false.into(), &"none".into())
    );
}

/// The way is by what is added, not by what the program needs elsewhere.
#[test]
fn doctor_says_what_the_run_of_the_same_words_does() {
    let way = |arguments: &[&str]| {
        let home = Home::new("doctor-way");
        let (_, said) = home.doctor(&[], &[&["--json"], arguments].concat());
        let said: Value = serde_json::from_str(&said).unwrap();
        (said["way"].as_str().unwrap().to_owned(), said["hint"].to_string())
    };
    assert_eq!(way(&["--", "opencode", "run", "go"]).0, "variables");
    assert_eq!(way(&["--", "opencode", "run", "--model", "google/gemini-2.5-pro"]).0, "adapter");
    assert_eq!(way(&["--", "cline", "go"]).0, "none");
    assert_eq!(way(&["--upstream", "sim:loop", "--", "cline", "go"]).0, "adapter");
    assert_eq!(way(&["--", "llm", "-m", "gpt-4o", "go"]).0, "variables");
    let (before, hint) = way(&["--", "llm", "-m", "gemini-2.5-flash", "go"]);
    assert_eq!(before, "none");
    assert!(hint.contains("--intercept"), "{hint}");
    for command in [&["llm", "-m", "gemini-2.5-flash", "go"][..], &["codex", "exec"]] {
        assert_eq!(
            way(&[&["--intercept", "--"][..], command].concat()).0,
            "intercept",
            "{command:?}"
        );
    }
    assert_eq!(way(&["--intercept", "--", "codex", "--oss"]).0, "none");
    // No test has tried these logins.
    for command in [&["copilot"][..], &["cline", "-P", "cline", "go"]] {
        let way = way(&[&["--intercept", "--"][..], command].concat()).0;
        assert_eq!(way, "unknown", "{command:?}");
    }
    let (own, hint) = way(&["--intercept", "--", "cline", "-P", "ollama", "go"]);
    assert_eq!((own.as_str(), hint.as_str()), ("unknown", "null"));
    assert_eq!(way(&["--intercept", "--", "my-agent"]).0, "unknown");
}
