//! The run that a request belongs to, its upstream, and its API.
//!
//! No request can choose a host: the gateway uses only the path of its target, and the host always comes from
//! [`Upstreams`](crate::Upstreams).
//!
//! The run, by the first of these that is present: a key that the gateway has issued, the path (`/r/{run}/…`), the
//! header `x-endstop-run`, the session of Claude Code. Children follow the run in the path (`/r/{run}/{child}/…`,
//! nested by more segments) or are in the header `x-endstop-child` (`a/b`).

mod key;
mod path;

use std::sync::Arc;

use endstop_llm::Api;
use endstop_runtime::store::RunId;
use http::header::UPGRADE;
use http::{HeaderMap, Method, StatusCode};

pub(crate) use key::{
    bearer, is_secret_header, is_secret_parameter, secrets_of_query, strip as strip_keys,
    unescaped, use_key,
};
pub(crate) use path::PathError;

use crate::config::{Config, IssuedKey, IssuedTo, KeyRuns, KeyTable, Runs, Unnamed};
use crate::limits::{MAX_CHILD_DEPTH, QUOTED_CHARS};
use crate::tunnel::InterceptedHost;

/// The run of requests that name none, if they share one.
const SHARED_RUN: &str = "shared";
/// The header that names the run.
pub(crate) const RUN_HEADER: &str = "x-endstop-run";
/// The header that names the sub-agent.
pub(crate) const CHILD_HEADER: &str = "x-endstop-child";
const CLAUDE_SESSION_HEADER: &str = "x-claude-code-session-id";

/// APIs with one upstream. Compatible servers belong to the family whose API they serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ApiFamily {
    /// Chat completions and responses.
    OpenAi,
    /// Messages.
    Anthropic,
    /// generateContent.
    Gemini,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    /// A model call.
    ModelCall(Api),
    /// Counts tokens and costs nothing: Anthropic `count_tokens`, Gemini `countTokens`.
    CountTokens,
    /// Lists models and costs nothing.
    Models,
    /// A model call of a cloud platform, in a form that is not read here.
    Cloud(CloudPlatform),
    /// Known to be harmless, on an intercepted host: passes untouched and uncounted, and in a stopped run too.
    Free,
    /// Anything else of the upstream: passes untouched, counted as a request.
    Other,
}

impl Endpoint {
    /// The API of a model call, in a word.
    pub(crate) const fn api_name(self) -> Option<&'static str> {
        match self {
            Self::ModelCall(Api::Chat) => Some("chat"),
            Self::ModelCall(Api::Responses) => Some("responses"),
            Self::ModelCall(Api::Messages) => Some("messages"),
            Self::ModelCall(Api::Gemini) => Some("gemini"),
            Self::CountTokens | Self::Models | Self::Cloud(_) | Self::Free | Self::Other => None,
        }
    }
}

/// Platforms that serve models behind their own paths and signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CloudPlatform {
    /// Amazon Bedrock: `/model/{model}/invoke` and similar paths.
    Bedrock,
    /// Models of other companies on Vertex AI: `…/models/{model}:rawPredict` and similar paths.
    Vertex,
}

impl CloudPlatform {
    /// The name that `allow_unmetered` takes.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bedrock => "bedrock",
            Self::Vertex => "vertex",
        }
    }

    /// The name that people know.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Bedrock => "Amazon Bedrock",
            Self::Vertex => "Vertex AI",
        }
    }

    /// The way to make the same call so that it can be limited.
    pub(crate) const fn instead(self) -> &'static str {
        match self {
            Self::Bedrock => {
                "use the provider's own API with its key (for Claude Code unset CLAUDE_CODE_USE_BEDROCK and set \
                 ANTHROPIC_API_KEY)"
            }
            Self::Vertex => {
                "use the provider's own API with its key (for Claude Code unset CLAUDE_CODE_USE_VERTEX and set \
                 ANTHROPIC_API_KEY)"
            }
        }
    }
}

/// Where a request goes, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The run that pays.
    pub(crate) run: RunId,
    /// The sub-agents from the run down; empty for the run itself.
    pub(crate) child: Vec<String>,
    /// The API family, and with it the upstream of a request to the gateway itself.
    pub(crate) family: ApiFamily,
    /// The upstream of a request in an intercepted connection.
    pub(crate) host: Option<Arc<InterceptedHost>>,
    /// Path and query below the upstream's base; begins with a slash.
    pub(crate) rest: String,
    /// What it is for.
    pub(crate) endpoint: Endpoint,
    /// The client's key if it was issued by the gateway: the upstream's own has to take its place.
    pub(crate) issued: Option<IssuedTo>,
}

impl Route {
    /// Whether the client's key was issued by the gateway.
    pub(crate) const fn has_issued_key(&self) -> bool {
        self.issued.is_some()
    }
}

