//! Reports of refused calls.

use std::fmt::Debug;
use std::net::IpAddr;

use endstop_core::Run;
use endstop_core::signal::StopSignal;
use endstop_core::trip_record::NodeRecord;
use endstop_runtime::store::RunId;
use serde_json::Value;

use crate::config::IssuedTo;

/// A call that the gateway has not forwarded, or whose response it has replaced by a stop response. Nothing in it is a key.
///
/// ```
/// use endstop_gateway::{RefusalObserver, RefusedCall};
///
/// #[derive(Debug)]
/// struct ToStderr;
///
/// impl RefusalObserver for ToStderr {
///     fn refused(&self, call: &RefusedCall) {
///         eprintln!("{} {}: {:?} of {:?}", call.status, call.reason, call.observed, call.limit);
///     }
/// }
/// # ToStderr.refused(&RefusedCall::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedCall {
    /// The run, if the request names one.
    pub run: Option<RunId>,
    /// The place of its key among those that the gateway has issued, from 0.
    pub key: Option<usize>,
    /// The name of its key.
    pub key_name: Option<String>,
    /// The runs of its key.
    pub key_runs: Option<String>,
    /// The client's address. `None` if it has none.
    pub client: Option<IpAddr>,
    /// The stop reason, such as `cost_limit`, or the problem of the request, such as `unknown_key`.
    pub reason: String,
    /// The rule of the policy, if one stopped the run.
    pub rule: Option<String>,
    /// The limit of that rule, as in the trip record.
    pub limit: Option<String>,
    /// The value that was compared with it.
    pub observed: Option<String>,
    /// The model that the request asks for.
    pub model: Option<String>,
    /// The API of a model call: `chat`, `responses`, `messages` or `gemini`.
    pub api: Option<&'static str>,
    /// The HTTP status of the response.
    pub status: u16,
    /// Details that the client does not get: the path of a stored run that cannot be read, and the problem with it.
    pub detail: Option<String>,
}

impl RefusedCall {
    /// A call with an issued key.
    pub(crate) fn of_key(issued: Option<&IssuedTo>) -> Self {
        Self {
            key: issued.map(|issued| issued.place),
            key_name: issued.map(|issued| issued.key.name.clone()),
            key_runs: issued.map(|issued| issued.key.runs.to_string()),
            ..Self::default()
        }
    }
}

/// Receives a report of each refused call, before its client has the response.
///
/// See the example of [`RefusedCall`].
pub trait RefusalObserver: Debug + Send + Sync {
    /// A call was refused. It is called within the request, so it must not block.
    fn refused(&self, call: &RefusedCall);
}

/// Why a response of the gateway refuses its call. It is an extension of the response.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallRefusal {
    pub(crate) reason: String,
    rule: Option<String>,
    limit: Option<String>,
    observed: Option<String>,
    detail: Option<String>,
}

impl CallRefusal {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..Self::default() }
    }

    /// A refusal with details for the operator of the gateway alone.
    pub(crate) fn with_detail(reason: impl Into<String>, detail: String) -> Self {
        Self { detail: Some(detail), ..Self::new(reason) }
    }

    /// The refusal of a run that has stopped.
    pub(crate) fn of_stop(run: &Run, signal: &StopSignal) -> Self {
        let named = |key: &str| signal.context.get(key).and_then(Value::as_str).map(str::to_owned);
        let rule = named("rule");
        let record = run.trip_record();
        let of_rule = record.rules.iter().find(|it| Some(&it.id) == rule.as_ref());
        let leaf = named("leaf");
        let leaf = of_rule.zip(leaf).and_then(|(rule, leaf)| leaf_of(&rule.tree, &leaf));
        Self {
            reason: signal.reason.to_string(),
            limit: leaf.and_then(|leaf| leaf.limit.clone()),
            observed: named("observed").or_else(|| leaf?.observed.clone()),
            rule,
            detail: None,
        }
    }

    /// The call that it refuses, for a response with this status.
    pub(crate) fn call(&self, status: u16) -> RefusedCall {
        RefusedCall {
            reason: self.reason.clone(),
            rule: self.rule.clone(),
            limit: self.limit.clone(),
            observed: self.observed.clone(),
            detail: self.detail.clone(),
            status,
            ..RefusedCall::default()
        }
    }
}

/// The part of a condition that is written like this. Recursion is bounded by the depth that a policy may have.
fn leaf_of<'t>(tree: &'t NodeRecord, text: &str) -> Option<&'t NodeRecord> {
    if tree.parts.is_empty() && tree.text == text {
        return Some(tree);
    }
    tree.parts.iter().find_map(|part| leaf_of(part, text))
}
