//! The least distance along one axis at which a rule trips (docs/semantics.md, section 2).
//!
//! Nothing else sets timers, caps the next call's output, or shows "82 % of tokens".
//!
//! On the time axis a `count` in a time window falls while its stamps leave the window, and can become false. A
//! `streak` and other counts do not change with time.

use alloc::string::String;
use alloc::vec::Vec;

use crate::condition::Window;
use crate::meter::counters::Counter;
use crate::meter::evaluate::Inputs;
use crate::meter::{Meter, bit};
use crate::policy::program::{OpKind, Program, Read};
use crate::policy::projected::Part;
use crate::policy::{Action, Rule};
use crate::units::{Millis, Money};

/// What moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
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

/// What is held, or kept back, beside what is settled.
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

/// Where the next rule trips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextTrip {
    /// How far from now, in the axis' unit; 0 if it holds already.
    pub distance: u64,
    /// The rule.
    pub rule: String,
    /// Its action.
    pub action: Action,
}

/// How fast a gauge moves: per million units of the axis, rounded up.
const PER: u128 = 1_000_000;

pub(crate) fn next_trip(
    program: &Program,
    meter: &Meter,
    axis: Axis,
    reserved: Reserved,
    actions: &[Action],
    disarmed: &[bool],
) -> Option<NextTrip> {
    let trial = Trial { program, meter, axis, reserved, speeds: speeds(program, meter, axis) };
    trial.candidates().into_iter().find_map(|distance| {
        let rule = trial.first_rule(distance, actions, disarmed)?;
        Some(NextTrip { distance, rule: rule.id.clone(), action: rule.action })
    })
}

/// The speed of each gauge of the dense array.
fn speeds(program: &Program, meter: &Meter, axis: Axis) -> Vec<u64> {
    let one = u64::try_from(PER).unwrap_or(1);
    let is = |index: usize, counters: &[Counter]| counters.iter().any(|c| *c as usize == index);
    program
        .gauges
        .iter()
        .map(|gauge| match (axis, gauge.read) {
            (Axis::Time, Read::Elapsed | Read::Idle) => one,
            (Axis::Time, Read::Active) if meter.clocks.paused_since.is_none() => one,
            (Axis::Time, Read::Now) if meter.clocks.wall.0 > 0 => one,
            (Axis::Output { rate } | Axis::Input { rate }, Read::Counter { index, .. })
                if is(index, &[Counter::Cost]) =>
            {
                rate.picos()
            }
            (Axis::Output { .. }, Read::Counter { index, .. })
                if is(index, &[Counter::Tokens, Counter::OutputTokens]) =>
            {
                one
            }
            (Axis::Input { .. }, Read::Counter { index, .. })
                if is(index, &[Counter::Tokens, Counter::InputTokens]) =>
            {
                one
            }
            (Axis::Tokens, Read::Counter { index, .. }) if is(index, &[Counter::Tokens]) => one,
            (Axis::Cost, Read::Counter { index, .. }) if is(index, &[Counter::Cost]) => one,
            (Axis::ToolCalls, Read::Counter { index, .. }) if is(index, &[Counter::ToolCalls]) => {
                one
            }
            (Axis::Attempts, Read::Counter { index, .. }) if is(index, &[Counter::Attempts]) => one,
            (Axis::Steps, Read::Counter { index, .. })
                if is(index, &[Counter::Steps, Counter::Attempts]) =>
            {
                one
            }
            _ => 0,
        })
        .collect()
}

struct Trial<'a> {
    program: &'a Program,
    meter: &'a Meter,
    axis: Axis,
    reserved: Reserved,
    speeds: Vec<u64>,
}

