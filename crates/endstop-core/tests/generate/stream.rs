//! Random runs that a well-behaved driver could report.
//!
//! A run is planned as a tree, so that a failing one shrinks to few steps, and then laid out as events.

use endstop_core::event::Source;
use endstop_core::units::{Cost, Millis, Money, TokenUsage, WallTime};
use endstop_core::{Event, EventKind};
use proptest::prelude::*;
use proptest::sample::select;

use super::vocabulary::{
    AGENTS, ARGUMENTS, COSTS_PICOS, FINISHES, GAPS_MS, REPORTED, RESULTS, SIGNALS, TEXTS, TOOLS,
    WALL_START_MS,
};

/// Most own steps of a run: enough for windows and streaks of three to fill and to slide.
const MAX_STEPS: usize = 7;

#[derive(Clone, Debug)]
struct RunPlan {
    agent: Option<&'static str>,
    depth: u32,
    before: Vec<Aside>,
    steps: Vec<StepPlan>,
    gaps: Vec<u64>,
}

#[derive(Clone, Debug)]
struct StepPlan {
    ahead: Option<ReservePlan>,
    attempts: Vec<AttemptPlan>,
    batch: Vec<CallPlan>,
    /// All calls of the batch begin before the first ends.
    parallel: bool,
    during: Vec<Aside>,
    hand_off: Option<&'static str>,
    after: Vec<Aside>,
}

/// Input tokens, output tokens, money.
type ReservePlan = (u64, u64, Option<Cost>);

#[derive(Clone, Debug)]
struct AttemptPlan {
    reserve: Option<ReservePlan>,
    next_cost: Option<Cost>,
    text: &'static str,
    cuts: Vec<usize>,
    /// `None` where the attempt fails.
    finish: Option<Option<&'static str>>,
    usage: Option<TokenUsage>,
    cost: Option<Cost>,
}

#[derive(Clone, Debug)]
enum CallPlan {
    Dispatched {
        tool: &'static str,
        arguments: &'static str,
        result: &'static str,
        failed: bool,
        /// The declared cost, with other holds, and the settled one.
        costs: (Option<(Money, Money)>, Option<Money>),
    },
    Refused {
        tool: &'static str,
    },
}

/// Events that may happen between the steps and during one.
#[derive(Clone, Debug)]
enum Aside {
    User,
    Fact(&'static str, u64),
    Signal(&'static str),
    Cancel,
    Tick,
    Pause,
    Hold,
    Child { depth: u32, steps: Vec<(Vec<AttemptPlan>, Vec<CallPlan>)>, hand_off: bool },
}

/// A run as events, without a trace of what was decided.
pub(crate) fn stream() -> impl Strategy<Value = Vec<Event<'static>>> {
    run().prop_map(|plan| {
        let mut layout = Layout { events: Vec::new(), now: 0, gaps: plan.gaps.clone() };
        layout.run(&plan);
        layout.events
    })
}

fn run() -> impl Strategy<Value = RunPlan> {
    (
        prop::option::of(select(&AGENTS[..])),
        0u32..3,
        prop::collection::vec(aside(), 0..2),
        prop::collection::vec(step(), 0..=MAX_STEPS),
        prop::collection::vec(select(&GAPS_MS[..]), 1..16),
    )
        .prop_map(|(agent, depth, before, steps, gaps)| RunPlan {
            agent,
            depth,
            before,
            steps,
            gaps,
        })
}

fn step() -> impl Strategy<Value = StepPlan> {
    (
        (prop::collection::vec(attempt(0.3), 0..2), prop::option::weighted(0.5, reserve())),
        attempt(0.1),
        prop::collection::vec(call(), 0..4),
        any::<bool>(),
        prop::collection::vec(aside(), 0..2),
        prop::option::weighted(0.2, select(&AGENTS[..])),
        prop::collection::vec(aside(), 0..2),
    )
        .prop_map(|((mut attempts, ahead), last, batch, parallel, during, hand_off, after)| {
            for retried in &mut attempts {
                retried.finish = None;
            }
            attempts.push(last);
            StepPlan { ahead, attempts, batch, parallel, during, hand_off, after }
        })
}

fn attempt(fails: f64) -> impl Strategy<Value = AttemptPlan> {
    (
        (prop::option::weighted(0.5, reserve()), prop::option::weighted(0.7, cost())),
        select(&TEXTS[..]),
        prop::collection::vec(0usize..30, 0..4),
        prop::option::weighted(1.0 - fails, prop::option::weighted(0.8, select(&FINISHES[..]))),
        prop::option::weighted(0.97, usage()),
        prop::option::weighted(0.97, cost()),
    )
        .prop_map(|((reserve, next_cost), text, cuts, finish, usage, cost)| AttemptPlan {
            reserve,
            next_cost,
            text,
            cuts,
            finish,
            usage,
            cost,
        })
}

pub(super) fn money() -> impl Strategy<Value = Money> {
    select(&COSTS_PICOS[..]).prop_map(Money::from_picos)
}

pub(super) fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![40 => money().prop_map(Cost::Known), 1 => Just(Cost::Unpriced)]
}

