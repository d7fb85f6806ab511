//! When lines are written, and what happens when writing fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use endstop_core::event::Source;
use endstop_core::expr::parse;
use endstop_core::policy::{Action, Rule};

use super::*;
use crate::observe::Detail;
use crate::observe::play::{Play, Shared, policy};

const BEGIN: EventKind<'static> = EventKind::RunBegin { agent: None, depth: 0 };

fn step(play: &mut Play<'_>) {
    play.tell(1, EventKind::StepBegin, Detail::None);
    play.reply((5, 1), 1, Detail::None);
    play.tell(1, EventKind::StepEnd, Detail::None);
}

#[test]
fn a_root_run_and_what_its_descendants_do_are_one_trace() {
    let shared = Shared::default();
    let recorder = TraceRecorder::one_file(shared.clone()).prices("table 7");
    let mut parent = Play::new(&recorder, "parent", policy("steps >= 9"));
    parent.tell(0, BEGIN, Detail::None);
    let mut child = parent.child("kid", "worker", policy("steps >= 9"));
    child.tell(0, EventKind::StepBegin, Detail::None);
    parent.tell_of(0, EventKind::StepBegin, Detail::None, Source::Descendant);
    child.end();
    parent.end();
    let mut second = Play::new(&recorder, "second", policy("steps >= 9"));
    second.tell(0, BEGIN, Detail::None);
    assert_eq!(
        shared.text(),
        "{\"endstop_trace\":1,\"run\":\"parent\",\"model\":\"gpt-5.2\",\"cost_is\":\"computed\",\"prices\":\"table 7\"}\n\
         {\"at\":0,\"wall\":1793541910000,\"event\":\"run_begin\"}\n\
         {\"at\":0,\"wall\":1793541910000,\"descendant\":true,\"event\":\"step_begin\"}\n\
         {\"endstop_trace\":1,\"run\":\"second\",\"model\":\"gpt-5.2\",\"cost_is\":\"computed\",\"prices\":\"table 7\"}\n\
         {\"at\":0,\"wall\":1793541910000,\"event\":\"run_begin\"}\n"
    );
    assert!(
        shared.writes().iter().all(|write| write.ends_with('\n') && write.lines().count() == 1)
    );
    assert_eq!(recorder.problems(), TraceProblems::default());
}

#[test]
fn a_second_root_at_the_same_time_is_left_out_and_told() {
    let shared = Shared::default();
    let recorder = TraceRecorder::one_file(shared.clone());
    let mut first = Play::new(&recorder, "first", policy("steps >= 9"));
    let mut second = Play::new(&recorder, "second", policy("steps >= 9"));
    first.tell(0, BEGIN, Detail::None);
    second.tell(0, BEGIN, Detail::None);
    second.tell(0, EventKind::StepBegin, Detail::None);
    second.end();
    first.tell(0, EventKind::StepBegin, Detail::None);
    first.end();
    assert!(!shared.text().contains("second"));
    assert_eq!(shared.text().lines().count(), 3);
    let problems = recorder.problems();
    assert_eq!((problems.runs, problems.events), (1, 2));
    assert_eq!(problems.first.unwrap().0.as_str(), "second");
}

#[test]
fn every_run_can_have_a_file_of_its_own() {
    let shared = Shared::default();
    let (kept, opened) = (shared.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&opened);
    let recorder = TraceRecorder::file_per_run(move |info| {
        counted.fetch_add(1, Ordering::Relaxed);
        if info.id.as_str() == "locked" {
            return Err(io::Error::other("permission denied"));
        }
        Ok(Box::new(kept.clone()))
    });
    for id in ["a", "locked", "b"] {
        let mut play = Play::new(&recorder, id, policy("steps >= 9"));
        play.tell(0, BEGIN, Detail::None);
        step(&mut play);
        play.end();
    }
    assert_eq!(opened.load(Ordering::Relaxed), 3);
    assert_eq!(shared.text().lines().count(), 10);
    let problems = recorder.problems();
    assert_eq!((problems.runs, problems.events), (1, 4));
    assert_eq!(problems.first.unwrap().1, "permission denied");
}

