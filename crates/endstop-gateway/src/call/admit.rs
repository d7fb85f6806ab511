//! Asking the run whether a call may begin.

use std::sync::Arc;
use std::time::Duration;

use endstop::agent::MIN_OUTPUT_TOKENS;
use endstop::agent::driver::{Call, DrivenRun, NotBegun, OpenCall, Pricing};
use endstop::core::event::EventKind;
use endstop::core::run::Directive;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::message::{ToolCall, ToolOutcome};
use endstop::model::{ModelError, ModelErrorKind};
use endstop::observe::Detail;
use http::{Response, StatusCode};

use super::ask::guarded;
use super::flight::{Begun, Flight};
use super::take::Taken;
use super::{Gate, answer};
use crate::body::Body;
use crate::run::{
    InputBound, LaneState, NoSeat, RunEntry, Seat, Step, Waiting, close_step, stop_of,
};
use endstop_llm::{CallRequest, ErrorKind, Thread, ToolResult};

/// Tools that hand over to another agent, as the usual frameworks name them.
const HANDOFF_TOOLS: [&str; 2] = ["transfer_to_", "handoff_to_"];

/// Most attempts of one step: a request that comes again after so many begins another one. Clients try a call
/// up to 11 times; one that never gives up is stopped by its limit of steps.
pub(super) const MAX_ATTEMPTS: u32 = 12;

/// How soon a call looks again that waits for others, which may be another run's.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long a call waits for others that cannot go on: a client that works on what it has read reads on by then.
const STUCK: Duration = Duration::from_secs(10);

/// Why a call does not begin.
enum Held {
    /// Other calls in flight hold what it needs.
    ByOthers,
    /// The run has stopped, or refuses this.
    Stopped(Box<StopSignal>),
    /// A person decides.
    Paused,
    /// Tokens or money are limited, and it has something of unknown size: so it is refused with these words.
    UnknownSize(&'static str),
}

/// Why a call cannot be bounded.
const UNKNOWN_THREAD: &str = "the request continues a conversation that the upstream keeps, so what it costs cannot \
    be bounded: send the whole conversation";
const UNKNOWN_MEDIA: &str = "the request refers to a file or a recording, whose size is not known here, and how much the \
    model takes at most is not known either, so what it costs cannot be bounded: send it inside the request";

impl Gate {
    /// Lets a call begin, or gives the answer that it gets instead. Waits while the run is paused.
    pub(super) async fn begin(
        &self,
        run: &Arc<RunEntry>,
        taken: &Taken,
    ) -> Result<Box<Flight>, Box<Response<Body>>> {
        let (dialect, asked) = (taken.dialect, &taken.asked);
        let stopped = |signal: &StopSignal| {
            Box::new(answer::stop(run, dialect, Some(asked), signal, self.config.stop_with))
        };
        run.driven.checkpoint();
        if let Some(signal) = run.stop() {
            run.ring();
            return Err(stopped(&signal));
        }
        if let Some(refused) = self.refuse_uncounted(run, taken) {
            return Err(Box::new(refused));
        }
        let bounds = &self.config.bounds;
        let seat = match run.sit(&taken.route.child, asked, &taken.rolling, bounds) {
            Ok(seat) => seat,
            Err(NoSeat::Full) => {
                let text = "too many calls of this run are in flight";
                return Err(Box::new(answer::overloaded(dialect, text)));
            }
            Err(NoSeat::NoChild) => {
                let signal = run.stop().unwrap_or_else(|| {
                    StopSignal::new(StopReason::StopRequested)
                        .with_message("no further sub-agent can begin in this run")
                });
                return Err(stopped(&signal));
            }
        };
        let (mut seat, mut is_taken_in) = (Some(seat), false);
        let mut waiting = None;
        loop {
            let Some(taking) = seat.take() else { return Err(stopped(&answer::paused(run))) };
            let rung = run.rung();
            match self.admit(taking, taken, &mut is_taken_in) {
                // What is about to be spent is known to whoever comes after a crash.
                Ok(flight) if run.keep() => return Ok(flight),
                Ok(flight) => return Err(stopped(&not_sent(run, flight))),
                Err((_, Held::Stopped(signal))) => return Err(stopped(&signal)),
                Err((_, Held::UnknownSize(text))) => {
                    return Err(Box::new(answer::refused(run, dialect, text)));
                }
                Err((kept, Held::ByOthers)) => {
                    let waiting = waiting.get_or_insert_with(|| Waiting::new(run));
                    if waiting.stuck_for() >= STUCK.min(self.config.pause.0) {
                        return Err(Box::new(answer::stuck(run, dialect)));
                    }
                    // Where the run is cut meanwhile, the next look says so.
                    let settled = tokio::time::timeout(LOOK_AGAIN, rung);
                    let _ = guarded(&run.driven, settled).await;
                    seat = Some(kept);
                }
                Err((kept, Held::Paused)) => {
                    run.wait_while_paused(self.config.pause.0).await;
                    if run.is_paused() {
                        return Err(stopped(&answer::paused(run)));
                    }
                    seat = Some(kept);
                }
            }
        }
    }

