//! Probes: custom measurements, as a pure fold over events.
//!
//! In order of cost: combine the conditions that exist; report a [fact](crate::event::EventKind::Fact);
//! register a [`Probe`], whose state is saved with the run; use a closure for one process
//! ([`Probes::with_local`]), which cannot be saved.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::event::Event;

/// A fold over the events of a run, compared as `probe("name") >= n`.
///
/// It must be pure: the same events give the same value in every process.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::units::Millis;
/// use endstop_core::probe::{Probe, Probes};
/// use endstop_core::{Directive, Event, EventKind, Policy, Program, Run, expr::parse};
/// use serde::{Deserialize, Serialize};
///
/// /// Counts user messages.
/// #[derive(Debug, Default, Serialize, Deserialize)]
/// struct Asked(u64);
///
/// impl Probe for Asked {
///     const NAME: &'static str = "asked";
///     fn observe(&mut self, event: &Event<'_>) {
///         self.0 += u64::from(matches!(event.kind, EventKind::UserMessage));
///     }
///     fn value(&self) -> Option<u64> {
///         Some(self.0)
///     }
/// }
///
/// let policy = Policy::stop(parse("probe(\"asked\") >= 1")?);
/// let mut run = Run::new(Arc::new(Program::new(&policy, &Probes::new().with::<Asked>())?));
/// let mut observe = |kind| run.observe(&Event::new(Millis(0), kind));
/// assert_eq!(observe(EventKind::StepBegin), Directive::Proceed);
/// observe(EventKind::UserMessage);
/// assert_eq!(observe(EventKind::StepBegin), Directive::Stop);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Probe: fmt::Debug + Default + Serialize + DeserializeOwned + Send + 'static {
    /// The name that conditions use.
    const NAME: &'static str;

    /// Records one event.
    fn observe(&mut self, event: &Event<'_>);

    /// The measurement; `None` while it is unknown.
    fn value(&self) -> Option<u64>;
}

/// A probe that is running.
trait RunningProbe: fmt::Debug + Send {
    fn observe(&mut self, event: &Event<'_>);
    fn value(&self) -> Option<u64>;
    /// The state as JSON; `None` for a closure, which cannot be saved.
    fn save(&self) -> Option<String>;
}

/// Why probes cannot continue from their saved state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeError {
    /// The probe of this name does not read its state.
    Unreadable(String),
}

/// The probes of one run, in the order of its program.
#[derive(Debug, Default)]
pub(crate) struct RunningProbes(Vec<(String, Box<dyn RunningProbe>)>);

impl RunningProbes {
    /// Fresh probes of these names, which the compiler has found among `probes`.
    pub(crate) fn start(names: &[String], probes: &Probes) -> Self {
        let start = |name: &String| match probes.start(name, None) {
            Some(probe) => (name.clone(), probe),
            None => unreachable!("a program has only probes that start"),
        };
        Self(names.iter().map(start).collect())
    }

    /// The probes of these names, each from its saved state if there is one.
    ///
    /// # Errors
    /// Returns [`ProbeError::Unreadable`] if a probe does not read its state.
    pub(crate) fn restart(
        names: &[String],
        probes: &Probes,
        saved: &BTreeMap<String, String>,
    ) -> Result<Self, ProbeError> {
        let restart = |name: &String| {
            let text = saved.get(name).map(String::as_str);
            let probe =
                probes.start(name, text).ok_or_else(|| ProbeError::Unreadable(name.clone()))?;
            Ok((name.clone(), probe))
        };
        names.iter().map(restart).collect::<Result<_, _>>().map(Self)
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn observe(&mut self, event: &Event<'_>) {
        self.0.iter_mut().for_each(|(_, probe)| probe.observe(event));
    }

    /// The current measurement of each probe.
    pub(crate) fn values(&self) -> impl Iterator<Item = Option<u64>> {
        self.0.iter().map(|(_, probe)| probe.value())
    }

    /// The state of each by name; `None` for a closure.
    pub(crate) fn saved(&self) -> impl Iterator<Item = (&str, Option<String>)> {
        self.0.iter().map(|(name, probe)| (name.as_str(), probe.save()))
    }
}

impl Clone for RunningProbes {
    /// A copy that keeps the last measurements of the probes and records nothing further.
    fn clone(&self) -> Self {
        let copy = |(name, probe): &(String, Box<dyn RunningProbe>)| {
            let still = Still { value: probe.value(), saved: probe.save() };
            (name.clone(), Box::new(still) as Box<dyn RunningProbe>)
        };
        Self(self.0.iter().map(copy).collect())
    }
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

/// The last measurement of a probe, in a copy of its run.
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
///
/// A program has to know each probe that its policy names; for one with a state see the example of [`Probe`].
///
/// ```
/// use endstop_core::policy::PolicyError;
/// use endstop_core::probe::Probes;
/// use endstop_core::{Policy, Program, expr::parse};
///
/// let policy = Policy::stop(parse("probe(\"late\") >= 1")?);
/// let unknown = Program::new(&policy, &Probes::new());
/// assert!(matches!(unknown, Err(PolicyError::UnknownProbe { .. })));
///
/// let probes = Probes::new().with_local("late", || |event| Some(u64::from(event.at.0 > 60_000)));
/// assert!(Program::new(&policy, &probes).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Creates an empty set of probes.
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

    /// Whether the name is registered.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.start(name, None).is_some()
    }

    /// A running probe, from its saved state if there is one; `None` if the name is not registered or the
    /// state is not the probe's.
    fn start(&self, name: &str, saved: Option<&str>) -> Option<Box<dyn RunningProbe>> {
        let (_, start) = self.rows.iter().find(|(row, _)| row == name)?;
        start(saved)
    }
}
