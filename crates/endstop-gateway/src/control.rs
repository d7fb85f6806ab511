//! The control API: `/endstop/v1/runs`, `/endstop/v1/keys`, `/endstop/v1/total`, `/endstop/v1/kill`, `/endstop/v1/budgets`,
//! `/endstop/v1/spend`, `/endstop/v1/kills` and `/endstop/health`, on separate listeners.
//! Its OpenAPI document (`/endstop/v1/openapi.json`) is made from the types of its requests and answers.
//!
//! The listener of clients answers `/endstop/health`, which shows whether it takes connections, and nothing else of it.

mod answer;
mod ask;
mod keys;
mod listen;
mod openapi;
mod outside;
mod servers;

use std::num::ParseIntError;
use std::sync::Arc;

use bytes::Bytes;
use endstop_core::condition::GaugeId;
use endstop_core::condition::gauge::{GAUGES, Unit};
use endstop_core::human;
use endstop_core::policy::Action;
use endstop_core::run::Status;
use endstop_core::run::raise::RaiseError;
use endstop_core::units::{Money, MoneyError};
use endstop_runtime::cancel::{CancelToken, MemoryKillSwitch, Urgency, kill_signal};
use endstop_runtime::store::RunId;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::Instant;

use crate::body::Body;
use crate::config::Key;
use crate::limits::{MAX_COMMAND, MAX_WAIT, WAIT_RECHECK};
use crate::origin::{self, ForeignRequest};
use crate::route::bearer;
use crate::run::{NoRun, NotLogged, OpenLogError, Registry, RunEntry, RunGroup};
use crate::secret::is_same;
use crate::server::read_body;
use answer::{
    Health, Killed, ListedRun, PauseState, Problem, RunChange, RunDetail, RunList, TotalChanged,
    TotalState, json_of, problem,
};
pub use listen::ControlError;
use openapi::OPENAPI_PATH;
pub use openapi::control_openapi;
use outside::{OutsideAnswers, OutsideQuestion};
pub(crate) use servers::ControlServers;
pub use servers::RunControl;

/// Who acts, if a request does not say.
const SOMEONE: &str = "the control API";
/// The message of a cancellation without one.
const NO_MESSAGE: &str = "cancelled by the control API";

/// The path that shows whether a listener takes connections. It shows and changes nothing.
const HEALTH_PATH: &str = "/endstop/health";

/// The path of the kill switch of this gateway.
const KILL_PATH: &str = "/endstop/v1/kill";

/// The path of the runs.
const RUNS_PATH: &str = "/endstop/v1/runs";

/// The path of the total of all runs.
const TOTAL_PATH: &str = "/endstop/v1/total";

/// The name of the one who acts, if a request has one. A blank one is none.
fn named(by: Option<&str>) -> Option<&str> {
    by.filter(|by| !by.trim().is_empty())
}

/// Who acts: the name that a request has, or the control API. Every record of an act has it.
fn acting(by: Option<&str>) -> &str {
    named(by).unwrap_or(SOMEONE)
}

/// The body of a command to the total of all runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TotalCommand {
    /// The new limit, such as `100.00`.
    limit: WrittenAmount,
    /// The reason.
    message: Option<String>,
    /// Who acts.
    by: Option<String>,
}

/// An amount in the body of a command, as it was written: a JSON number such as `100` or a text such as `"100.00"`. A
/// number is not read as a float.
#[derive(Deserialize)]
#[serde(transparent)]
struct WrittenAmount(Box<RawValue>);

impl WrittenAmount {
    fn dollars(&self) -> Result<Money, MoneyError> {
        self.text().parse()
    }

    fn count(&self) -> Result<u64, ParseIntError> {
        self.text().parse()
    }

    fn text(&self) -> String {
        let written = self.0.get();
        serde_json::from_str(written).unwrap_or_else(|_| written.to_owned())
    }
}

