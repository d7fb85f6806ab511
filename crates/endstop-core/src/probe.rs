//! Probes: measurements of the user's own, as a pure fold over events.
//!
//! In order of cost: combine the conditions that exist; report a [fact](crate::event::EventKind::Fact);
//! register a [`Probe`], whose state is saved with the run; use a closure for one process
//! ([`Probes::with_local`]), which cannot be saved.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::event::Event;

/// Largest saved state of one probe, in bytes of JSON.
pub const MAX_PROBE_STATE: usize = 4 * 1024;

/// A fold over the events of a run, compared as `probe("name") >= n`.
///
/// It must be pure: the same events give the same value in every process.
pub trait Probe: fmt::Debug + Default + Serialize + DeserializeOwned + Send + 'static {
    /// The name that conditions use.
    const NAME: &'static str;

    /// Takes in one event.
    fn observe(&mut self, event: &Event<'_>);

    /// The measurement; `None` while it is unknown.
    fn value(&self) -> Option<u64>;
}

/// A probe that is running.
pub(crate) trait RunningProbe: fmt::Debug + Send {
    fn observe(&mut self, event: &Event<'_>);
    fn value(&self) -> Option<u64>;
    /// The state as JSON; `None` for a closure, which cannot be saved.
    fn save(&self) -> Option<String>;
}

#[derive(Debug)]
struct Saved<P>(P);

impl<P: Probe> RunningProbe for Saved<P> {
    fn observe(&mut self, event: &Event<'_>) {
        self.0.observe(event);
    }

    fn value(&self) -> Option<u64> {
        self.0.value()
    }

    fn save(&self) -> Option<String> {
        serde_json::to_string(&self.0).ok()
    }
}

/// What a probe told last, in a copy of its run.
#[derive(Debug)]
struct Still {
    value: Option<u64>,
    saved: Option<String>,
}

impl RunningProbe for Still {
    fn observe(&mut self, _: &Event<'_>) {}

    fn value(&self) -> Option<u64> {
        self.value
    }

    fn save(&self) -> Option<String> {
        self.saved.clone()
    }
}

impl Clone for Box<dyn RunningProbe> {
    fn clone(&self) -> Self {
        Box::new(Still { value: self.value(), saved: self.save() })
    }
}

struct Local<F> {
    name: String,
    measure: F,
    last: Option<u64>,
}

impl<F> fmt::Debug for Local<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local")
            .field("name", &self.name)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl<F: FnMut(&Event<'_>) -> Option<u64> + Send> RunningProbe for Local<F> {
    fn observe(&mut self, event: &Event<'_>) {
        self.last = (self.measure)(event);
    }

    fn value(&self) -> Option<u64> {
        self.last
    }

    fn save(&self) -> Option<String> {
        None
    }
}

type Start = Arc<dyn Fn(Option<&str>) -> Option<Box<dyn RunningProbe>> + Send + Sync>;

/// The probes that a policy may name.
#[derive(Clone, Default)]
pub struct Probes {
    rows: Vec<(String, Start)>,
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.rows.iter().map(|(name, _)| name)).finish()
    }
}

impl Probes {
    /// No probes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers `P` under its name. A later registration of a name wins.
    #[must_use]
    pub fn with<P: Probe>(mut self) -> Self {
        let start: Start = Arc::new(|saved| {
            let state: P = match saved {
                Some(text) => serde_json::from_str(text).ok()?,
                None => P::default(),
            };
            Some(Box::new(Saved(state)))
        });
        self.rows.insert(0, (P::NAME.to_string(), start));
        self
    }

    /// Registers a closure: `make` gives a fresh one to each run, which maps every event to the current
    /// value. A run with it cannot be saved; see [`SaveError`](crate::run::SaveError).
    #[must_use]
    pub fn with_local<F>(
        mut self,
        name: impl Into<String>,
        make: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: FnMut(&Event<'_>) -> Option<u64> + Send + 'static,
    {
        let name: String = name.into();
        let label = name.clone();
        let start: Start = Arc::new(move |_| {
            Some(Box::new(Local { name: label.clone(), measure: make(), last: None }))
        });
        self.rows.insert(0, (name, start));
        self
    }

    /// A running probe, from its saved state if there is one; `None` if the name is not registered or the
    /// state is not the probe's.
    pub(crate) fn start(&self, name: &str, saved: Option<&str>) -> Option<Box<dyn RunningProbe>> {
        let (_, start) = self.rows.iter().find(|(row, _)| row == name)?;
        start(saved)
    }
}
