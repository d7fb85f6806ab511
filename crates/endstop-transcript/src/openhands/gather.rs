//! Plays the events of a run as the acts of its agent and of those it delegates to.

use std::collections::BTreeMap;
use std::vec;

use endstop_core::units::{Cost, Money};
use serde_json::Value;
use serde_json::value::RawValue;

use super::record::{Event, Response, arguments_of, asked_for, names_of, said, words};
use crate::Source;
use crate::act::{Act, CostSource, Reply, Time, parse_time};
use crate::bill::{ModelCall, bill};
use crate::groups::MAX_HELD_BYTES;
use crate::lanes::Lane;
use crate::part::Part;
use crate::pending::{Answer, Call, Open};
use crate::player::Player;
use crate::recent::{Recent, digest};
use crate::warning::{WarningKind, Warnings};
use crate::writer::Closing;
use endstop_price::{PriceTable, UsageShape};

/// Actions that no model asked for.
const NO_CALLS: [&str; 11] = [
    "system",
    "null",
    "start",
    "pause",
    "resume",
    "stop",
    "change_agent_state",
    "recall",
    "condensation",
    "condensation_request",
    "loop_recovery",
];

/// Actions that are over when they are said: nothing is observed of them.
const ENDS: [&str; 2] = ["finish", "reject"];

pub(super) struct Gather<'s, 'h> {
    part: &'s Part,
    prices: &'s PriceTable,
    line: Option<u64>,
    player: Player<'h, 's>,
    /// Those of the calls that come, where they tell no usage.
    costs: vec::IntoIter<Money>,
    own: Agent,
    /// The sub-agent that acts, and what it did.
    child: Option<(Agent, Lane)>,
    /// Sub-agents that ended during the run's open step.
    children: Vec<Lane>,
    /// The events of sub-agents that are held, in bytes.
    held: usize,
    /// Responses that were counted.
    seen: Recent,
    has_begun: bool,
    /// Whether the last message was the agent's, in files that do not say.
    agent_spoke: bool,
    tally: Tally,
    is_overfull: bool,
}

/// One agent's open step.
#[derive(Default)]
struct Agent {
    open: Option<(Open, Option<u64>)>,
    last: Time,
    /// Replies before the next step that could not be used.
    failures: usize,
}

/// What calls a run has.
#[derive(Debug, Default)]
pub(super) struct Tally {
    replies: usize,
    tells_usage: bool,
    has_children: bool,
}

impl Tally {
    /// Whether that many costs are those of its calls.
    pub(super) const fn takes(&self, costs: usize) -> bool {
        self.replies == costs && !self.tells_usage && !self.has_children
    }
}

impl<'s, 'h> Gather<'s, 'h> {
    pub(super) fn new(
        source: &Source<'s>,
        line: Option<u64>,
        costs: Vec<Money>,
        player: Player<'h, 's>,
    ) -> Self {
        Self {
            part: source.main,
            prices: source.prices,
            line,
            player,
            costs: costs.into_iter(),
            own: Agent::default(),
            child: None,
            children: Vec::new(),
            held: 0,
            seen: Recent::default(),
            has_begun: false,
            agent_spoke: false,
            tally: Tally::default(),
            is_overfull: false,
        }
    }

