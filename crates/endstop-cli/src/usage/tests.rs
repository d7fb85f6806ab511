//! Wrong guesses of the command line, and what each is answered.

use super::*;
use crate::command;

fn answer(line: &[&str]) -> CliError {
    let error = command().try_get_matches_from(line).unwrap_err();
    let args: Vec<OsString> = line.iter().map(OsString::from).collect();
    usage_error(&error, &command(), &args).unwrap()
}

fn hint(line: &str) -> String {
    let line: Vec<&str> = line.split(' ').collect();
    answer(&line).hint.unwrap_or_default()
}

#[test]
fn options_of_other_programs_are_guessed() {
    for (names, right, example) in GUESSES {
        for name in *names {
            let with_value = hint(&format!("endstop run {name} 7 -- true"));
            assert_eq!(with_value, format!("write `{right} 7`"), "{name}");
            let without_value = hint(&format!("endstop run {name} -- true"));
            assert_eq!(without_value, format!("write `{right} {example}`"), "{name}");
        }
    }
    assert_eq!(hint("endstop run --max-usd=3 -- true"), "write `--usd 3`");
}

#[test]
fn wrong_guesses_are_answered_with_what_to_write() {
    for (line, message, wanted) in [
        ("endstop run -usd 2 -- true", "unexpected argument `-u`", "write `--usd`"),
        (
            "endstop run --setps 2 -- true",
            "unexpected argument `--setps`",
            "did you mean `--steps`?",
        ),
        ("endstop run --model x -- true", "unexpected argument `--model`", "after `--`"),
        (
            "endstop --usd 2 -- claude",
            "unexpected argument `--usd`",
            "`endstop run --usd 2 -- my-agent`",
        ),
        (
            "endstop serve --port 9000",
            "unexpected argument `--port`",
            "write `--listen 127.0.0.1:9000`",
        ),
        (
            "endstop serve --listen 9000",
            "invalid value `9000` for `--listen <ADDR>`",
            "127.0.0.1:8484",
        ),
        ("endstop run", "missing command", "endstop run --usd 2 -- my-agent"),
        ("endstop cancel", "missing argument `<RUN>`", "for example `endstop cancel nightly-17"),
        ("endstop key new", "missing argument `<NAME>`", "endstop key"),
        ("endstop rnu", "unknown subcommand `rnu`", "did you mean `run`?"),
        ("endstop stop", "unknown subcommand `stop`", "`endstop cancel RUN`"),
        ("endstop status", "unknown subcommand `status`", "`endstop ps`"),
        ("endstop claude -p x", "unknown subcommand `claude`", "`endstop run -- COMMAND`"),
        (
            "endstop run --steps abc -- true",
            "invalid value `abc` for `--steps <N>`",
            "write a whole number",
        ),
        ("endstop run --timeout 10 -- true", "a time has a unit", "did you mean `10s`?"),
        ("endstop run --tokens 2m -- true", "uppercase M", "did you mean `2M`?"),
        ("endstop spend --by week", "invalid value `week` for `--by <WHAT>`", "write one of day"),
        ("endstop completions tcsh", "invalid value `tcsh` for `<SHELL>`", "did you mean `zsh`?"),
        (
            "endstop run --usd 2 --usd 3 -- true",
            "cannot be used multiple times",
            "`endstop run --help`",
        ),
        ("endstop budget me team-a", "unexpected `team-a`", "`endstop budget --help`"),
        ("endstop budget adust me +1", "unexpected `me`", "did you mean `adjust`?"),
        ("endstop budget me adjust", "unexpected `adjust`", "`endstop budget adjust`"),
        ("endstop serve --usd", "a value is required for `--usd <USD>`", "`endstop serve --help`"),
    ] {
        let line: Vec<&str> = line.split(' ').collect();
        let error = answer(&line);
        assert!(error.message.contains(message), "{line:?}: {error:?}");
        assert!(error.hint.clone().unwrap_or_default().contains(wanted), "{line:?}: {error:?}");
    }
}

#[test]
fn input_is_quoted_in_backticks() {
    assert_eq!(
        in_backticks("invalid value 'x' for '--usd <USD>'"),
        "invalid value `x` for `--usd <USD>`"
    );
    assert_eq!(in_backticks("the policy's '-h'"), "the policy's `-h`");
    assert_eq!(in_backticks("'--x' found"), "`--x` found");
}
