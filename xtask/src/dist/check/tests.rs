//! Tests of `check`.

use std::collections::BTreeSet;
use std::fs;

use super::*;
use crate::dist::sandbox::exits;

#[test]
fn a_release_that_installs_slowly_has_failed() {
    let slow = || Outcome::Ran(GOAL + Duration::from_millis(100));
    let failed = judged(slow(), Effort::Release, true);
    assert_eq!(failed, Outcome::Failed("30.1 s, more than 30 s".to_owned()));
    assert_eq!(judged(Outcome::Ran(GOAL), Effort::Release, true), Outcome::Ran(GOAL));
    assert_eq!(judged(slow(), Effort::Trial, true), slow());
    assert_eq!(judged(slow(), Effort::Release, false), slow());
    let skipped = || Outcome::Skipped("no npm".to_owned());
    assert_eq!(judged(skipped(), Effort::Release, true), skipped());
    assert!(line("x", &failed).contains("FAILED") && !line("x", &slow()).contains("FAILED"));
}

#[test]
fn every_channel_has_a_trial() {
    let tried: BTreeSet<&str> = channels::TRIALS.iter().map(|trial| trial.channel).collect();
    assert_eq!(tried, crate::dist::CHANNELS.into_iter().collect());
}

/// Names in capitals after a dollar sign.
fn read_by(script: &str) -> BTreeSet<String> {
    let names = script.split('$').skip(1).map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let is_part = |sign: &char| sign.is_ascii_uppercase() || *sign == '_';
        rest.chars().take_while(is_part).collect::<String>()
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// The variables of the step that starts a script.
fn given_to(action: &str, script: &str) -> BTreeSet<String> {
    let end = action.find(script).unwrap();
    let (_, step) = action[..end].rsplit_once("env:\n").unwrap();
    let lines = step.lines().take_while(|line| !line.trim_start().starts_with("run:"));
    lines.filter_map(|line| line.trim().split_once(": ${{")).map(|it| it.0.to_owned()).collect()
}

#[test]
fn the_steps_of_the_action_give_their_scripts_what_they_read() {
    let root = crate::root::root();
    let action = fs::read_to_string(root.join("action.yml")).unwrap();
    // These are set by GitHub, and this one by the check.
    let is_given = |name: &String| {
        !name.starts_with("GITHUB_") && name != "RUNNER_TEMP" && name != "ENDSTOP_RELEASES"
    };
    for (script, count) in [("packaging/action-install.sh", 2), ("packaging/action.sh", 4)] {
        let text = fs::read_to_string(root.join(script)).unwrap();
        let read: BTreeSet<String> = read_by(&text).into_iter().filter(is_given).collect();
        assert_eq!(given_to(&action, script), read, "{script}");
        assert_eq!(read.len(), count, "{script}: {read:?}");
    }
}

#[test]
fn the_action_installs_the_version_that_it_belongs_to() {
    let root = crate::root::root();
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap();
    let (action, manifest) = (read("action.yml"), read("Cargo.toml"));
    let (_, input) = action.split_once("  version:\n").unwrap();
    let default = input.lines().find_map(|line| line.trim().strip_prefix("default: ")).unwrap();
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).unwrap();
    assert_eq!(default, version);
}

/// Makes a release of one archive, whose program is `$1`, in the directory `files`.
const RELEASE: &str = r#"
set -e
name=endstop-9-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m | sed 's/arm64/aarch64/; s/amd64/x86_64/')
rm -rf files
mkdir -p "files/$name/completions" "files/$name/man/man1"
printf '#!/bin/sh\n%s\n' "$1" >"files/$name/endstop"
chmod +x "files/$name/endstop"
cd files
for file in completions/endstop.bash completions/_endstop completions/endstop.fish man/man1/endstop.1 LICENSE; do
    echo text >"$name/$file"
done
tar -czf "$name.tar.gz" "$name"
(sha256sum "$name.tar.gz" || shasum -a 256 "$name.tar.gz") >SHA256SUMS
"#;