/// The body of a command, which may be empty.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Command {
    /// The reason.
    message: Option<String>,
    /// Who acts.
    by: Option<String>,
    /// The external signal that is set.
    name: Option<String>,
    /// The pause rule that is approved; without it, all that are met.
    rule: Option<String>,
    /// The new cost limit of the rule, such as `5.00`.
    limit: Option<WrittenAmount>,
    /// With `kill`: only the runs of the key of this name.
    key: Option<String>,
    /// With `kill`: only the runs that draw on this budget.
    budget: Option<String>,
    /// With `resume`: more US dollars than the limit of the run, such as `1.00`.
    usd: Option<WrittenAmount>,
    /// The same for tokens.
    tokens: Option<WrittenAmount>,
    /// The same for steps.
    steps: Option<WrittenAmount>,
}

impl Command {
    /// Who acts.
    fn by(&self) -> &str {
        acting(self.by.as_deref())
    }

    /// The reason of a stop, with who acts if the request says so.
    fn reason(&self, act: &str) -> String {
        let message = self.message.as_deref().filter(|message| !message.is_empty());
        match (message, named(self.by.as_deref())) {
            (message, None) => message.unwrap_or(NO_MESSAGE).to_owned(),
            (None, Some(by)) => format!("{act} by {by}"),
            (Some(message), Some(by)) => format!("{message} ({act} by {by})"),
        }
    }

    /// The limits to raise, each with its amount.
    fn raises(&self) -> Result<Vec<(GaugeId, u64)>, NoAmount> {
        let usd = self.usd.as_ref().map(|usd| usd.dollars().map(Money::picos)).transpose();
        let usd = usd.map_err(NoAmount::Dollars)?;
        let count = |field, amount: &Option<WrittenAmount>| {
            let count = amount.as_ref().map(WrittenAmount::count).transpose();
            count.map_err(|why| NoAmount::Count { field, why })
        };
        let (tokens, steps) = (count("tokens", &self.tokens)?, count("steps", &self.steps)?);
        let all = [(GaugeId::Cost, usd), (GaugeId::Tokens, tokens), (GaugeId::Steps, steps)];
        Ok(all.into_iter().filter_map(|(gauge, by)| Some((gauge, by?))).collect())
    }
}

/// An amount of a limit to raise that cannot be read.
#[derive(Debug, Error)]
enum NoAmount {
    #[error("`usd` is not an amount: {0}")]
    Dollars(MoneyError),
    #[error("`{field}` is not a whole number: {why}")]
    Count { field: &'static str, why: ParseIntError },
}

/// Whether a request is for the control API, and not for an upstream.
pub(crate) fn owns(path: &str) -> bool {
    path.starts_with("/endstop/")
}

/// Answers a request to the listener of clients whose path is one of the control API. `hint` says where that is.
pub(crate) fn answer_client(path: &str, hint: &str) -> Response<Body> {
    if path == HEALTH_PATH {
        return health();
    }
    let error = "the control API is not on the address of clients".to_owned();
    let problem = Problem { error, hint: Some(hint.to_owned()) };
    reply(StatusCode::NOT_FOUND, &json_of(&problem))
}

fn health() -> Response<Body> {
    reply(StatusCode::OK, &json_of(&Health { status: "ok" }))
}

/// The control API on one of its listeners.
#[derive(Debug)]
pub(crate) struct ControlService {
    pub(crate) registry: Arc<Registry>,
    /// The switch that stops all runs of this gateway, also those that would begin.
    pub(crate) kill: MemoryKillSwitch,
    /// The token that requests need. `None` on a socket that only its user can open.
    pub(crate) token: Option<Key>,
    /// Whether pages of web sites could reach it through the user's browser.
    pub(crate) is_local: bool,
    /// Cancelled when the gateway ends.
    pub(crate) stop: CancelToken,
    /// Answers about budgets over time, spend and past kills.
    outside: OutsideAnswers,
}

impl ControlService {
    /// Answers a request.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if self.is_local
            && let Err(foreign) = origin::check(request.uri(), request.headers())
        {
            return reply(StatusCode::FORBIDDEN, &problem(foreign.to_string()));
        }
        answer(self, request).await
    }