/// Amounts that land on a limit, and next to one.
pub(super) fn reserve() -> impl Strategy<Value = (u64, u64, Option<Cost>)> {
    let tokens = || select(&[0u64, 1, 49, 50, 51, 100, 101][..]);
    (tokens(), tokens(), prop::option::weighted(0.95, cost()))
}

pub(super) fn usage() -> impl Strategy<Value = TokenUsage> {
    (0u64..3, 0u64..3, 0u64..2, 0u64..2, 0u64..3).prop_map(|(input, read, write, hour, output)| {
        TokenUsage {
            input: input * 50,
            cache_read: read * 50,
            cache_write: write * 50,
            cache_write_1h: hour * 50,
            output: output * 50,
        }
    })
}

fn call() -> impl Strategy<Value = CallPlan> {
    let dispatched = (
        select(&TOOLS[..]),
        select(&ARGUMENTS[..]),
        select(&RESULTS[..]),
        prop::bool::weighted(0.2),
        (prop::option::weighted(0.3, (money(), money())), prop::option::weighted(0.3, money())),
    )
        .prop_map(|(tool, arguments, result, failed, costs)| CallPlan::Dispatched {
            tool,
            arguments,
            result,
            failed,
            costs,
        });
    let refused = select(&TOOLS[..]).prop_map(|tool| CallPlan::Refused { tool });
    prop_oneof![8 => dispatched, 1 => refused]
}

fn aside() -> impl Strategy<Value = Aside> {
    let child_step =
        (prop::collection::vec(attempt(0.3), 1..3), prop::collection::vec(call(), 0..2));
    prop_oneof![
        12 => Just(Aside::User),
        12 => (select(&REPORTED[..]), 0u64..6).prop_map(|(name, value)| Aside::Fact(name, value)),
        4 => select(&SIGNALS[..]).prop_map(Aside::Signal),
        // Rare: from then on every intention is refused.
        1 => Just(Aside::Cancel),
        12 => Just(Aside::Tick),
        8 => Just(Aside::Pause),
        8 => Just(Aside::Hold),
        12 => (1u32..4, prop::collection::vec(child_step, 0..3), any::<bool>())
            .prop_map(|(depth, steps, hand_off)| Aside::Child { depth, steps, hand_off }),
    ]
}

/// Cuts the text at these offsets, moved back to the boundary of a character. Empty pieces stay.
fn pieces<'t>(text: &'t str, cuts: &[usize]) -> Vec<&'t str> {
    let mut cuts: Vec<usize> = cuts.iter().map(|&at| text.floor_char_boundary(at)).collect();
    cuts.sort_unstable();
    let mut pieces = Vec::new();
    let mut start = 0;
    for cut in cuts.into_iter().chain([text.len()]) {
        pieces.push(&text[start..cut]);
        start = cut;
    }
    pieces
}

struct Layout {
    events: Vec<Event<'static>>,
    now: u64,
    gaps: Vec<u64>,
}

impl Layout {
    fn push(&mut self, source: Source, kind: EventKind<'static>) {
        self.now += self.gaps[self.events.len() % self.gaps.len()];
        let (at, wall) = (Millis(self.now), WallTime(WALL_START_MS + self.now));
        self.events.push(Event { at, wall, source, kind });
    }

    fn run(&mut self, plan: &RunPlan) {
        self.push(Source::Own, EventKind::RunBegin { agent: plan.agent, depth: plan.depth });
        self.asides(&plan.before);
        for step in &plan.steps {
            self.reserve(Source::Own, step.ahead);
            self.push(Source::Own, EventKind::StepBegin);
            self.attempts(Source::Own, &step.attempts, step.batch.len());
            self.asides(&step.during);
            self.batch(Source::Own, &step.batch, step.parallel);
            if let Some(to) = step.hand_off {
                self.push(Source::Own, EventKind::HandOff { to });
            }
            self.push(Source::Own, EventKind::StepEnd);
            self.asides(&step.after);
        }
        self.push(Source::Own, EventKind::RunEnd { succeeded: None });
    }

