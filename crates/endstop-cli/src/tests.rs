//! Tests of `endstop-cli`.

use super::*;

#[test]
fn the_command_line_is_well_formed() {
    command().debug_assert();
}

#[test]
fn short_help_has_one_line_per_option_and_per_command() {
    let mut root = command();
    root.build();
    let mut commands = vec![root];
    while let Some(mut command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let name = command.get_name().to_owned();
        let help = command.term_width(80).render_help().to_string();
        let (_, lists) = help.split_once("Usage:").unwrap();
        let continued = lists.lines().filter(|line| line.starts_with("          "));
        assert_eq!(continued.collect::<Vec<_>>(), Vec::<&str>::new(), "{name}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{name}: {help}");
    }
}

#[test]
fn options_of_other_programs_are_guessed() {
    for (names, right) in GUESSES {
        for name in *names {
            let line = ["endstop", "run", name, "2", "--", "true"];
            let error = command().try_get_matches_from(line).unwrap_err();
            assert_eq!(guessed(&error), Some(*right), "{name}: {error}");
        }
    }
    let error = command().try_get_matches_from(["endstop", "run", "--nope"]).unwrap_err();
    assert_eq!(guessed(&error), None);
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
