//! The least distance along one resource at which a rule trips (docs/semantics.md, section 2).
//!
//! Nothing else sets timers, caps the next call's output, or shows "82% of tokens".
//!
//! On the time resource a `count` in a time window falls while its stamps leave the window, and can become false. A
//! `streak` and other counts do not change with time.

use alloc::string::String;
use alloc::vec::Vec;

use crate::condition::Window;
use crate::counter::Counter;
use crate::meter::Sight;
use crate::policy::Action;
use crate::program::{OpKind, Part, Read};
use crate::table::{GaugeIx, RuleIx, Table};
use crate::units::{Millis, Money};

/// The resource that moves.
///
/// See the example of [`Reserved`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Milliseconds: moves `elapsed`, `idle`, `now`, and `active` unless the run is paused.
    Time,
    /// Output tokens at so much money a million: moves `output_tokens`, `tokens` and `cost`.
    Output {
        /// Pico-dollars a million tokens.
        rate: Money,
    },
    /// Uncached input tokens at so much money a million: moves `input_tokens`, `tokens` and `cost`.
    Input {
        /// Pico-dollars a million tokens.
        rate: Money,
    },
    /// Steps of the run itself: moves `steps` and `attempts`.
    Steps,
    /// Tokens of no kind in particular: moves `tokens` alone.
    Tokens,
    /// Pico-dollars: moves `cost` alone.
    Cost,
    /// Calls of a tool that no rule names: moves `tool_calls` alone.
    ToolCalls,
    /// Model requests within the steps that have begun: moves `attempts` alone.
    Attempts,
}

/// Amounts that are held, or kept back, in addition to the settled ones.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, Run, condition::named::max_tokens, probe::Probes};
/// use endstop_core::Action;
/// use endstop_core::run::next_trip::{Reserved, Resource};
///
/// # let run = Run::new(Arc::new(Program::new(&Policy::from(max_tokens(1_000)), &Probes::new())?));
/// // Under `max_tokens(1000)`, with 400 tokens held, 600 are left.
/// let held = Reserved { input_tokens: 300, output_tokens: 100, ..Reserved::default() };
/// let next = run.room(Resource::Tokens, held, &[Action::Stop]).unwrap();
/// assert_eq!(next.distance, 600);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Money.
    pub cost: Money,
}

impl Reserved {
    const fn of(&self, part: Part) -> u64 {
        match part {
            Part::Cost => self.cost.picos(),
            Part::Tokens => self.input_tokens.saturating_add(self.output_tokens),
            Part::Input => self.input_tokens,
            Part::Output => self.output_tokens,
        }
    }
}

/// The place at which the next rule trips.
///
/// See the example of [`Reserved`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextTrip {
    /// The distance from now, in the unit of the resource; 0 if the rule trips already.
    pub distance: u64,
    /// The rule.
    pub rule: String,
    /// Its action.
    pub action: Action,
}

/// How fast a gauge moves: per million units of the resource, rounded up.
const PER: u128 = 1_000_000;

/// One unit of a gauge for each unit of the resource.
const ONE: u64 = PER as u64;

/// Only the rules of `actions` count; a pause that a person has approved permanently cannot trip again.
pub(super) fn next_trip(
    sight: Sight<'_>,
    resource: Resource,
    actions: &[Action],
    is_disarmed: impl Fn(RuleIx) -> bool,
) -> Option<NextTrip> {
    let trial = Trial::new(sight, resource, Reserved::default());
    trial.first_trip(|index| {
        actions.contains(&sight.program.rule(index).action) && !is_disarmed(index)
    })
}

/// Like [`next_trip`], for each rule that reads a gauge of the resource, in the order of the policy.
pub(super) fn next_trips(
    sight: Sight<'_>,
    resource: Resource,
    actions: &[Action],
    is_disarmed: impl Fn(RuleIx) -> bool,
) -> Vec<NextTrip> {
    let trial = Trial::new(sight, resource, Reserved::default());
    let moving: Vec<RuleIx> = trial.moving_rules().collect();
    let rules = sight.program.policy_rules();
    let rules = rules.filter(|(index, rule)| {
        actions.contains(&rule.action) && !is_disarmed(*index) && moving.contains(index)
    });
    rules.filter_map(|(rule, _)| trial.first_trip(|index| index == rule)).collect()
}

/// Like [`next_trip`], with reservations added, by the rules that read gauges of the resource.
pub(super) fn room(
    sight: Sight<'_>,
    resource: Resource,
    reserved: Reserved,
    actions: &[Action],
    is_disarmed: impl Fn(RuleIx) -> bool,
) -> Option<NextTrip> {
    let trial = Trial::new(sight, resource, reserved);
    let moving: Vec<RuleIx> = trial.moving_rules().collect();
    trial.first_trip(|index| {
        actions.contains(&sight.program.rule(index).action)
            && !is_disarmed(index)
            && moving.contains(&index)
    })
}

/// The speed of a gauge.
fn speed(sight: Sight<'_>, resource: Resource, read: Read) -> u64 {
    let clocks = sight.meter.clocks();
    let moves = match (resource, read) {
        (Resource::Time, Read::Elapsed | Read::Idle) => true,
        (Resource::Time, Read::Active) => !clocks.is_paused(),
        (Resource::Time, Read::Now) => clocks.wall().0 > 0,
        (
            Resource::Output { rate } | Resource::Input { rate },
            Read::Counter { counter: Counter::Cost, .. },
        ) => return rate.picos(),
        (_, Read::Counter { counter, .. }) => match resource {
            Resource::Output { .. } => matches!(counter, Counter::Tokens | Counter::OutputTokens),
            Resource::Input { .. } => matches!(counter, Counter::Tokens | Counter::InputTokens),
            Resource::Tokens => counter == Counter::Tokens,
            Resource::Cost => counter == Counter::Cost,
            Resource::ToolCalls => counter == Counter::ToolCalls,
            Resource::Attempts => counter == Counter::Attempts,
            Resource::Steps => matches!(counter, Counter::Steps | Counter::Attempts),
            Resource::Time => false,
        },
        _ => false,
    };
    if moves { ONE } else { 0 }
}