impl Trial<'_> {
    /// The number of a moving gauge now: not as a count was last compared, but as it is. What is reserved
    /// is on top.
    fn start(&self, gauge: usize) -> u64 {
        let read = self.program.gauges.get(gauge).map(|slot| slot.read);
        let now = match read {
            Some(read) if self.speeds.get(gauge).is_some_and(|speed| *speed > 0) => {
                self.meter.read(read)
            }
            _ => self.meter.view.get(gauge).copied().unwrap_or(0),
        };
        let part = match read {
            Some(Read::Counter { index, .. }) => Part::of(index),
            _ => None,
        };
        now.saturating_add(part.map_or(0, |part| self.reserved.of(part)))
    }

    /// Every distance at which a leaf can change, in rising order.
    fn candidates(&self) -> Vec<u64> {
        let mut distances = alloc::vec![0];
        for compare in &self.meter.compares {
            let speed = self.speeds.get(compare.gauge).copied().unwrap_or(0);
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
        if self.axis == Axis::Time {
            distances.extend(self.windows());
        }
        distances.sort_unstable();
        distances.dedup();
        distances
    }

    /// When the stamp of a `within`, and each stamp of a `count` over time, leaves its window.
    fn windows(&self) -> impl Iterator<Item = u64> {
        let at = self.meter.clocks.at.0;
        let leaves = move |stamp: u64, duration: Millis| {
            stamp.saturating_add(duration.0).saturating_add(1).checked_sub(at)
        };
        let ops = self.program.ops.iter().zip(&self.meter.ops);
        ops.flat_map(move |(op, state)| {
            let (stamp, ring, duration) = match op.kind {
                OpKind::Stamp(Window::Time(duration)) if state.set => {
                    (Some(state.value), None, duration)
                }
                OpKind::Ring { window: Window::Time(duration), .. } => {
                    (None, Some(&state.ring), duration)
                }
                _ => (None, None, Millis(0)),
            };
            let stamps = stamp.into_iter().chain(ring.into_iter().flatten().copied());
            stamps.filter_map(move |stamp| leaves(stamp, duration))
        })
    }

    /// The stamps of a `count` over time that are still in its window at that time.
    fn counted(&self, gauge: usize, at: Millis) -> Option<u64> {
        let Read::Op(index) = self.program.gauges.get(gauge)?.read else { return None };
        let OpKind::Ring { window: Window::Time(duration), .. } = self.program.ops.get(index)?.kind
        else {
            return None;
        };
        let ring = &self.meter.ops.get(index)?.ring;
        let is_in = |stamp: &&u64| at.0.saturating_sub(**stamp) <= duration.0;
        u64::try_from(ring.iter().filter(is_in).count()).ok()
    }

    fn first_rule(&self, distance: u64, actions: &[Action], disarmed: &[bool]) -> Option<&Rule> {
        let at = match self.axis {
            Axis::Time => Millis(self.meter.clocks.at.0.saturating_add(distance)),
            _ => self.meter.clocks.at,
        };
        let number = |gauge| match self.axis {
            Axis::Time => self.counted(gauge, at).unwrap_or_else(|| self.moved(gauge, distance)),
            _ => self.moved(gauge, distance),
        };
        let view: Vec<u64> = (0..self.program.gauges.len()).map(number).collect();
        let mut truth = self.meter.truth.clone();
        let inputs = Inputs {
            view: &view,
            readings: &self.meter.readings,
            compares: &self.meter.compares,
            projection: None,
            ops: &self.meter.ops,
            at,
            begun: self.meter.step.begun,
            closed: self.meter.step.closed,
        };
        inputs.evaluate(self.program, &mut truth);
        let rules = self.program.policy.rules.iter().zip(&self.program.rules).enumerate();
        let mut holding = rules.filter(|(index, (rule, compiled))| {
            // A pause that a person has approved for good comes no more.
            let is_over = rule.action == Action::Pause && disarmed.get(*index) == Some(&true);
            actions.contains(&rule.action) && !is_over && bit(&truth, compiled.root)
        });
        holding.next().map(|(_, (rule, _))| rule)
    }

    fn moved(&self, gauge: usize, distance: u64) -> u64 {
        let speed = self.speeds.get(gauge).copied().unwrap_or(0);
        let way = (u128::from(distance) * u128::from(speed)).div_ceil(PER);
        self.start(gauge).saturating_add(u64::try_from(way).unwrap_or(u64::MAX))
    }
}

/// The least distance at which a gauge that is `now` reaches `end`; none if it is there or never gets
/// there.
fn first_at(now: u64, end: u64, speed: u64) -> Option<u64> {
    let missing = u128::from(end.checked_sub(now)?.checked_sub(1)?);
    u64::try_from(missing * PER / u128::from(speed) + 1).ok()
}