    /// Stops every run, or those of a key or a budget, and admits no further call of them. Calls in flight are aborted.
    fn kill(&self, command: &Command) -> Response<Body> {
        let message = command.reason("killed");
        let groups =
            [command.key.clone().map(RunGroup::Key), command.budget.clone().map(RunGroup::Budget)];
        let mut groups = groups.into_iter().flatten().peekable();
        if groups.peek().is_none() {
            return self.kill_all(&message);
        }
        let killed: u64 = groups.map(|group| self.registry.kill_group(group, &message)).sum();
        reply(StatusCode::OK, &json_of(&Killed { killed }))
    }

    fn kill_all(&self, message: &str) -> Response<Body> {
        // Admission checks the switch under the locks of its run. A call that was admitted earlier is in a run that
        // is aborted here, or began while this was running, and the switch stops that one.
        self.kill.turn_on(message);
        let killed = self.registry.kill_all(&kill_signal(message));
        reply(StatusCode::OK, &json_of(&Killed { killed }))
    }
}

async fn answer(service: &ControlService, request: Request<Incoming>) -> Response<Body> {
    let ControlService { registry, token, .. } = service;
    let (head, incoming) = request.into_parts();
    let path = head.uri.path();
    if path == HEALTH_PATH {
        return health();
    }
    if path == OPENAPI_PATH {
        return match head.method {
            Method::GET => reply(StatusCode::OK, &control_openapi()),
            _ => not_allowed(),
        };
    }
    let (is_total, is_kill, of_keys) = (path == TOTAL_PATH, path == KILL_PATH, keys::below(path));
    let outside = OutsideQuestion::of(path);
    let is_other = is_total || is_kill || of_keys.is_some() || outside.is_some();
    let rest = if is_other { Some("") } else { path.strip_prefix(RUNS_PATH) };
    let Some(rest) = rest else {
        return reply(StatusCode::NOT_FOUND, &problem("no such path"));
    };
    if !has_token(token.as_ref(), &head.headers) {
        let why = "the control API needs its token: Authorization: Bearer";
        return reply(StatusCode::UNAUTHORIZED, &problem(why));
    }
    if let Some(question) = outside {
        return service.outside.answer(question, &head, incoming).await;
    }
    if is_kill {
        return kill(service, &head.method, incoming).await;
    }
    if let Some(rest) = of_keys {
        let turns = service.outside.turns();
        return keys::answer(turns, registry.key_desk(), &head.method, rest, incoming).await;
    }
    if is_total {
        return total(registry, &head.method, incoming).await;
    }
    about_runs(service, &head, rest, incoming).await
}

/// The answer to a request below `/endstop/v1/runs`, whose path ends with `rest`.
async fn about_runs(
    service: &ControlService,
    head: &Parts,
    rest: &str,
    incoming: Incoming,
) -> Response<Body> {
    let registry = &service.registry;
    let mut parts = rest.trim_matches('/').splitn(2, '/');
    let (id, act) = (parts.next().unwrap_or(""), parts.next());
    if id.is_empty() {
        return match head.method {
            Method::GET => match list(registry).await {
                Ok(all) => reply(StatusCode::OK, &all),
                Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, &problem(error.to_string())),
            },
            _ => not_allowed(),
        };
    }
    let found = match RunId::parse(id) {
        Ok(id) => registry.find(&id).await,
        Err(_) => Ok(None),
    };
    let run = match found {
        Ok(Some(run)) => run,
        Ok(None) => return reply(StatusCode::NOT_FOUND, &problem("no such run")),
        Err(why) => return not_found_here(&why),
    };
    match (&head.method, act) {
        (&Method::GET, None) => reply(StatusCode::OK, &one(&run)),
        (&Method::GET, Some("wait")) => wait(service, &run, head.uri.query()).await,
        (&Method::POST, Some(act)) => {
            let Ok(body) = read_body(incoming, MAX_COMMAND).await else {
                return reply(StatusCode::BAD_REQUEST, &problem("no body that is read"));
            };
            let (status, value) = command(&run, act, &body);
            reply(status, &value)
        }
        _ => not_allowed(),
    }
}