#[test]
fn a_binary_that_does_not_start_is_not_installed() {
    let root = crate::root::root();
    let sandbox = Sandbox::new(&root, "a binary that does not start").unwrap();
    let script = fs::read_to_string(root.join("packaging/install.sh")).unwrap();
    let file = sandbox.path("install.sh");
    fs::write(&file, script.replace("@VERSION@", "9")).unwrap();
    let install = |program: &str, code: i32| {
        let mut release = sandbox.command("sh");
        exits(release.args(["-c", RELEASE, "sh", program]), 0).unwrap();
        let mut sh = sandbox.command("sh");
        let files = sandbox.path("home/files");
        sh.arg(&file).env("ENDSTOP_DOWNLOAD", format!("file://{}", files.display()));
        exits(&mut sh, code).unwrap();
    };
    let binary = sandbox.path("home/.local/bin/endstop");
    install("echo endstop 9", 0);
    let installed = fs::read(&binary).unwrap();
    install("exit 1", 1);
    // The one of before is still there, with its man page.
    assert_eq!(fs::read(&binary).unwrap(), installed);
    assert!(sandbox.path("home/.local/share/man/man1/endstop.1").exists());
}

/// An `endstop` that writes its arguments and its child processes to files, and says at its end that it has stopped.
const ENDSTOP: &str = r#"#!/bin/sh
printf '%s\n' "$@" >"$HOME/arguments"
read -r children <"/proc/$$/task/$$/children"
printf '%s' "$children" >"$HOME/children"
echo 'endstop: stopped (steps_limit)' >&2
exit 124
"#;

#[test]
fn the_action_gives_endstop_no_child_to_wait_for_and_known_programs_no_shell() {
    use std::os::unix::fs::PermissionsExt as _;

    let root = crate::root::root();
    let sandbox = Sandbox::new(&root, "scripts of the action").unwrap();
    let home = sandbox.path("home");
    for (name, script) in [("endstop", ENDSTOP), ("codex", "#!/bin/sh\n")] {
        let program = home.join(name);
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths([home.clone()].into_iter().chain(std::env::split_paths(&path)));
    let path = path.unwrap();
    let started = |command: &str| {
        let mut script = sandbox.command("bash");
        script.arg(root.join("packaging/action.sh")).env("PATH", &path).env("ACTION_RUN", command);
        script.env("RUNNER_TEMP", &home).env("TASK", "a; (b)");
        script.env("GITHUB_STEP_SUMMARY", sandbox.path("page"));
        script.env("GITHUB_OUTPUT", sandbox.path("outputs"));
        exits(&mut script, 124).unwrap();
        let read = |name: &str| fs::read_to_string(home.join(name)).unwrap();
        assert_eq!(read("children"), "", "{command}");
        assert_eq!(read("endstop.txt"), "endstop: stopped (steps_limit)\n", "{command}");
        let arguments = read("arguments");
        let (_, after) = arguments.split_once("\n--\n").unwrap();
        after.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for command in ["codex exec 'it is (a; b)'", "codex exec \"it is (a; b)\"\n"] {
        assert_eq!(started(command), ["codex", "exec", "it is (a; b)"], "{command}");
    }
    assert_eq!(started("codex exec \"$TASK\""), ["codex", "exec", "a; (b)"]);
    for command in [
        "codex exec go | cat",
        "codex exec \"$(cat task)\"",
        "codex exec `cat task`",
        "codex exec a; codex exec b",
        "codex exec \"it is \\\"quoted\\\"\"",
        "codex exec \"not closed",
        "NAME=value codex exec go",
        "cd work",
        "exit 3",
        "missing-program go",
    ] {
        assert_eq!(started(command), ["bash", "-eo", "pipefail", "-c", command]);
    }
    let lines = "codex exec a\ncodex exec b";
    assert_eq!(started(lines)[4..], ["codex exec a", "codex exec b"]);
}