struct Trial<'a> {
    sight: Sight<'a>,
    resource: Resource,
    reserved: Reserved,
    speeds: Table<GaugeIx, u64>,
}

impl<'a> Trial<'a> {
    fn new(sight: Sight<'a>, resource: Resource, reserved: Reserved) -> Self {
        let gauges = sight.program.gauges().rows().iter();
        let speeds = gauges.map(|gauge| speed(sight, resource, gauge.read)).collect();
        Self { sight, resource, reserved, speeds }
    }

    /// Rules with a comparison of a gauge that moves. A rule can be named several times.
    fn moving_rules(&self) -> impl Iterator<Item = RuleIx> {
        let compares = self.sight.program.compares().rows().iter();
        compares.filter(|compare| *self.speeds.at(compare.gauge) > 0).map(|compare| compare.rule)
    }

    /// The least distance at which one of these rules trips.
    fn first_trip(&self, is_asked: impl Fn(RuleIx) -> bool) -> Option<NextTrip> {
        self.candidates().into_iter().find_map(|distance| {
            let rule = self.first_rule(distance, &is_asked)?;
            let rule = self.sight.program.rule(rule);
            Some(NextTrip { distance, rule: rule.id.clone(), action: rule.action })
        })
    }

    /// The number of a moving gauge now: the actual number, not the last one compared. Reservations are added.
    fn start(&self, gauge: GaugeIx) -> u64 {
        let read = self.sight.program.gauges().at(gauge).read;
        let now = if *self.speeds.at(gauge) > 0 {
            self.sight.meter.read(read)
        } else {
            self.sight.frame.number(gauge)
        };
        let part = match read {
            Read::Counter { counter, .. } => Part::of(counter),
            _ => None,
        };
        now.saturating_add(part.map_or(0, |part| self.reserved.of(part)))
    }

    /// Every distance at which a leaf can change, in rising order.
    fn candidates(&self) -> Vec<u64> {
        let mut distances = alloc::vec![0];
        for compare in self.sight.meter.compares().rows() {
            let speed = *self.speeds.at(compare.gauge);
            if speed == 0 {
                continue;
            }
            let now = self.start(compare.gauge);
            let ends = [
                Some(compare.range.lo),
                compare.range.lo.checked_add(compare.range.span).and_then(|hi| hi.checked_add(1)),
            ];
            distances
                .extend(ends.into_iter().flatten().filter_map(|end| first_at(now, end, speed)));
        }
        if self.resource == Resource::Time {
            distances.extend(self.windows());
        }
        distances.sort_unstable();
        distances.dedup();
        distances
    }

    /// When the stamp of a `within`, and each stamp of a `count` over time, leaves its window.
    fn windows(&self) -> impl Iterator<Item = u64> {
        let at = self.sight.meter.clocks().at().0;
        let operators = self.sight.program.ops().rows().iter();
        let states = operators.zip(self.sight.meter.operators().rows());
        let timed = states.filter_map(|(op, state)| match op.kind {
            OpKind::Stamp(Window::Time(duration))
            | OpKind::Ring { window: Window::Time(duration), .. } => Some((state, duration)),
            _ => None,
        });
        timed.flat_map(move |(state, duration)| {
            let leaves = move |stamp: u64| {
                stamp.saturating_add(duration.0).saturating_add(1).checked_sub(at)
            };
            state.stamps().filter_map(leaves)
        })
    }

    fn first_rule(&self, distance: u64, is_asked: &impl Fn(RuleIx) -> bool) -> Option<RuleIx> {
        let program = self.sight.program;
        let mut inputs = self.sight.inputs();
        let mut frame = self.sight.frame.clone();
        if self.resource == Resource::Time {
            inputs.now.at = Millis(inputs.now.at.0.saturating_add(distance));
        }
        for (gauge, slot) in program.gauges().iter() {
            let counted = match self.resource {
                Resource::Time => self.sight.meter.counted_later(program, slot.read, inputs.now.at),
                _ => None,
            };
            frame.set_number(gauge, counted.unwrap_or_else(|| self.moved(gauge, distance)));
        }
        frame.project(None);
        frame.fall_behind();
        frame.evaluate(&inputs);
        let trial = self.sight.through(&frame);
        let mut rules = program.policy_rules();
        rules.find(|(index, _)| is_asked(*index) && trial.is_met(*index)).map(|(index, _)| index)
    }

    fn moved(&self, gauge: GaugeIx, distance: u64) -> u64 {
        let way = (u128::from(distance) * u128::from(*self.speeds.at(gauge))).div_ceil(PER);
        // A gauge that would pass the largest number has passed every limit.
        self.start(gauge).saturating_add(u64::try_from(way).unwrap_or(u64::MAX))
    }
}

/// The least distance at which a gauge that is `now` reaches `end`; `None` if it is past that or never gets there.
fn first_at(now: u64, end: u64, speed: u64) -> Option<u64> {
    let missing = u128::from(end.checked_sub(now)?.checked_sub(1)?);
    u64::try_from(missing * PER / u128::from(speed) + 1).ok()
}
