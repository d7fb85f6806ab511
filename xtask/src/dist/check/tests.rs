//! Tests of `check`.

use std::collections::BTreeSet;
use std::fs;

use super::*;

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