#[test]
fn a_paused_run_that_goes_on_gets_no_second_header() {
    for per_run in [false, true] {
        let shared = Shared::default();
        let kept = shared.clone();
        let recorder = if per_run {
            TraceRecorder::file_per_run(move |_| Ok(Box::new(kept.clone())))
        } else {
            TraceRecorder::one_file(kept)
        };
        let mut pausing = policy("steps >= 9");
        pausing.rules.push(Rule::new("ask", Action::Pause, parse("steps >= 1").unwrap()));
        let mut play = Play::new(&recorder, "r", pausing);
        play.tell(0, BEGIN, Detail::None);
        step(&mut play);
        assert_eq!(play.run.status(), Status::Paused);
        play.end();
        play.tell(
            9,
            EventKind::Approved { rule: "ask", limit: None, by: "", why: "" },
            Detail::None,
        );
        step(&mut play);
        play.end();
        assert_eq!(shared.text().matches("endstop_trace").count(), 1, "{}", shared.text());
    }
}

#[test]
fn a_resumed_run_continues_the_file_it_has() {
    for (continues, headers) in [(true, 0), (false, 1)] {
        let shared = Shared::default();
        let recorder = TraceRecorder::one_file(shared.clone()).continues(continues);
        let mut play = Play::new(&recorder, "r", policy("steps >= 9"));
        play.info.is_resumed = true;
        step(&mut play);
        assert_eq!(shared.text().matches("endstop_trace").count(), headers);
    }
}

/// Takes so many writes, keeps what it took, and counts flushes.
struct Breaking {
    left: usize,
    taken: Shared,
    flushed: Arc<AtomicUsize>,
}

impl Write for Breaking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other("no space left"));
        }
        self.left -= 1;
        self.taken.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.flushed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_writer_that_breaks_leaves_a_trace_without_holes() {
    for left in 0..8 {
        let taken = Shared::default();
        let out = Breaking { left, taken: taken.clone(), flushed: Arc::default() };
        let recorder = TraceRecorder::one_file(out);
        let mut play = Play::new(&recorder, "r", policy("steps >= 9"));
        play.tell(0, BEGIN, Detail::None);
        step(&mut play);
        step(&mut play);
        play.end();
        assert_eq!(taken.writes().len(), left);
        let problems = recorder.problems();
        assert_eq!(problems.events, if left == 0 { 7 } else { 8 - left as u64 }, "{left}");
        assert_eq!((problems.runs, problems.first.unwrap().1.as_str()), (1, "no space left"));
    }
}

#[test]
fn what_is_kept_back_is_handed_on_when_asked() {
    for (flush, expected) in [(Flush::Line, 7 + 1), (Flush::Step, 2 + 1), (Flush::End, 1)] {
        let flushed = Arc::<AtomicUsize>::default();
        let out = Breaking { left: 99, taken: Shared::default(), flushed: Arc::clone(&flushed) };
        let recorder = TraceRecorder::one_file(out).flush(flush);
        let mut play = Play::new(&recorder, "r", policy("steps >= 9"));
        play.tell(0, BEGIN, Detail::None);
        step(&mut play);
        step(&mut play);
        play.end();
        assert_eq!(flushed.load(Ordering::Relaxed), expected, "{flush:?}");
    }
}

#[test]
fn more_runs_than_files_are_counted_as_lost() {
    let recorder = TraceRecorder::file_per_run(|_| Ok(Box::new(io::sink())));
    for number in 0..MAX_OPEN_TRACES + 3 {
        let mut play = Play::new(&recorder, &format!("r{number}"), policy("steps >= 9"));
        play.tell(0, BEGIN, Detail::None);
        play.tell(0, EventKind::StepBegin, Detail::None);
    }
    let problems = recorder.problems();
    assert_eq!((problems.runs, problems.events), (3, 6));
}