    /// The answer to a request whose cost nobody tells here, where it has to be counted.
    fn refuse_uncounted(&self, run: &RunEntry, taken: &Taken) -> Option<Response<Body>> {
        let (dialect, asked) = (taken.dialect, &taken.asked);
        if !self.is_metered(run) {
            return None;
        }
        if asked.thread == Thread::CanResend {
            let text = "this gateway keeps no threads: send the whole conversation";
            let (status, kind) = (StatusCode::BAD_REQUEST, ErrorKind::Thread);
            return Some(answer::error(dialect, status, kind, text));
        }
        asked.is_background.then(|| {
            let text = "the request runs in the background (`background`), so what it costs is told to nobody \
                here: send it without";
            answer::refused(run, dialect, text)
        })
    }

    /// Tells the run what the request says, and lets the call begin.
    fn admit(
        &self,
        mut seat: Seat,
        taken: &Taken,
        is_taken_in: &mut bool,
    ) -> Result<Box<Flight>, (Seat, Held)> {
        if let Some(first) = seat.first_to_wrap_up() {
            if !*is_taken_in {
                take_in(&mut seat.lane.state(), taken);
            }
            seat.move_to(first);
            // The lane that wraps up closes what it has open.
            *is_taken_in = false;
        }
        match self.admit_in(&seat, taken, is_taken_in) {
            Ok(begun) => {
                let warning = warnings(&seat.run.driven);
                Ok(Box::new(Flight::new(seat, taken, begun, warning, Arc::clone(&self.prices))))
            }
            Err(held) => Err((seat, held)),
        }
    }

