//! A recorded run gives the same decisions when it is read back and replayed.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that is wrong should panic"
)]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use endstop::ledger::{Budget, Limits};
use endstop::observe::{Detail, Observation, Observer, RunInfo, TraceRecorder};
use endstop::store::RunId;
use endstop_core::event::NewLimit;
use endstop_core::policy::Rule;
use endstop_core::probe::Probes;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::{Event, EventKind, Policy, Program, Run};
use endstop_price::PriceTable;
use endstop_transcript::{Part, RunFooter, RunHeader, RunSink, Transcript, Warning, format};
use proptest::prelude::*;
use proptest::sample::{Index, select};

#[path = "../../endstop-core/tests/generate"]
mod generate {
    pub(crate) mod condition;
    pub(crate) mod rules;
    pub(crate) mod stream;
    pub(crate) mod vocabulary;
}

/// Names that the generator of rules uses.
mod naive {
    pub(crate) use endstop_core::Action;
    use endstop_core::Condition;

    #[derive(Clone, Debug)]
    pub(crate) struct Rule {
        pub(crate) name: &'static str,
        pub(crate) action: Action,
        pub(crate) condition: Condition,
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    generate::rules::rules().prop_map(|rules| {
        let rules = rules.into_iter().map(|rule| Rule::new(rule.name, rule.action, rule.condition));
        Policy { rules: rules.collect(), ..Policy::default() }
    })
}

fn interventions() -> impl Strategy<Value = EventKind<'static>> {
    static RAISED: std::sync::LazyLock<StopSignal> = std::sync::LazyLock::new(|| {
        let signal =
            StopSignal::new(StopReason::StopRequested).with_message("say \"done\"\n\u{1b}");
        signal.with_context("files", 3).with_source("submit")
    });
    let cap = (select(&["cost", "steps", "tokens"][..]), 0u64..500)
        .prop_map(|(gauge, limit)| NewLimit { gauge, limit });
    prop_oneof![
        3 => Just(EventKind::ContinuationRequested { by: "critic" }),
        2 => (select(&["first", "second"][..]), prop::option::of(cap))
            .prop_map(|(rule, limit)| EventKind::Approved { rule, limit, by: "", why: "" }),
        1 => Just(()).prop_map(|()| EventKind::StopRaised { signal: &RAISED }),
        1 => Just(EventKind::Piece { text: "tab\t, quote \", bell \u{7}, \u{202e}, \u{1f600}" }),
    ]
}

/// A run from its beginning to its end, with what people and hooks do in between.
fn streams() -> impl Strategy<Value = Vec<Event<'static>>> {
    let added = prop::collection::vec((any::<Index>(), interventions()), 0..6);
    (generate::stream::stream(), added).prop_map(|(mut events, added)| {
        for (place, kind) in added {
            // After the beginning, and before the end where there is one.
            let place = 1 + place.index(events.len().saturating_sub(1).max(1));
            let Some(before) = events.get(place - 1).cloned() else { continue };
            events.insert(place, Event { kind, ..before });
        }
        events
    })
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same policy over the runs of a transcript.
struct Replay {
    program: Arc<Program>,
    run: Option<Run>,
    left: usize,
}

impl RunSink for Replay {
    fn begin(&mut self, run: &RunHeader<'_>) {
        assert_eq!((run.id, run.model), ("a-run", Some("some-model")));
        assert!(self.run.is_none(), "one header, one run");
        self.run = Some(Run::new(Arc::clone(&self.program)));
    }
    fn event(&mut self, event: &Event<'_>) {
        // The reader ends a run that the file does not end.
        if self.left > 0 {
            self.run.as_mut().unwrap().observe(event);
            self.left -= 1;
        }
    }
    fn end(&mut self, _end: &RunFooter<'_>) {}
    fn warn(&mut self, warning: Warning) {
        panic!("{warning:?}");
    }
}

fn info() -> RunInfo {
    RunInfo {
        id: RunId::parse("a-run").unwrap(),
        parent: None,
        agent: "main".to_owned(),
        model: "some-model".to_owned(),
        provider: String::new(),
        depth: 0,
        is_resumed: false,
    }
}

proptest! {
    #[test]
    fn a_recorded_run_replays_to_the_same_trip_record(policy in policies(), events in streams()) {
        let program = Arc::new(Program::new(&policy, &Probes::new()).unwrap());
        let (info, budget) = (info(), Budget::root(Limits::unlimited()));
        let file = Shared::default();
        let recorder = TraceRecorder::one_file(file.clone());
        let mut run = Run::new(Arc::clone(&program));
        for event in &events {
            let directive = run.observe(event);
            let detail = Detail::None;
            recorder.observe(&Observation {
                info: &info, event, directive, detail, run: &run, budget: &budget,
            });
        }
        recorder.run_ended(&info, &run, &budget);
        prop_assert_eq!(recorder.problems(), Default::default());

        let text = file.0.lock().unwrap().clone();
        let main = Part::bytes("run.jsonl", text);
        let format = format("endstop").unwrap();
        let transcript = Transcript { format, main, children: Vec::new() };
        let mut replay = Replay { program, run: None, left: events.len() };
        transcript.read(&PriceTable::default(), &mut replay);
        let replayed = replay.run.unwrap();
        prop_assert_eq!(replay.left, 0);
        prop_assert_eq!(replayed.trip_record().to_json(), run.trip_record().to_json());
        prop_assert_eq!(replayed.save(), run.save());
    }
}
