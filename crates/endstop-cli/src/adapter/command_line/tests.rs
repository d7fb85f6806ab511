//! Tests of `command_line`.

use super::*;

fn of(line: &str) -> Option<(&'static str, String)> {
    let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let invocation = Invocation::of(&command)?;
    let rest: Vec<String> =
        invocation.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    assert_eq!(command[invocation.insert_at..], invocation.arguments);
    Some((invocation.program.name, rest.join(" ")))
}

#[test]
fn a_program_is_known_behind_paths_runners_and_assignments() {
    for line in [
        "codex exec go",
        "/usr/local/bin/codex exec go",
        "npx @openai/codex exec go",
        "npx -y @openai/codex@0.169.0 exec go",
        "npx --package @openai/codex codex exec go",
        "npx --package=@openai/codex -- codex exec go",
        "pnpm dlx @openai/codex exec go",
        "yarn dlx @openai/codex@latest exec go",
        "bunx @openai/codex exec go",
        "bun x codex exec go",
        "env A=b -u C codex exec go",
        "env A=b npx @openai/codex exec go",
        "nohup codex exec go",
        "npm exec -- @openai/codex exec go",
        "npm exec @openai/codex -- exec go",
        "npm exec --package @openai/codex -- codex exec go",
        "npm x --yes -- codex exec go",
        "timeout 60 codex exec go",
        "timeout -k 5 --signal=INT 10m codex exec go",
        "nohup timeout --foreground 5 env A=b npx @openai/codex exec go",
        "node /opt/node_modules/@openai/codex/bin/codex.js exec go",
        "node codex.mjs exec go",
    ] {
        assert_eq!(of(line), Some(("codex", "exec go".to_owned())), "{line}");
    }
    assert_eq!(of("gemini"), Some(("gemini", String::new())));
    assert_eq!(of("uvx --from aider-chat aider -m x"), Some(("aider", "-m x".to_owned())));
    assert_eq!(of("uvx aider-chat==0.86.2 -m x"), Some(("aider", "-m x".to_owned())));
    assert_eq!(
        of("node /x/node_modules/@google/gemini-cli/dist/index.js -p x").unwrap().0,
        "gemini"
    );
}

#[test]
fn what_is_not_read_is_no_known_program() {
    for line in [
        "my-agent codex",
        "sh -c codex",
        "env -i codex",
        "npx -c codex",
        "npx",
        "env A=b",
        "node server.js",
        "node --inspect codex.js",
        "codex.py",
        "npx codex-something",
        // npm would take `-c` of the program as its own.
        "npm exec @openai/codex exec go",
        "npm exec @openai/codex",
        "npm run codex",
        "timeout 60",
        "timeout codex",
    ] {
        assert_eq!(of(line), None, "{line}");
    }
    assert!(Invocation::of(&[]).is_none());
}

#[test]
fn names_of_programs_are_unique() {
    for (at, program) in PROGRAMS.iter().enumerate() {
        for other in &PROGRAMS[at + 1..] {
            assert!(program.name < other.name, "{} {}", program.name, other.name);
            assert!(program.commands.iter().all(|name| !other.commands.contains(name)));
        }
    }
}
