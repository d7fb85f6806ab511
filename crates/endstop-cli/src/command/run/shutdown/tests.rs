//! Tests of `shutdown`.

use super::*;

#[test]
fn the_stages_follow_each_other_in_time() {
    let begin = Instant::now();
    let at = |millis| begin + Duration::from_millis(millis);
    let mut shutdown = ShutdownPhase::Going;
    assert_eq!((shutdown.act(at(0)), shutdown.due()), (None, None));
    shutdown.stop(at(0), Duration::from_secs(10));
    shutdown.stop(at(5_000), Duration::from_secs(10));
    assert_eq!(shutdown.act(at(9_999)), None);
    assert_eq!(shutdown.act(at(10_000)), Some(ShutdownAction::Terminate));
    assert_eq!(shutdown.act(at(14_999)), None);
    assert_eq!(shutdown.act(at(15_000)), Some(ShutdownAction::Kill));
    let acts: Vec<ShutdownAction> =
        (0..30).filter_map(|n| shutdown.act(at(15_200 + n * 200))).collect();
    assert_eq!(acts.iter().filter(|act| **act == ShutdownAction::Kill).count(), 24);
    assert_eq!(acts.last(), Some(&ShutdownAction::GiveUp));
}

#[test]
fn without_grace_the_signal_follows_at_once() {
    let begin = Instant::now();
    let mut shutdown = ShutdownPhase::Going;
    shutdown.stop(begin, Duration::ZERO);
    assert!(!shutdown.has_signalled());
    assert_eq!(shutdown.act(begin), Some(ShutdownAction::Terminate));
    assert!(shutdown.has_signalled());
}

#[test]
fn signals_before_the_end_of_the_command_ended_it_and_later_ones_what_it_left() {
    let mut sent = SentSignals::default();
    sent.note(Signal::SIGTERM, false);
    assert_eq!(sent, SentSignals { command: Some(Signal::SIGTERM), left_behind: None });
    sent.note(Signal::SIGKILL, true);
    sent.note(Signal::SIGKILL, true);
    let left_behind = Some(Signal::SIGKILL);
    assert_eq!(sent, SentSignals { command: Some(Signal::SIGTERM), left_behind });
}
