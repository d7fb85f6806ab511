//! Tests of the stages of an interrupt.

use super::{Interrupts, Stage};
use crate::cancel::{CancelToken, Urgency};
use endstop_core::signal::StopReason;

#[test]
fn the_first_stops_the_second_cuts_and_every_further_one_exits() {
    let mut interrupts = Interrupts::new();
    let stages: Vec<Stage> = (0..5).map(|_| interrupts.interrupt()).collect();
    assert_eq!(stages, [Stage::Stop, Stage::Abort, Stage::Exit, Stage::Exit, Stage::Exit]);
}

#[test]
fn the_stages_raise_the_urgency_of_one_token_and_keep_the_first_signal() {
    let token = CancelToken::new();
    let mut interrupts = Interrupts::new();

    let (signal, urgency) = interrupts.interrupt().cancellation().unwrap();
    assert!(token.cancel(signal, urgency));
    assert_eq!(token.urgency(), Some(Urgency::Graceful));

    let (signal, urgency) = interrupts.interrupt().cancellation().unwrap();
    assert!(!token.cancel(signal, urgency));
    assert_eq!(token.urgency(), Some(Urgency::Now));

    let signal = token.signal().unwrap();
    assert_eq!(signal.reason, StopReason::UserRequested);
    assert_eq!(signal.message, "interrupted; once more to stop immediately");
    assert_eq!(signal.source.as_deref(), Some("interrupt"));
    assert_eq!(interrupts.interrupt().cancellation(), None);
}