/// Whether a request has the token that it needs.
fn has_token(token: Option<&Key>, headers: &HeaderMap) -> bool {
    token.is_none_or(|token| {
        bearer(headers).is_some_and(|sent| is_same(token.expose().as_bytes(), sent))
    })
}

/// The answer about a stored run that cannot be used here now.
fn not_found_here(why: &NoRun) -> Response<Body> {
    let (status, error) = match why {
        NoRun::Held { .. } => (StatusCode::CONFLICT, format!("{why}: ask there")),
        NoRun::Away(_) => (StatusCode::SERVICE_UNAVAILABLE, why.to_string()),
        _ => {
            let error = format!("the run is stored, and cannot be read now: {why}");
            (StatusCode::INTERNAL_SERVER_ERROR, error)
        }
    };
    reply(status, &problem(error))
}

/// Refuses a request to the listener of clients that no program of this machine has sent, in the form of their APIs.
pub(crate) fn refuse(why: &ForeignRequest) -> Response<Body> {
    reply(StatusCode::FORBIDDEN, &json!({ "error": { "message": why.to_string() } }))
}

/// Turns the kill switch on. It stays on until the process ends.
async fn kill(service: &ControlService, method: &Method, incoming: Incoming) -> Response<Body> {
    if method != Method::POST {
        return not_allowed();
    }
    let Ok(body) = read_body(incoming, MAX_COMMAND).await else {
        return reply(StatusCode::BAD_REQUEST, &problem("no body that is read"));
    };
    match parsed(&body) {
        Ok(command) => service.kill(&command),
        Err(error) => reply(StatusCode::BAD_REQUEST, &problem(error.to_string())),
    }
}

/// Answers with the total of all runs, and replaces its limit if the request has one.
async fn total(registry: &Registry, method: &Method, incoming: Incoming) -> Response<Body> {
    let bad = |error: String| reply(StatusCode::BAD_REQUEST, &problem(error));
    if method == Method::POST {
        let Ok(body) = read_body(incoming, MAX_COMMAND).await else {
            return bad("no body that is read".to_owned());
        };
        let command = match serde_json::from_slice::<TotalCommand>(&body) {
            Ok(command) => command,
            Err(error) => return bad(error.to_string()),
        };
        let by = acting(command.by.as_deref());
        let why = command.message.as_deref().unwrap_or_default();
        match command.limit.dollars() {
            Ok(limit) => _ = registry.set_total(limit, by, why),
            Err(error) => return bad(format!("`limit` is not an amount: {error}")),
        }
    } else if method != Method::GET {
        return not_allowed();
    }
    let Some(total) = registry.total() else {
        return reply(StatusCode::NOT_FOUND, &problem("no total of all runs is set"));
    };
    let now = total.snapshot();
    let state = TotalState {
        limit_usd: now.limits.cost.map(Money::to_decimal),
        settled_usd: now.settled.cost.to_decimal(),
        held_usd: now.held.cost.to_decimal(),
        changed: registry.last_total_change().map(TotalChanged::from),
    };
    reply(StatusCode::OK, &json_of(&state))
}

/// Answers with a run once it has taken more than N events (`?events=N`), or the gateway ends.
async fn wait(service: &ControlService, run: &RunEntry, query: Option<&str>) -> Response<Body> {
    let seen = query.and_then(|query| query.strip_prefix("events=")?.parse::<u64>().ok());
    let until = Instant::now() + MAX_WAIT;
    loop {
        let events = run.handle().look_at_all(|_, carried| carried.events);
        let is_closing = service.stop.is_cancelled();
        // Another gateway that waits for the run does not wait for this.
        let is_due = is_closing || run.is_wanted() || Instant::now() >= until;
        if seen != Some(events) || is_due {
            let change = RunChange { events, is_closing, run: detail(run) };
            return reply(StatusCode::OK, &json_of(&change));
        }
        tokio::select! {
            _ = service.stop.cancelled() => {}
            () = tokio::time::sleep(WAIT_RECHECK) => {}
        }
    }
}

