//! The lines of the console for each event.

use std::time::Duration;

use endstop_core::Run;
use endstop_core::event::{EventKind, NewLimit};
use endstop_core::human::{money, short};
use endstop_core::policy::Action;
use endstop_core::run::{Directive, Status};
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::trip_record::TripRecord;
use endstop_core::units::{Cost, Millis, Money, TokenUsage};

use super::super::text::{clean_to, took};
use super::super::{Detail, Observation, clean};
use super::kind::{Kind, Line};
use super::tool::{NAME, calling, tool_cost, tool_end, tool_refused};
use super::{Options, Time};
use endstop_runtime::ledger::Budget;

/// Columns of the words of a rule.
const RULE_COLUMNS: usize = 120;

/// The state of a run between its events.
#[derive(Debug, Default)]
pub(super) struct RunProgress {
    pub(super) time: Time,
    /// Steps of the run itself that began.
    steps: u64,
    attempts: u64,
    /// The model that was asked last.
    model: String,
    tool_calls: u64,
    errors: u64,
    step_began: Millis,
    tokens_before: u64,
    /// The last signal that was printed: it is not said again at the end.
    said: Option<StopSignal>,
}

impl RunProgress {
    /// The lines that an event of the run itself gives.
    pub(super) fn event(&mut self, options: &Options, observation: &Observation<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        let line = match &observation.event.kind {
            EventKind::RunBegin { .. } => Some(begin(observation)),
            EventKind::StepBegin => self.step_begin(observation),
            EventKind::AttemptBegin { .. } => self.attempt(observation),
            EventKind::AttemptFailed { .. } => Some(self.attempt_failed(options, observation)),
            EventKind::Reply { model, usage, cost, finish, .. } => {
                lines.extend(said(options, &observation.detail));
                let facts = ResponseFacts { usage: *usage, cost: *cost, finish: *finish };
                lines.insert(0, self.reply(*model, &facts, &observation.detail));
                None
            }
            EventKind::ToolBegin { tool } => calling(options, observation, tool),
            EventKind::ToolCost { tool, cost } => Some(tool_cost(&observation.detail, tool, *cost)),
            EventKind::ToolEnd { tool, result, failed, .. } => {
                self.tool_calls += 1;
                self.errors += u64::from(*failed);
                Some(tool_end(options, &observation.detail, tool, result, *failed))
            }
            EventKind::ToolRefused { tool } => Some(tool_refused(&observation.detail, tool)),
            EventKind::StepEnd => Some(self.step_end(observation)),
            EventKind::ChildBegin { depth } => child(observation, *depth),
            _ => self.intervention(options, observation),
        };
        lines.extend(line);
        lines.extend(decided(observation));
        if options.show_continuation {
            lines.extend(continuation(observation));
        }
        lines
    }

    fn step_begin(&mut self, observation: &Observation<'_>) -> Option<Line> {
        if !observation.directive.admits() {
            return None;
        }
        self.steps = observation.run.gauge("own.steps").unwrap_or_default();
        (self.attempts, self.tool_calls, self.errors) = (0, 0, 0);
        self.step_began = observation.run.at();
        self.tokens_before = observation.run.tokens();
        let step = self.steps;
        let message = match observation.directive {
            Directive::Finish => {
                let rule = observation.run.finishing().unwrap_or_default();
                format!("Step {step} started, the last one by rule {}", clean_to(rule, NAME))
            }
            _ => format!("Step {step} started"),
        };
        Some(Line::new(Kind::Step, message))
    }

    fn attempt(&mut self, observation: &Observation<'_>) -> Option<Line> {
        if let Detail::Request { model, .. } = observation.detail {
            self.model = clean_to(model, NAME);
        }
        if !observation.directive.admits() {
            return None;
        }
        self.attempts += 1;
        let message = format!("Attempt {} of step {}", self.attempts, self.steps);
        (self.attempts > 1).then(|| Line::new(Kind::Retry, message))
    }

    fn attempt_failed(&mut self, options: &Options, observation: &Observation<'_>) -> Line {
        self.errors += 1;
        let Detail::Failure { error, took: time, .. } = observation.detail else {
            return Line::new(Kind::Error, format!("'{}' failed", self.model));
        };
        let mut facts = Vec::new();
        facts.extend(error.status.map(|status| format!("status={status}")));
        facts.extend(error.retry_after.map(|wait| format!("retry after={}", took(wait))));
        facts.push(took(time));
        let why = clean_to(&error.to_string(), options.max_width);
        Line::new(Kind::Error, format!("'{}' failed: {why} [{}]", self.model, facts.join(", ")))
    }