    /// Takes an event, or a pair of action and observation, as the oldest files have them.
    pub(super) fn take(&mut self, raw: &RawValue, warnings: &mut Warnings) {
        let events: Vec<&RawValue> = match raw.get().starts_with('[') {
            true => serde_json::from_str(raw.get()).unwrap_or_default(),
            false => vec![raw],
        };
        for raw in events {
            match serde_json::from_str::<Event<'_>>(raw.get()) {
                Ok(event) => self.event(&event, raw, warnings),
                Err(error) => self.warn(WarningKind::Malformed, warnings, || {
                    format!("not an event of this format: {error}")
                }),
            }
        }
    }

    fn warn(&self, kind: WarningKind, warnings: &mut Warnings, say: impl FnOnce() -> String) {
        warnings.add(kind, self.part.name(), self.line, say);
    }

    fn event(&mut self, event: &Event<'_>, raw: &RawValue, warnings: &mut Warnings) {
        let time = event.timestamp.as_deref().and_then(time_of);
        self.player.note(time);
        if !self.holds(event, raw, warnings) {
            return;
        }
        let source = event.source.as_deref();
        match (event.action.as_deref(), event.observation.as_deref()) {
            (Some("message"), _) if source.map_or(!self.is_agents_turn(), |s| s == "user") => {
                self.agent_spoke = false;
                self.close();
                self.agent().note(time);
                self.push(Act::User(time));
            }
            (Some(action), _)
                if source.is_none_or(|source| source == "agent") && !NO_CALLS.contains(&action) =>
            {
                self.action(event, raw, action, time, warnings);
            }
            (_, Some("delegate")) => {
                self.end_child();
                self.observation(event, time);
            }
            (_, Some(_)) => self.observation(event, time),
            _ => {}
        }
    }

    /// What a sub-agent does is held until the run's own step is over. False where that is too much.
    fn holds(&mut self, event: &Event<'_>, raw: &RawValue, warnings: &mut Warnings) -> bool {
        if self.child.is_none() || event.observation.as_deref() == Some("delegate") {
            return true;
        }
        let held = self.held.saturating_add(raw.get().len());
        if held > MAX_HELD_BYTES {
            self.warn(WarningKind::TooLarge, warnings, || {
                "sub-agents do more than is kept; the rest of it is dropped".to_owned()
            });
            return false;
        }
        self.held = held;
        true
    }

    /// In files without sources: whether a message would be the agent's.
    const fn is_agents_turn(&self) -> bool {
        self.has_begun && !self.agent_spoke
    }

    fn action(
        &mut self,
        event: &Event<'_>,
        raw: &RawValue,
        action: &str,
        time: Time,
        warnings: &mut Warnings,
    ) {
        let metadata = event.tool_call_metadata.as_ref();
        let response = metadata.and_then(|metadata| metadata.model_response);
        let response = response.filter(|raw| raw.get() != "null").map(|raw| raw.get());
        let response: Option<Response<'_>> = match response.map(serde_json::from_str).transpose() {
            Ok(response) => response,
            Err(error) => {
                self.warn(WarningKind::Malformed, warnings, || {
                    format!("not a response of a model: {error}")
                });
                None
            }
        };
        let id = response.as_ref().and_then(|response| response.id.as_deref());
        let id = id.map(digest);
        let call = (action != "message").then(|| {
            let (name, tool) = names_of(event, metadata, action);
            let arguments = asked_for(response.as_ref(), &name);
            let args = event.args.unwrap_or(raw);
            Call::new(name, tool, arguments.unwrap_or_else(|| arguments_of(args)))
        });
        self.agent_spoke = action == "message";
        let is_same =
            matches!(&self.agent().open, Some((_, open)) if open.is_some() && *open == id);
        if !is_same {
            self.close();
            if id.is_some_and(|id| !self.seen.insert(id)) {
                return self.warn(WarningKind::LateLine, warnings, || {
                    "an action of a response that was already over".to_owned()
                });
            }
            let text = said(event, response.as_ref());
            let mut reply = self.reply(response, time, warnings);
            self.tally.replies = self.tally.replies.saturating_add(1);
            self.tally.tells_usage |= reply.usage.is_some();
            if let Some(cost) = self.costs.next() {
                (reply.cost, reply.source) = (Some(Cost::Known(cost)), CostSource::Computed);
            }
            self.has_begun = true;
            let agent = self.agent();
            let (begun, failures) = (agent.last.or(time), std::mem::take(&mut agent.failures));
            let mut open = Open::new(begun, time, failures);
            open.answered(reply, text, Vec::new());
            agent.open = Some((open, id));
            agent.note(time);
        }
        let is_end = ENDS.contains(&action);
        if let (Some((open, _)), Some(call)) = (&mut self.agent().open, call) {
            let name = call.id().to_owned();
            open.add(call);
            if is_end {
                open.answer(&name, Answer { result: String::new(), failed: false, time });
            }
        }
        if action == "delegate" && self.child.is_none() {
            let lane = Lane { acts: vec![Act::ChildBegin(time)] };
            self.child = Some((Agent { last: time, ..Agent::default() }, lane));
        }
    }

    fn reply(&self, response: Option<Response<'_>>, time: Time, warnings: &mut Warnings) -> Reply {
        let response = response.unwrap_or_default();
        let finish = response.choices.and_then(|choices| choices.into_iter().next()?.finish_reason);
        let mut reply = Reply {
            model: response.model.map(Into::into),
            finish: finish.map(Into::into),
            cost: Some(Cost::Unpriced),
            ..Reply::default()
        };
        let Some(usage) = response.usage.filter(|usage| usage.get() != "null") else {
            return reply;
        };
        let usage: Value = match serde_json::from_str(usage.get()) {
            Ok(usage) => usage,
            Err(error) => {
                self.warn(WarningKind::BadNumber, warnings, || format!("usage: {error}"));
                return reply;
            }
        };
        let call = ModelCall {
            providers: &[None],
            model: reply.model.as_deref(),
            shape: UsageShape::OpenAiChat,
            usage: &usage,
            service_tier: response.service_tier.as_deref(),
            time,
        };
        let bill = bill(&call, self.prices);
        if let Some(problem) = bill.problem {
            self.warn(WarningKind::BadNumber, warnings, || format!("usage: {problem}"));
        }
        (reply.usage, reply.cost, reply.source) = (bill.usage, Some(bill.cost), bill.source);
        reply
    }

    fn observation(&mut self, event: &Event<'_>, time: Time) {
        let metadata = event.tool_call_metadata.as_ref();
        let id = metadata.and_then(|metadata| metadata.tool_call_id.as_deref());
        let cause = event.cause.map(|cause| cause.get().to_owned());
        let is_old = event.source.is_none() && event.id.is_none();
        let kind = event.observation.as_deref();
        let result = words(event.content);
        let failed = event.has_failed();
        let agent = self.agent();
        let open = agent.open.as_mut().map(|(open, _)| open);
        let name = open.and_then(|open| {
            let named =
                [id, cause.as_deref()].into_iter().flatten().find(|id| open.call(id).is_some());
            let next = || open_name(open, is_old);
            named.map(str::to_owned).or_else(next).map(|name| (open, name))
        });
        match name {
            Some((open, name)) => {
                if let Some(call) = open.call(&name) {
                    call.is_refused = kind == Some("user_rejected");
                }
                open.answer(&name, Answer { result, failed, time });
                agent.note(time);
            }
            None if kind == Some("error") && event.cause.is_none() => {
                agent.failures = agent.failures.saturating_add(1);
            }
            None => {}
        }
    }

    fn agent(&mut self) -> &mut Agent {
        self.child.as_mut().map_or(&mut self.own, |(child, _)| child)
    }

    /// The next act of whoever acts. One of the run itself is played, with what sub-agents did meanwhile.
    fn push(&mut self, act: Act) {
        self.has_begun = true;
        match &mut self.child {
            Some((_, lane)) => lane.acts.push(act),
            None => {
                self.player.act_with(act, &std::mem::take(&mut self.children));
                self.held = 0;
            }
        }
    }

    fn close(&mut self) {
        let Some((open, _)) = self.agent().open.take() else { return };
        let (step, held) = open.finish(&BTreeMap::new());
        self.is_overfull |= held.is_err();
        self.push(Act::Step(Box::new(step)));
    }

    fn end_child(&mut self) {
        if self.child.is_none() {
            return;
        }
        self.close();
        if let Some((child, mut lane)) = self.child.take() {
            lane.acts.push(Act::ChildEnd(child.last));
            self.children.push(lane);
            self.tally.has_children = true;
        }
    }

    /// Ends the run, if it has begun.
    pub(super) fn finish(mut self, closing: Closing, warnings: &mut Warnings) -> Tally {
        self.end_child();
        self.close();
        if self.is_overfull {
            self.warn(WarningKind::TooLarge, warnings, || {
                "a step holds more than is kept; the rest of it is dropped".to_owned()
            });
        }
        self.player.end(closing);
        self.tally
    }
}

impl Agent {
    fn note(&mut self, time: Time) {
        self.last = time.max(self.last);
    }
}

/// The call that an old observation, which names none, is of.
fn open_name(open: &Open, is_old: bool) -> Option<String> {
    open.waiting().filter(|_| is_old).map(str::to_owned)
}

/// Times without a zone are UTC.
fn time_of(text: &str) -> Time {
    parse_time(text).or_else(|| parse_time(&format!("{text}Z")))
}