/// A command's body, which may be empty.
fn parsed(body: &[u8]) -> serde_json::Result<Command> {
    ask::body_of(body)
}

fn command(run: &RunEntry, act: &str, body: &[u8]) -> (StatusCode, Value) {
    let command = match parsed(body) {
        Ok(command) => command,
        Err(error) => return (StatusCode::BAD_REQUEST, problem(error.to_string())),
    };
    let (by, why) = (command.by(), command.message.as_deref().unwrap_or_default());
    match act {
        "cancel" => run.cancel(&command.reason("cancelled"), Urgency::Graceful),
        "kill" => run.cancel(&command.reason("killed"), Urgency::Now),
        "signal" => match command.name.as_deref() {
            Some(name) if !name.is_empty() => run.signal(name, by, why),
            _ => {
                let error =
                    "`name` is missing: the signal that is set, as in {\"name\": \"cancel\"}";
                return (StatusCode::BAD_REQUEST, problem(error));
            }
        },
        "pause" => {
            if !run.pause(by, why) {
                return (StatusCode::CONFLICT, problem(not_paused(run)));
            }
        }
        "resume" => {
            if let Err(refused) = resume(run, &command, by, why) {
                return refused;
            }
        }
        "approve" => {
            if let Err(refused) = approve(run, &command, by, why) {
                return refused;
            }
        }
        _ => return (StatusCode::NOT_FOUND, problem("no such command")),
    }
    // A command counts only if it is in the log, from which another gateway continues the run.
    match run.log_now() {
        Err(NotLogged::Moved) => {
            let error = "another gateway serves the run now: ask again";
            (StatusCode::CONFLICT, problem(error))
        }
        Err(NotLogged::Away(why)) => (StatusCode::SERVICE_UNAVAILABLE, problem(why)),
        Ok(()) | Err(NotLogged::Lost(_)) => (StatusCode::OK, one(run)),
    }
}

/// Why a run does not become paused.
fn not_paused(run: &RunEntry) -> String {
    let handle = run.handle();
    match (handle.status(), handle.pause_request()) {
        (Status::Stopped | Status::Failed, _) | (_, None) => "the run has stopped".to_owned(),
        (_, Some(request)) => format!("the run is already {request}"),
    }
}

/// Approves a pause rule, or all that are met.
fn approve(
    run: &RunEntry,
    command: &Command,
    by: &str,
    why: &str,
) -> Result<(), (StatusCode, Value)> {
    let refused = |status, error: &str| Err((status, problem(error)));
    let limit = match command.limit.as_ref().map(WrittenAmount::dollars).transpose() {
        Ok(limit) => limit,
        Err(error) => {
            let error = format!("`limit` is not an amount: {error}");
            return refused(StatusCode::BAD_REQUEST, &error);
        }
    };
    let is_approved = match &command.rule {
        Some(rule) => {
            if let Some(error) = no_pause_rule(run, rule) {
                return refused(StatusCode::CONFLICT, &error);
            }
            run.approve_rule(rule, limit, by, why)
        }
        None => run.approve(limit, by, why),
    };
    if is_approved {
        return Ok(());
    }
    let error = "no pause rule was approved: none is met, or it has no cost limit to raise";
    refused(StatusCode::CONFLICT, error)
}

