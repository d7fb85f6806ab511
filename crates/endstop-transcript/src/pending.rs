//! The step whose tools are running, for formats that tell late what became of a call.

use std::collections::BTreeMap;

use super::act::{Full, MAX_STEP_BYTES, MAX_STEP_ITEMS, Reply, Step, Time};

pub(super) struct Open {
    step: Step,
    replied: Time,
    reply: Option<Reply>,
    text: String,
    calls: Vec<Call>,
    /// Ids and answers, in the order of the answers.
    answers: Vec<(String, Answer)>,
    /// What calls and answers were added, in bytes.
    bytes: usize,
    is_full: bool,
}

/// A call that a reply asked for.
pub(super) struct Call {
    id: String,
    tool: String,
    arguments: String,
    pub(super) begun: Time,
    pub(super) is_refused: bool,
}

/// The result of a call.
#[derive(Clone)]
pub(super) struct Answer {
    pub(super) result: String,
    pub(super) failed: bool,
    pub(super) time: Time,
}

impl Call {
    pub(super) const fn new(id: String, tool: String, arguments: String) -> Self {
        Self { id, tool, arguments, begun: None, is_refused: false }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

impl Open {
    /// A step whose first `failures` requests failed.
    pub(super) fn new(begun: Time, replied: Time, failures: usize) -> Self {
        let mut step = Step::begin(begun);
        for _ in 0..failures.min(MAX_STEP_ITEMS) {
            // As many as a step holds.
            let _held = step.fail(None);
        }
        let (text, calls, answers) = (String::new(), Vec::new(), Vec::new());
        Self { step, replied, reply: None, text, calls, answers, bytes: 0, is_full: false }
    }

    pub(super) fn answered(&mut self, reply: Reply, text: String, calls: Vec<Call>) {
        (self.reply, self.text, self.calls) = (Some(reply), text, calls);
    }

    /// The id of the first call that has no answer.
    pub(super) fn waiting(&self) -> Option<&str> {
        let answered = |call: &&Call| self.answers.iter().any(|(id, _)| *id == call.id);
        self.calls.iter().find(|call| !answered(call)).map(|call| call.id.as_str())
    }

    /// Adds a call of the same reply.
    pub(super) fn add(&mut self, call: Call) {
        let bytes =
            call.id.len().saturating_add(call.tool.len()).saturating_add(call.arguments.len());
        if self.has_room(self.calls.len(), bytes) {
            self.calls.push(call);
        }
    }

    /// The first call with this id that has no answer.
    pub(super) fn call(&mut self, id: &str) -> Option<&mut Call> {
        let answered = self.answers.iter().filter(|(of, _)| of == id).count();
        self.calls.iter_mut().filter(|call| call.id == id).nth(answered)
    }

    pub(super) fn answer(&mut self, id: &str, answer: Answer) {
        if self.has_room(self.answers.len(), id.len().saturating_add(answer.result.len())) {
            self.answers.push((id.to_owned(), answer));
        }
    }

    /// Whether it can hold so much more: a step that is never over must not fill the memory.
    fn has_room(&mut self, items: usize, bytes: usize) -> bool {
        let total = self.bytes.saturating_add(bytes);
        let has_room = items < MAX_STEP_ITEMS && total <= MAX_STEP_BYTES;
        match has_room {
            true => self.bytes = total,
            false => self.is_full = true,
        }
        has_room
    }

    /// The step, and whether it holds all. Calls without an answer take that of the conversation.
    pub(super) fn finish(
        self,
        conversation: &BTreeMap<String, Answer>,
    ) -> (Step, Result<(), Full>) {
        let Self { mut step, replied, reply, text, calls, mut answers, is_full, .. } = self;
        let Some(reply) = reply else { return (step, Ok(())) };
        step.answer(replied, reply);
        for call in &calls {
            let is_answered = answers.iter().any(|(id, _)| *id == call.id);
            let elsewhere = conversation.get(&call.id).filter(|_| !is_answered);
            answers.extend(elsewhere.map(|answer| (call.id.clone(), answer.clone())));
        }
        let held = fill(&mut step, replied, text, calls, answers);
        (step, if is_full { Err(Full) } else { held })
    }
}

fn fill(
    step: &mut Step,
    replied: Time,
    text: String,
    calls: Vec<Call>,
    answers: Vec<(String, Answer)>,
) -> Result<(), Full> {
    if !text.is_empty() {
        step.say(replied, text)?;
    }
    for call in calls {
        match call.is_refused {
            true => step.refuse(call.begun, call.tool)?,
            false => step.call(call.begun, Some(call.id), call.tool, call.arguments)?,
        }
    }
    for (id, answer) in answers {
        step.result_of(&id, answer.time, answer.result, answer.failed)?;
    }
    Ok(())
}