/// Why a request is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RouteError {
    /// The path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// No run is named, and there are many.
    #[error(
        "this gateway serves many runs, and the request names none: put `/r/<run>` before the path of the \
         base URL, or send the header x-endstop-run"
    )]
    Unnamed,
    /// No run is named but by a key, and the gateway has not issued that.
    #[error("the request has no key that this gateway has issued: send one as the API key")]
    UnknownKey,
    /// The key begins like an issued one, and is not known.
    #[error("this gateway did not issue the key of the request, or has replaced it")]
    ForgottenKey,
    /// The key was revoked.
    #[error("the key `{0}` is revoked")]
    RevokedKey(String),
    /// The key has expired.
    #[error("the key `{0}` has expired")]
    ExpiredKey(String),
    /// The budgets of the key cannot be counted.
    #[error(
        "the budgets of the key `{0}` cannot be counted, so its calls are refused: the log of the gateway says why"
    )]
    UncountedKey(String),
    /// A later version wrote the key, or it is damaged.
    #[error(
        "this gateway cannot read what the key `{0}` may do, so its calls are refused: the log of the gateway says why"
    )]
    UnreadKey(String),
    /// The store that has the keys is away, with the error. It names a server, so only the log has it.
    #[error("the store of the keys is away, so this call was not sent: send it again")]
    KeysAway(String),
    /// The keys cannot be read.
    #[error("this gateway cannot read its keys, so it refuses every call")]
    NoKeys,
    /// The run takes only calls with its key.
    #[error("the run `{0}` accepts only calls with the key that this gateway issued for it")]
    NeedsKey(RunId),
    /// The run is not one of the key's.
    #[error("the key is for the runs `{runs}`, and the request is for the run `{run}`")]
    OtherRun {
        /// The run that the request names.
        run: RunId,
        /// The runs of the key.
        runs: String,
    },
    /// A name of a run or child that cannot be one.
    #[error("`{name}` is not a run name: {why}")]
    Name {
        /// The invalid name, truncated.
        name: String,
        /// The reason.
        why: String,
    },
}

impl RouteError {
    /// The problem in a word, and the run that is named.
    pub(crate) const fn reason(&self) -> (&'static str, Option<&RunId>) {
        match self {
            Self::Path(_) => ("invalid_path", None),
            Self::Unnamed => ("unnamed_run", None),
            Self::UnknownKey | Self::ForgottenKey => ("unknown_key", None),
            Self::RevokedKey(_) => ("revoked_key", None),
            Self::ExpiredKey(_) => ("expired_key", None),
            Self::UncountedKey(_) => ("uncounted_key", None),
            Self::UnreadKey(_) => ("unread_key", None),
            Self::KeysAway(_) => ("store_away", None),
            Self::NoKeys => ("no_keys", None),
            Self::NeedsKey(run) => ("needs_key", Some(run)),
            Self::OtherRun { run, .. } => ("other_run", Some(run)),
            Self::Name { .. } => ("invalid_name", None),
        }
    }

    /// The status of the response.
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::UnknownKey
            | Self::ForgottenKey
            | Self::RevokedKey(_)
            | Self::ExpiredKey(_)
            | Self::NeedsKey(_) => StatusCode::UNAUTHORIZED,
            Self::UncountedKey(_) | Self::UnreadKey(_) | Self::KeysAway(_) | Self::NoKeys => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::OtherRun { .. } => StatusCode::FORBIDDEN,
            Self::Path(_) | Self::Unnamed | Self::Name { .. } => StatusCode::BAD_REQUEST,
        }
    }
}

/// Whether a request asks for a WebSocket. Other upgrades, such as the `h2c` of Java's client, may be ignored.
pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    let values = headers.get_all(UPGRADE).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|protocol| {
        let name = protocol.split('/').next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case("websocket")
    })
}

/// Returns the API family of a request that has no route, and what it is for.
pub(crate) fn family_and_endpoint(
    method: &Method,
    target: &str,
    headers: &HeaderMap,
) -> (ApiFamily, Endpoint) {
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    path::family_and_endpoint(method, path::split(path).rest, headers)
}

/// Returns the issued key that a request has.
pub(crate) fn issued_to(keys: &KeyTable, target: &str, headers: &HeaderMap) -> Option<IssuedTo> {
    let query = target.split_once('?').map(|(_, query)| query);
    key::issued(keys, headers, query)
}

