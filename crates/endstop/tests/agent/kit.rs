//! Priced models, approvers and readers that several modules use.

use std::sync::{Arc, Mutex};

use endstop::agent::{AgentBuilder, AgentLoop, AgentState, Approval, ApprovalRequest, Approver};
use endstop::core::units::Money;
use endstop::message::Message;
use endstop::model::{ModelRequest, ScriptedModel, ScriptedResponse};
use endstop::observe::{Detail, Observation, Observer};
use futures_util::future::BoxFuture;

use crate::support::policy;

/// Money from its text, such as `0.05`.
pub(crate) fn usd(text: &str) -> Money {
    text.parse().unwrap()
}

/// A model that the price table that ships knows.
pub(crate) fn priced(
    answer: impl Fn(&ModelRequest<'_>, u64) -> ScriptedResponse + Send + Sync + 'static,
) -> Arc<ScriptedModel> {
    let model = ScriptedModel::from_fn("gpt-4o", answer).provider_name("openai").remember(1_000);
    Arc::new(model)
}

/// An agent under a policy file.
pub(crate) fn under(model: &Arc<ScriptedModel>, text: &str) -> AgentBuilder {
    AgentLoop::builder("tested").model(model.clone()).policy(policy(text))
}

/// How many replies a request's conversation has: the same in every process.
pub(crate) fn replies_so_far(request: &ModelRequest<'_>) -> usize {
    request.messages.iter().filter(|m| matches!(m, Message::Assistant { .. })).count()
}

/// The state as another process gets it.
pub(crate) fn carried(state: &AgentState) -> AgentState {
    let text = state.to_json();
    let back = AgentState::from_json(&text).unwrap();
    assert!(&back == state, "a state changes by saving");
    assert_eq!(back.to_json(), text);
    back
}

/// Returns the given answers, the last one forever, and records its requests.
#[derive(Clone)]
pub(crate) struct Person {
    answers: Vec<Approval>,
    asked: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Person {
    pub(crate) fn who_says(answers: impl Into<Vec<Approval>>) -> Self {
        Self { answers: answers.into(), asked: Arc::default() }
    }

    /// The rules of each question.
    pub(crate) fn asked(&self) -> Vec<Vec<String>> {
        self.asked.lock().unwrap().clone()
    }
}

impl Approver for Person {
    fn approve<'a>(&'a self, request: ApprovalRequest<'a>) -> BoxFuture<'a, Approval> {
        let mut asked = self.asked.lock().unwrap();
        let answer = self.answers.get(asked.len()).or(self.answers.last()).unwrap().clone();
        asked.push(request.rules.to_vec());
        Box::pin(std::future::ready(answer))
    }
}

/// The worst case of each request as it was sent, in tokens.
#[derive(Clone, Default)]
pub(crate) struct Sent(Arc<Mutex<Vec<u64>>>);

impl Sent {
    pub(crate) fn worst(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Sent {
    fn observe(&self, observation: &Observation<'_>) {
        let is_own = observation.event.source == endstop::core::event::Source::Own;
        if let (true, Detail::Request { max_output_tokens, input_bound, .. }) =
            (is_own && observation.directive.admits(), observation.detail)
        {
            self.0.lock().unwrap().push(input_bound + max_output_tokens.unwrap());
        }
    }
}
