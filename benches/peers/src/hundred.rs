//! A hundred policies over one pass: how many runs the first of them would have cut.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use endstop_transcript::{RunFooter, RunHeader, RunSink, Transcript, Wants, Warning};
use endstop_price::PriceTable;
use endstop_core::expr::parse;
use endstop_core::probe::Probes;
use endstop_core::run::watch::{Watch, Watched};
use endstop_core::{Event, Policy};

use crate::recorded::PHRASES;

/// Steps, thousands of tokens and cents of the policy that is measured alone.
pub const LIMITS: [u64; 3] = [25, 50, 20];

/// The condition with these limits.
#[must_use]
pub fn condition([steps, tokens, cents]: &[u64; 3]) -> String {
    let [first, second, third] = PHRASES;
    format!(
        "steps >= {steps} or tokens >= {tokens}k or cost >= ${}.{:02} or said(\"{first}\") or said(\"{second}\") \
         or said(\"{third}\")",
        cents / 100,
        cents % 100
    )
}

/// The policy that is measured alone, and ninety-nine with other limits.
fn policies() -> Vec<Policy> {
    let others = (1..100).map(|n| [5 + n / 2, 10 + n, 5 + n]);
    let all = std::iter::once(LIMITS).chain(others);
    all.map(|limits| Policy::stop(parse(&condition(&limits)).expect("a condition"))).collect()
}

struct Cuts {
    watched: Arc<Watched>,
    current: Option<Watch>,
    /// The policies that stop the run but have not cut anything yet, and those that have.
    stopped: Vec<usize>,
    cut: Vec<u64>,
}

impl RunSink for Cuts {
    fn begin(&mut self, _run: &RunHeader<'_>) {
        self.current = Some(Watch::new(Arc::clone(&self.watched)));
        self.stopped.clear();
    }

    fn event(&mut self, event: &Event<'_>) {
        let Some(watch) = &mut self.current else { return };
        if let Some(trip) = watch.observe(event) {
            self.stopped.extend(trip.policies);
        }
        if event.kind.is_intention() {
            self.stopped.drain(..).for_each(|policy| self.cut[policy] += 1);
        }
    }

    fn end(&mut self, _end: &RunFooter<'_>) {
        assert!(self.current.take().is_some_and(|watch| watch.is_exact()));
    }

    fn warn(&mut self, warning: Warning) {
        panic!("{warning:?}");
    }

    fn wants(&self) -> Wants {
        Wants { words: self.watched.needs_text(), results: self.watched.needs_results() }
    }
}

/// The runs that the first policy would have cut; all hundred are counted.
///
/// # Panics
/// If a log is damaged.
#[must_use]
pub fn cuts(inputs: &[Transcript], jobs: usize) -> u64 {
    let policies = policies();
    let all: Vec<&Policy> = policies.iter().collect();
    let watched = Arc::new(Watched::new(&all, &Probes::new()).expect("policies of stop rules"));
    let (next, total) = (AtomicUsize::new(0), Mutex::new(vec![0; policies.len()]));
    let work = || {
        let cut = vec![0; policies.len()];
        let mut sink = Cuts { watched: Arc::clone(&watched), current: None, stopped: Vec::new(), cut };
        while let Some(input) = inputs.get(next.fetch_add(1, Ordering::Relaxed)) {
            input.read(PriceTable::embedded(), &mut sink);
        }
        let mut total = total.lock().expect("no panic");
        total.iter_mut().zip(&sink.cut).for_each(|(total, cut)| *total += cut);
    };
    std::thread::scope(|scope| {
        (0..jobs).for_each(|_| drop(scope.spawn(work)));
    });
    total.into_inner().expect("no panic")[0]
}