    fn reply(&self, model: Option<&str>, facts: &ResponseFacts<'_>, detail: &Detail<'_>) -> Line {
        let model = model.map_or_else(|| self.model.clone(), |model| clean_to(model, NAME));
        let (about, time) = match detail {
            Detail::Reply { is_estimate, took, .. } => (*is_estimate, Some(*took)),
            _ => (false, None),
        };
        let mark = if about { "~" } else { "" };
        let mut said = vec![match facts.usage {
            Some(usage) => {
                format!("tokens={mark}{}+{}", short(usage.total_input()), short(usage.output))
            }
            None => "tokens=unknown".to_owned(),
        }];
        said.push(format!("cost={}", cost(facts.cost, mark)));
        said.extend(facts.finish.map(|finish| format!("finish={}", clean_to(finish, NAME))));
        said.extend(time.map(took));
        let who = if model.is_empty() { "The model".to_owned() } else { format!("'{model}'") };
        Line::new(Kind::Model, format!("{who} answered [{}]", said.join(", ")))
    }

    fn step_end(&self, observation: &Observation<'_>) -> Line {
        let time = match observation.detail {
            Detail::Step { took } => took,
            _ => Duration::from_millis(observation.run.at().0.saturating_sub(self.step_began.0)),
        };
        let tokens = short(observation.run.tokens().saturating_sub(self.tokens_before));
        let message = format!(
            "Step {} completed [tool calls={}, errors={}, tokens={tokens}, {}]",
            self.steps,
            self.tool_calls,
            self.errors,
            took(time)
        );
        Line::new(Kind::Step, message)
    }

    /// Signals from outside the model and its tools.
    fn intervention(&mut self, options: &Options, observation: &Observation<'_>) -> Option<Line> {
        let name = |text: &str| clean_to(text, NAME);
        let words = |text: &str| clean_to(text, options.max_width);
        let (kind, message) = match &observation.event.kind {
            EventKind::HandOff { to } if observation.directive.admits() => {
                (Kind::HandOff, format!("Handed over to {}", name(to)))
            }
            EventKind::Fact { name: fact, value } => {
                (Kind::Fact, format!("{} = {value}", name(fact)))
            }
            EventKind::Signal { name: signal, by, why } => {
                (Kind::Signal, format!("Signal '{}' is set{}", name(signal), by_whom(by, why)))
            }
            EventKind::Cancel { message } => {
                (Kind::Kill, with_words("Cancelled by a person", &words(message)))
            }
            EventKind::Kill { message } => {
                (Kind::Kill, with_words("The kill switch is on", &words(message)))
            }
            EventKind::StopRaised { signal } => {
                self.said = Some((*signal).clone());
                if let Detail::Error { message } = observation.detail {
                    return Some(Line::new(Kind::Error, words(message)));
                }
                (Kind::Stop, stop(signal, options))
            }
            EventKind::ContinuationRequested { by } => {
                (Kind::Continuation, format!("{} asks to continue", name(by)))
            }
            EventKind::Paused => (Kind::Pause, "Execution stands still".to_owned()),
            EventKind::Resumed => (Kind::Exec, "Execution continues".to_owned()),
            EventKind::PauseRequested { by, why } => {
                (Kind::Pause, format!("Paused{}", by_whom(by, why)))
            }
            EventKind::ResumeRequested { by, why } => {
                (Kind::Exec, format!("Resumed{}", by_whom(by, why)))
            }
            EventKind::Approved { rule, limit, by, .. } => {
                (Kind::Exec, approved(&name(rule), limit.as_ref()) + &by_whom(by, ""))
            }
            _ => return None,
        };
        Some(Line::new(kind, message))
    }

    /// The lines at the end of a run, or at a pause.
    pub(super) fn ended(&self, options: &Options, run: &Run, budget: &Budget) -> Vec<Line> {
        let mut lines = Vec::new();
        let signal = run.last_stop_signal();
        let is_news = signal
            .is_some_and(|s| s.reason != StopReason::Completed && self.said.as_ref() != Some(s));
        lines.extend(signal.filter(|_| is_news).map(|s| Line::new(Kind::Stop, stop(s, options))));
        let (kind, what) = match run.status() {
            Status::Failed => (Kind::Failed, "failed"),
            Status::Paused => (Kind::Pause, "paused"),
            _ => (Kind::Done, "completed"),
        };
        let cost = match run.cost() {
            Some(cost) => money(cost),
            None => match budget.settled().cost {
                Money::ZERO => "unknown".to_owned(),
                least => format!("at least {}", money(least)),
            },
        };
        let message = format!(
            "Execution {what} [status={}, steps={}, tokens={}, cost={cost}, {}]",
            run.status().name(),
            run.step_count(),
            short(run.tokens()),
            took(Duration::from_millis(run.at().0))
        );
        lines.push(Line::new(kind, message));
        lines
    }
}

/// The facts about a response.
struct ResponseFacts<'a> {
    usage: Option<TokenUsage>,
    cost: Option<Cost>,
    finish: Option<&'a str>,
}