/// Why no pause rule of a run has a name, with those that it has. `None` if one has it.
fn no_pause_rule(run: &RunEntry, name: &str) -> Option<String> {
    let program = run.handle().look(|run| Arc::clone(run.program()));
    let policy = program.policy();
    let what = match policy.rule(name) {
        Some(rule) if rule.action == Action::Pause => return None,
        Some(_) => format!("rule `{name}` is no pause rule"),
        None => format!("the run has no rule `{name}`"),
    };
    let rules = policy.rules.iter().filter(|rule| rule.action == Action::Pause);
    let names: Vec<String> = rules.map(|rule| format!("`{}`", rule.id)).collect();
    Some(match names.is_empty() {
        true => format!("{what}; no rule of the run pauses it"),
        false => format!("{what}; pause rules of the run: {}", names.join(", ")),
    })
}

/// Ends the pause from outside, and raises limits if the request has some.
fn resume(
    run: &RunEntry,
    command: &Command,
    by: &str,
    why: &str,
) -> Result<(), (StatusCode, Value)> {
    let raises =
        command.raises().map_err(|error| (StatusCode::BAD_REQUEST, problem(error.to_string())))?;
    let refused = |error: String| (StatusCode::CONFLICT, problem(error));
    if !raises.is_empty() {
        run.raise_limits(&raises, by, why).map_err(|error| refused(not_raised(&error)))?;
    }
    let is_resumed = run.resume(by, why);
    if !is_resumed && raises.is_empty() {
        return Err(refused(
            "the run is not paused from outside; `approve` ends the pause of a rule".to_owned(),
        ));
    }
    Ok(())
}

/// Why limits stay as they are, with what would help.
fn not_raised(error: &RaiseError) -> String {
    match error {
        RaiseError::Hard { .. } => {
            format!("{error}; a policy with `hard = false` and a `grant` admits more")
        }
        RaiseError::Beyond { rule, gauge, most } => {
            let unit =
                GAUGES.iter().find(|row| row.name == *gauge).map_or(Unit::Count, |row| row.unit);
            let most = human::amount(*most, unit);
            format!(
                "rule `{rule}` admits {most} more at most; its `overrides` and `grant` in the policy say how much"
            )
        }
        error => error.to_string(),
    }
}

/// Every run. A stored run that was not named since the start is not read for it.
async fn list(registry: &Arc<Registry>) -> Result<Value, OpenLogError> {
    let (stored, is_truncated) = registry.stored().await?;
    let runs = registry.all();
    let in_memory = runs.iter().map(|run| ListedRun {
        run: run.id().to_string(),
        status: run.handle().status().name().to_owned(),
        reason: run.stop().map(|signal| signal.reason.to_string()),
        calls_in_flight: run.calls(),
    });
    let is_new = |id: &RunId| runs.binary_search_by(|run| run.id().cmp(id)).is_err();
    let stored = stored.iter().filter(|id| is_new(id)).map(|id| ListedRun {
        run: id.to_string(),
        status: "stored".to_owned(),
        reason: None,
        calls_in_flight: 0,
    });
    let runs = in_memory.chain(stored).collect();
    Ok(json_of(&RunList { runs, is_truncated }))
}

fn one(run: &RunEntry) -> Value {
    json_of(&detail(run))
}

fn detail(run: &RunEntry) -> RunDetail {
    let handle = run.handle();
    let counts = run.counts();
    RunDetail {
        run: run.id().to_string(),
        status: handle.status().name().to_owned(),
        calls_in_flight: run.calls(),
        upstream_calls: counts.upstream_calls,
        stop_responses: counts.stop_responses,
        unmetered: counts.unmetered,
        client_disconnects: counts.client_disconnects,
        refused: counts.refused,
        failed_calls: counts.failed_calls,
        is_estimate: handle.usage().1,
        pause: handle.pause_request().map(PauseState::from),
        waits_for: handle.awaited_account().map(|refused| refused.awaited()),
        report: json_of(&handle.report()),
    }
}

fn not_allowed() -> Response<Body> {
    reply(StatusCode::METHOD_NOT_ALLOWED, &problem("not with this method"))
}

fn reply(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::full(Bytes::from(value.to_string())));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests;
