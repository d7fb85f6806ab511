//! Tests of `endstop-cli`.

use super::*;

#[test]
fn the_command_line_is_well_formed() {
    command().debug_assert();
}

#[test]
fn options_of_other_programs_are_guessed() {
    let answer = |line: &[&str]| {
        let error = command().try_get_matches_from(line).unwrap_err();
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        hint_for(&error, &args)
    };
    for (names, right, example) in GUESSES {
        for name in *names {
            let with_value = answer(&["endstop", "run", name, "7", "--", "true"]);
            assert_eq!(with_value, Some(format!("write `{right} 7`")), "{name}");
            let without_value = answer(&["endstop", "run", name, "--", "true"]);
            assert_eq!(without_value, Some(format!("write `{right} {example}`")), "{name}");
        }
    }
    let joined = answer(&["endstop", "run", "--max-usd=3", "--", "true"]);
    assert_eq!(joined.as_deref(), Some("write `--usd 3`"));
    assert_eq!(answer(&["endstop", "run", "--nope"]), None);
    let command = answer(&["endstop", "run", "--usd", "2"]);
    assert_eq!(command.as_deref(), Some("put the command last: `endstop run --usd 2 -- my-agent`"));
}

#[test]
fn input_is_quoted_in_backticks() {
    assert_eq!(
        in_backticks("invalid value 'x' for '--usd <USD>'"),
        "invalid value `x` for `--usd <USD>`"
    );
    assert_eq!(in_backticks("the policy's '-h'"), "the policy's `-h`");
    assert_eq!(in_backticks("'\u{1b}[33m--x\u{1b}[0m' found"), "`\u{1b}[33m--x\u{1b}[0m` found");
}

#[test]
fn the_subcommand_is_known_before_parsing() {
    let args = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
    assert_eq!(first_word(&args("endstop --color never -q run --steps x")), Some("run"));
    assert_eq!(first_word(&args("endstop agent run")), Some("agent"));
    assert_eq!(first_word(&args("endstop --help")), None);
}

#[test]
fn color_is_known_before_parsing() {
    let asked =
        |line: &str| color_asked_for(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
    assert_eq!(asked("endstop --color never --help"), ColorChoice::Never);
    assert_eq!(asked("endstop man --color=always"), ColorChoice::Always);
    assert_eq!(asked("endstop man"), ColorChoice::Auto);
    assert_eq!(asked("endstop -- --color=always"), ColorChoice::Auto);
}