fn begin(observation: &Observation<'_>) -> Line {
    let info = observation.info;
    let what = match (observation.directive.admits(), info.is_resumed) {
        (false, _) => "Execution refused",
        (true, true) => "Execution resumed",
        (true, false) => "Execution started",
    };
    let facts = match observation.detail {
        Detail::Begin { messages, tools } => format!("messages={messages}, tools={tools}"),
        _ => format!("model={}", clean_to(&info.model, NAME)),
    };
    let agent = match info.depth {
        0 => String::new(),
        _ => format!("agent={}, ", clean_to(&info.agent, NAME)),
    };
    Line::new(Kind::Exec, format!("{what} [{agent}{facts}]"))
}

fn said(options: &Options, detail: &Detail<'_>) -> Option<Line> {
    let Detail::Reply { text, .. } = detail else { return None };
    let shown = options.show_text && !text.trim().is_empty();
    shown.then(|| Line::new(Kind::Text, clean_to(text.trim(), options.max_width)))
}

/// A child reports its own beginning.
fn child(observation: &Observation<'_>, depth: u32) -> Option<Line> {
    let agent = match observation.detail {
        Detail::Child { agent } => clean_to(agent, NAME),
        _ => String::new(),
    };
    let refused = !observation.directive.admits();
    refused.then(|| Line::new(Kind::Warn, format!("Sub-agent {agent} refused at depth {depth}")))
}

/// Decisions that no other line shows.
fn decided(observation: &Observation<'_>) -> Option<Line> {
    match observation.directive {
        Directive::Pause => {
            let rule = tripping(&observation.run.trip_record(), Action::Pause);
            Some(Line::new(Kind::Pause, format!("A person decides: {rule}")))
        }
        Directive::Retry => {
            let rule = tripping(&observation.run.trip_record(), Action::Retry);
            Some(Line::new(Kind::Retry, format!("The response is dropped: {rule}")))
        }
        _ => None,
    }
}

fn continuation(observation: &Observation<'_>) -> Option<Line> {
    let is_step = matches!(observation.event.kind, EventKind::StepEnd);
    let decision = match observation.directive {
        Directive::Proceed if !is_step => return None,
        Directive::Proceed => "continue",
        Directive::Refuse => "refuse",
        Directive::Retry => "ask again",
        Directive::Finish => "finish",
        Directive::Pause => "pause",
        Directive::Stop => "stop",
        Directive::Abort => "stop now",
    };
    let why = clean(&observation.run.continuation().explain());
    Some(Line::new(Kind::Continuation, format!("{decision}: {why}")))
}

fn cost(cost: Option<Cost>, mark: &str) -> String {
    match cost {
        Some(Cost::Known(amount)) => format!("{mark}{}", money(amount)),
        Some(Cost::Unpriced) => "unpriced".to_owned(),
        None => "unknown".to_owned(),
    }
}

fn stop(signal: &StopSignal, options: &Options) -> String {
    let text = clean_to(&signal.to_string(), options.max_width);
    match &signal.source {
        Some(source) => format!("{text} (source: {})", clean_to(source, NAME)),
        None => text,
    }
}

fn with_words(what: &str, words: &str) -> String {
    if words.is_empty() { what.to_owned() } else { format!("{what}: {words}") }
}

fn approved(rule: &str, limit: Option<&NewLimit<'_>>) -> String {
    match limit {
        Some(new) if matches!(new.gauge, "cost" | "own.cost" | "next_cost") => {
            format!("{rule} approved up to {}", money(Money::from_picos(new.limit)))
        }
        Some(new) => format!("{rule} approved up to {} {}", new.limit, clean_to(new.gauge, NAME)),
        None => format!("{rule} approved"),
    }
}

/// The rules of `action` that trip, each with a leaf that is true: `ask-first (cost >= $1.00 is $1.20)`.
fn tripping(record: &TripRecord, action: Action) -> String {
    let rules = record.rules.iter().filter(|rule| rule.trips && rule.action == action);
    let words = rules.map(|rule| match rule.tree.first_true() {
        Some(leaf) => {
            let observed = leaf.observed.as_ref();
            let is = observed.map(|value| format!(" is {value}")).unwrap_or_default();
            format!("{} ({}{is})", rule.id, leaf.text)
        }
        None => rule.id.clone(),
    });
    clean_to(&words.collect::<Vec<_>>().join(", "), RULE_COLUMNS)
}

/// ` by ann: lunch`, without a part that is not known.
fn by_whom(by: &str, why: &str) -> String {
    let part = |before: &str, text: &str| match text.is_empty() {
        true => String::new(),
        false => format!("{before}{}", clean_to(text, NAME)),
    };
    part(" by ", by) + &part(": ", why)
}