    fn reserve(&mut self, source: Source, plan: Option<ReservePlan>) {
        if let Some((input_tokens, output_tokens, cost)) = plan {
            self.push(source, EventKind::Reserve { input_tokens, output_tokens, cost });
        }
    }

    fn attempts(&mut self, source: Source, attempts: &[AttemptPlan], calls: usize) {
        for attempt in attempts {
            self.reserve(source, attempt.reserve);
            self.push(source, EventKind::AttemptBegin { next_cost: attempt.next_cost });
            for text in pieces(attempt.text, &attempt.cuts) {
                self.push(source, EventKind::Piece { text });
            }
            let (usage, cost) = (attempt.usage, attempt.cost);
            let tool_calls = u32::try_from(calls).unwrap_or(u32::MAX);
            self.push(
                source,
                match attempt.finish {
                    None => EventKind::AttemptFailed { usage, cost },
                    Some(finish) => {
                        EventKind::Reply { model: None, usage, cost, finish, tool_calls }
                    }
                },
            );
        }
    }

    fn batch(&mut self, source: Source, batch: &[CallPlan], parallel: bool) {
        if parallel {
            batch.iter().for_each(|call| self.begin(source, call));
            batch.iter().for_each(|call| self.end(source, call));
        } else {
            for call in batch {
                self.begin(source, call);
                self.end(source, call);
            }
        }
    }

    fn begin(&mut self, source: Source, call: &CallPlan) {
        if let CallPlan::Dispatched { tool, costs: (most, _), .. } = *call {
            if let Some((cost, held)) = most {
                self.push(source, EventKind::ToolReserve { tool, cost, held });
            }
            self.push(source, EventKind::ToolBegin { tool });
        }
    }

    fn end(&mut self, source: Source, call: &CallPlan) {
        let kind = match *call {
            CallPlan::Dispatched { tool, arguments, result, failed, costs: (_, settled) } => {
                if let Some(cost) = settled {
                    self.push(source, EventKind::ToolCost { tool, cost });
                }
                EventKind::ToolEnd { tool, arguments, result, failed }
            }
            CallPlan::Refused { tool } => EventKind::ToolRefused { tool },
        };
        self.push(source, kind);
    }

    fn asides(&mut self, asides: &[Aside]) {
        for aside in asides {
            match aside {
                Aside::User => self.push(Source::Own, EventKind::UserMessage),
                Aside::Fact(name, value) => {
                    self.push(Source::Own, EventKind::Fact { name, value: *value });
                }
                Aside::Signal(name) => {
                    self.push(Source::Own, EventKind::Signal { name, by: "", why: "" })
                }
                Aside::Cancel => self.push(Source::Own, EventKind::Cancel { message: "" }),
                Aside::Tick => self.push(Source::Own, EventKind::Tick),
                Aside::Pause => {
                    self.push(Source::Own, EventKind::Paused);
                    self.push(Source::Own, EventKind::Tick);
                    self.push(Source::Own, EventKind::Resumed);
                }
                Aside::Hold => {
                    self.push(Source::Own, EventKind::PauseRequested { by: "ann", why: "" });
                    self.push(Source::Own, EventKind::Tick);
                    self.push(Source::Own, EventKind::ResumeRequested { by: "bob", why: "" });
                }
                Aside::Child { depth, steps, hand_off } => self.child(*depth, steps, *hand_off),
            }
        }
    }

    fn child(&mut self, depth: u32, steps: &[(Vec<AttemptPlan>, Vec<CallPlan>)], hand_off: bool) {
        self.push(Source::Own, EventKind::ChildBegin { depth });
        for (attempts, batch) in steps {
            self.push(Source::Descendant, EventKind::StepBegin);
            self.attempts(Source::Descendant, attempts, batch.len());
            self.batch(Source::Descendant, batch, false);
            if hand_off {
                self.push(Source::Descendant, EventKind::HandOff { to: AGENTS[0] });
            }
            self.push(Source::Descendant, EventKind::StepEnd);
        }
        self.push(Source::Own, EventKind::ChildEnd);
    }
}