/// Returns the route of a request. In an intercepted connection to `host`, its path is that of the host, and names no run.
pub(crate) fn route(
    config: &Config,
    keys: &KeyTable,
    method: &Method,
    target: &str,
    headers: &HeaderMap,
    host: Option<Arc<InterceptedHost>>,
) -> Result<Route, RouteError> {
    let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
    path::check(path)?;
    let parts = match &host {
        Some(_) => path::plain(path),
        None => path::split(path),
    };
    let issued = valid_key(keys, headers, query)?;
    let mut child: Vec<String> = parts.children.iter().map(|&name| name.to_owned()).collect();
    if let Some(names) = text(headers, CHILD_HEADER) {
        child.extend(names.split('/').filter(|name| !name.is_empty()).map(str::to_owned));
    }
    let run = match (&config.runs, issued.as_ref().map(|issued| &issued.key.runs)) {
        (Runs::One(run), _) | (Runs::Many { .. }, Some(KeyRuns::One(run))) => {
            if let Some(name) = parts.run.filter(|name| *name != run.as_str()) {
                child.insert(0, name.to_owned());
            }
            run.clone()
        }
        (Runs::Many { .. }, Some(runs @ KeyRuns::Under(_))) => {
            let run = named(parts.run, headers, Unnamed::Refuse)?;
            if keys.owner(&run) != Some(runs) {
                return Err(RouteError::OtherRun { run, runs: runs.to_string() });
            }
            run
        }
        (Runs::Many { unnamed, .. }, None) => {
            let run = match named(parts.run, headers, *unnamed) {
                Err(RouteError::Unnamed) if !keys.is_empty() => return Err(RouteError::UnknownKey),
                named => named?,
            };
            if keys.owner(&run).is_some() {
                return Err(RouteError::NeedsKey(run));
            }
            run
        }
    };
    for name in &child {
        parse(name)?;
    }
    child.truncate(MAX_CHILD_DEPTH);
    let (family, endpoint) = match &host {
        Some(host) => path::of_host(method, path, headers, host),
        None => path::family_and_endpoint(method, parts.rest, headers),
    };
    // The scripted model is the upstream of every host.
    let host = host.map(|host| (host, config.upstreams.is_scripted));
    let mut rest = match &host {
        Some((_, false)) => path.to_owned(),
        Some((_, true)) => path::below_base(family, path::from_call(family, path)).into_owned(),
        None => path::below_base(family, parts.rest).into_owned(),
    };
    let host = host.and_then(|(host, is_scripted)| Some(host).filter(|_| !is_scripted));
    let query =
        query.and_then(|query| key::strip_query(query, issued.as_ref().map(|issued| &issued.sent)));
    if let Some(query) = query {
        rest.push('?');
        rest.push_str(&query);
    }
    Ok(Route { run, child, family, host, rest, endpoint, issued })
}

/// Checks the route of a request again, with the keys as they are after a wait. Returns its key as it is now.
pub(crate) fn check_again(
    config: &Config,
    keys: &KeyTable,
    route: &Route,
) -> Result<Option<Arc<IssuedKey>>, RouteError> {
    if matches!(config.runs, Runs::One(_)) {
        return Ok(None);
    }
    check_keys(keys)?;
    let run = &route.run;
    let Some(issued) = &route.issued else {
        return match keys.owner(run) {
            Some(_) => Err(RouteError::NeedsKey(run.clone())),
            None => Ok(None),
        };
    };
    let key = keys.get(issued.key.hash).ok_or(RouteError::ForgottenKey)?;
    check_key(keys, key)?;
    let has_run = match &key.runs {
        KeyRuns::One(own) => own == run,
        runs @ KeyRuns::Under(_) => keys.owner(run) == Some(runs),
    };
    match has_run {
        true => Ok(Some(Arc::clone(key))),
        false => Err(RouteError::OtherRun { run: run.clone(), runs: key.runs.to_string() }),
    }
}

/// Whether anything is known of the keys.
fn check_keys(keys: &KeyTable) -> Result<(), RouteError> {
    if keys.is_unreadable() {
        return Err(RouteError::NoKeys);
    }
    match keys.away() {
        Some(why) => Err(RouteError::KeysAway(why.to_owned())),
        None => Ok(()),
    }
}

/// The issued key of a request, if it is valid now.
fn valid_key(
    keys: &KeyTable,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Option<IssuedTo>, RouteError> {
    check_keys(keys)?;
    let Some(issued) = key::issued(keys, headers, query) else {
        return match key::is_forgotten(keys, headers, query) {
            true => Err(RouteError::ForgottenKey),
            false => Ok(None),
        };
    };
    check_key(keys, &issued.key)?;
    Ok(Some(issued))
}

/// Whether a key is valid now.
fn check_key(keys: &KeyTable, key: &IssuedKey) -> Result<(), RouteError> {
    let name = || key.name.clone();
    if key.is_revoked {
        return Err(RouteError::RevokedKey(name()));
    }
    if key.has_expired(keys.time()) {
        return Err(RouteError::ExpiredKey(name()));
    }
    if key.unread.is_some() {
        return Err(RouteError::UnreadKey(name()));
    }
    if key.uncounted.is_some() {
        return Err(RouteError::UncountedKey(name()));
    }
    Ok(())
}

fn named(path: Option<&str>, headers: &HeaderMap, unnamed: Unnamed) -> Result<RunId, RouteError> {
    let name =
        path.or_else(|| text(headers, RUN_HEADER)).or_else(|| text(headers, CLAUDE_SESSION_HEADER));
    match (name, unnamed) {
        (Some(name), _) => parse(name),
        (None, Unnamed::Shared) => parse(SHARED_RUN),
        (None, Unnamed::Refuse) => Err(RouteError::Unnamed),
    }
}

fn parse(name: &str) -> Result<RunId, RouteError> {
    RunId::parse(name).map_err(|error| RouteError::Name {
        name: name.chars().filter(|c| !c.is_control()).take(QUOTED_CHARS).collect(),
        why: error.to_string(),
    })
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