    fn admit_in(&self, seat: &Seat, taken: &Taken, is_taken_in: &mut bool) -> Result<Begun, Held> {
        let (run, asked) = (&*seat.run, &taken.asked);
        let renewed = run.renew(&seat.lane);
        let mut state = seat.lane.state();
        let driven = state.driven.clone();
        let held = || Held::of(run, &driven);
        if renewed.is_err() {
            return Err(held());
        }
        if !std::mem::replace(is_taken_in, true) {
            take_in(&mut state, taken);
        }
        driven.checkpoint();
        drop(state);
        seat.lane.stop_siblings();
        let mut state = seat.lane.state();
        if run.is_paused() || stop_of(&driven).is_some() || run.stop().is_some() {
            return Err(held());
        }
        let bound = match state.memory.bound(asked, &taken.rolling, &run.answers) {
            Some(bound) => bound,
            None if self.is_metered(run) => return Err(Held::UnknownSize(UNKNOWN_THREAD)),
            None => InputBound { input: asked.fixed_bound, told: 0, is_open: false },
        };
        let provider = self.provider(taken.route.side);
        let pricing = self.pricing(provider, asked);
        let input = match pricing.context_window() {
            // An upstream takes no more than that.
            Some(window) if bound.is_open => bound.input.max(window),
            None if bound.is_open && self.is_metered(run) => {
                return Err(Held::UnknownSize(UNKNOWN_MEDIA));
            }
            _ => bound.input,
        };
        let choices = asked.choices.max(1);
        let wanted = asked
            .output_cap
            .unwrap_or_else(|| self.caps.of(provider, &asked.model, self.config.default_output));
        let mut call = Call {
            pricing: &pricing,
            input: asked.with_server_tools(input),
            told: bound.told,
            max_output: wanted.saturating_mul(choices),
            min_output: MIN_OUTPUT_TOKENS.saturating_mul(choices),
            is_wrap_up: false,
        };
        let open = begin_in(&mut state, &mut call, taken.digest, held)?;
        state.memory.keep_request(asked, &taken.rolling);
        let is_wrap_up = call.is_wrap_up;
        drop(state);
        Ok(Begun { open, is_wrap_up, pricing, driven })
    }
}

impl Gate {
    /// What a request costs, whoever answers it.
    fn pricing(&self, provider: &'static str, asked: &CallRequest) -> Pricing {
        let of = |model: &str| self.prices.of(provider, model);
        let pricing = of(&asked.model).for_request(&asked.context, asked.may_write_1h);
        if asked.fallbacks.is_empty() && asked.searches == 0 {
            return pricing;
        }
        let others = asked.fallbacks.iter().map(|model| of(model)).collect();
        pricing.or_others(others, asked.searches.saturating_mul(asked.choices.max(1)))
    }
}

/// Begins the step of a call, if none is open for it, and the call.
fn begin_in(
    state: &mut LaneState,
    call: &mut Call<'_>,
    digest: u64,
    held: impl Fn() -> Held,
) -> Result<OpenCall, Held> {
    let driven = state.driven.clone();
    match state.step {
        Step::Asking { is_wrap_up, .. } => call.is_wrap_up = is_wrap_up,
        Step::Closed | Step::Replied => {
            if driven.waits_for_others(call) {
                return Err(Held::ByOthers);
            }
            let directive = driven.begin_step(call);
            if !directive.admits() {
                return Err(held());
            }
            call.is_wrap_up = directive == Directive::Finish;
            state.step = Step::Asking { digest, attempts: 0, is_wrap_up: call.is_wrap_up };
        }
    }
    match driven.begin_call(call) {
        Ok(open) => {
            if let Step::Asking { attempts, .. } = &mut state.step {
                *attempts = attempts.saturating_add(1);
            }
            Ok(open)
        }
        // The step stays open for it.
        Err(NotBegun::OthersHold) => Err(Held::ByOthers),
        Err(NotBegun::Over(_)) => {
            let held = held();
            if !matches!(held, Held::Paused) {
                close_step(state);
            }
            Err(held)
        }
    }
}

impl Held {
    /// Why nothing begins now: for the run that pays first.
    fn of(run: &RunEntry, driven: &DrivenRun) -> Self {
        if run.is_paused() {
            return Self::Paused;
        }
        let signal = run.stop().or_else(|| stop_of(driven)).unwrap_or_else(|| {
            StopSignal::new(StopReason::StopRequested).with_message("no call can begin now")
        });
        Self::Stopped(Box::new(signal))
    }
}

/// A call that has begun is not sent, because the run cannot be kept.
fn not_sent(run: &RunEntry, mut flight: Box<Flight>) -> StopSignal {
    flight.failed(&ModelError::new(ModelErrorKind::Rejected, "it was not sent"), None);
    run.stop().unwrap_or_else(|| StopSignal::new(StopReason::ErrorForbade))
}

/// What the request says of what happened since the last reply.
fn take_in(state: &mut LaneState, taken: &Taken) {
    let asked = &taken.asked;
    let is_attempt = matches!(state.step, Step::Asking { digest, attempts, .. }
        if digest == taken.digest && attempts < MAX_ATTEMPTS);
    if is_attempt {
        return;
    }
    let calls = std::mem::take(&mut state.memory.calls);
    for call in &calls {
        if let Some(result) = result_of(call, &calls, &asked.results) {
            tell_result(&state.driven, call, result);
        }
    }
    close_step(state);
    if state.memory.has_new_user_message(asked, &taken.rolling) {
        state.driven.tell(&EventKind::UserMessage, Detail::None);
    }
}

/// The result of a call: by its id; where the interface has none, by the tool, the n-th of the same.
fn result_of<'r>(
    call: &ToolCall,
    calls: &[ToolCall],
    results: &'r [ToolResult],
) -> Option<&'r ToolResult> {
    if let Some(known) = results.iter().find(|it| !it.id.is_empty() && it.id == call.id) {
        return Some(known);
    }
    let same = calls.iter().filter(|other| other.tool == call.tool);
    let at = same.take_while(|other| !std::ptr::eq(*other, call)).count();
    results.iter().filter(|it| it.id.is_empty() && it.tool == call.tool).nth(at)
}

fn tell_result(driven: &DrivenRun, call: &ToolCall, result: &ToolResult) {
    let outcome = if result.failed { ToolOutcome::Failed } else { ToolOutcome::Succeeded };
    let detail = Detail::Tool { call, outcome: Some(outcome), took: Duration::ZERO };
    let kind = EventKind::ToolEnd {
        tool: &call.tool,
        arguments: &call.arguments,
        result: &result.content,
        failed: result.failed,
    };
    driven.tell(&kind, detail);
    let to = HANDOFF_TOOLS.iter().find_map(|prefix| call.tool.strip_prefix(prefix));
    if let Some(to) = to.filter(|to| !to.is_empty() && !result.failed) {
        driven.tell(&EventKind::HandOff { to }, Detail::None);
    }
}

/// Warnings that no client was told yet.
fn warnings(driven: &DrivenRun) -> Option<String> {
    let notices = driven.take_notices();
    if notices.is_empty() {
        return None;
    }
    let texts = notices.iter().map(|notice| format!("{}: {}", notice.rule, notice.message));
    Some(texts.collect::<Vec<_>>().join("; "))
}
