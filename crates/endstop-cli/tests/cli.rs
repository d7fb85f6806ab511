//! The command line as a user meets it.

use std::process::{Command as Process, Stdio};

use snapbox::cmd::{Command, cargo_bin};

fn endstop() -> Command {
    Command::new(cargo_bin!("endstop")).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE")
}

fn stdout_of(command: Command) -> String {
    let output = command.assert().success().get_output().clone();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = stdout_of(endstop().arg("--help"));
    for part in ["Usage: endstop", "Examples:", "Exit codes:", "completions", "--color", "--quiet"]
    {
        assert!(help.contains(part), "`{part}` is missing in:\n{help}");
    }
    assert!(!help.contains('\u{1b}'), "color codes in a pipe");
}

#[test]
fn color_can_be_forced_and_forbidden() {
    let forced = stdout_of(endstop().args(["--color", "always", "--help"]));
    assert!(forced.contains('\u{1b}'));
    let forbidden =
        stdout_of(endstop().env("CLICOLOR_FORCE", "1").args(["--color=never", "--help"]));
    assert!(!forbidden.contains('\u{1b}'));
}

#[test]
fn every_subcommand_shows_an_example() {
    for subcommand in endstop_cli::command().get_subcommands() {
        let help = stdout_of(endstop().args([subcommand.get_name(), "--help"]));
        assert!(
            help.contains("Examples:"),
            "no example in the help of `{}`",
            subcommand.get_name()
        );
    }
}

#[test]
fn an_unknown_subcommand_is_a_usage_error() {
    endstop()
        .arg("complétions")
        .assert()
        .code(2)
        .stdout_eq("")
        .stderr_eq("error: unknown subcommand `complétions`\nhint: did you mean `completions`?\n");
}

#[test]
fn no_subcommand_prints_help_and_is_a_usage_error() {
    let output = endstop().assert().code(2).stdout_eq("").get_output().clone();
    assert!(String::from_utf8(output.stderr).unwrap().contains("Usage: endstop"));
}

#[test]
fn version_names_the_program() {
    endstop()
        .arg("--version")
        .assert()
        .success()
        .stdout_eq(format!("endstop {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout_of(endstop().args(["completions", shell]));
        assert!(script.contains("completions"), "{shell}: {script}");
    }
}

#[test]
fn man_pages() {
    let page = stdout_of(endstop().arg("man"));
    assert!(page.contains(".TH endstop 1"), "{page}");
    assert!(page.contains("Exit codes"), "{page}");
    let page = stdout_of(endstop().args(["man", "completions"]));
    assert!(
        page.contains(".TH endstop\\-completions 1") || page.contains(".TH endstop-completions 1"),
        "{page}"
    );
    endstop().args(["man", "completion"]).assert().code(2).stdout_eq("").stderr_eq(
        "error: unknown subcommand `completion`\nhint: the subcommands are [..]completions, man\n",
    );
}

#[test]
fn man_writes_a_file_for_each_subcommand() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    let _ = std::fs::remove_dir_all(&directory);
    endstop().arg("man").arg("--out").arg(&directory).assert().success().stdout_eq("");
    for name in ["endstop", "endstop-completions", "endstop-man"] {
        let page = std::fs::read_to_string(directory.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH NAME"), "{name}: {page}");
    }
    assert_eq!(
        std::fs::read_dir(&directory).unwrap().count(),
        endstop_cli::command().get_subcommands().count() + 1
    );
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-a-directory");
    std::fs::write(&file, "").unwrap();
    let output = endstop().arg("man").arg("--out").arg(&file).assert().code(2).get_output().clone();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.starts_with("error: cannot write `") && stderr.contains("not-a-directory"),
        "{stderr}"
    );
}

/// A reader that leaves before the first byte is the worst case of `| head`.
#[test]
fn a_closed_pipe_ends_quietly_with_success() {
    for arguments in [&["completions", "bash"][..], &["--help"], &["man"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Process::new(cargo_bin!("endstop"))
            .args(arguments)
            .stdout(Stdio::from(writer))
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}

/// `/dev/full` refuses every write: lost output is an error, never a success.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Process::new(cargo_bin!("endstop"))
        .args(["completions", "bash"])
        .stdout(Stdio::from(full))
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8(output.stderr).unwrap().starts_with("error: cannot write the output")
    );
}

#[test]
fn the_guide_to_ci_has_the_table_of_exit_codes() {
    let page = include_str!("../../../docs/guide/ci.md");
    for meaning in endstop_cli::error::ExitMeaning::ALL {
        let row = format!("| {} | {} |", meaning.code(), meaning.text());
        assert!(page.contains(&row), "docs/guide/ci.md lacks the row `{row}`");
    }
}

#[test]
fn short_help_has_one_line_per_option_and_per_command() {
    let mut root = endstop_cli::command();
    root.build();
    let mut commands = vec![root];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let name = command.get_name().to_owned();
        let mut command = command.term_width(80);
        let help = command.render_help().to_string();
        let (_, lists) = help.split_once("Usage:").unwrap();
        let continued = lists.lines().filter(|line| line.starts_with("          "));
        assert_eq!(continued.collect::<Vec<_>>(), Vec::<&str>::new(), "{name}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{name}: {help}");
        let long = command.render_long_help().to_string();
        let wide = long.lines().filter(|line| line.chars().count() > 80);
        assert_eq!(wide.collect::<Vec<_>>(), Vec::<&str>::new(), "{name}");
    }
}
