//! Tests of `endstop-cli`.

use super::*;

#[test]
fn the_command_line_is_well_formed() {
    command().debug_assert();
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
