//! Requests about budgets over time, spend and past kills, which the [`ControlSource`] of the program answers.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Incoming;
use serde::Serialize;
use thiserror::Error;

use super::answer::{Problem, json_of, problem};
use super::ask::OutsideTurns;
use super::{acting, not_allowed, reply};
use crate::body::Body;
use crate::config::Control;
use crate::control_source::{ControlSource, CorrectionRequest, SourceError, SpendQuery};
use crate::limits::{MAX_COMMAND, MAX_QUERY};
use crate::route::unescaped;
use crate::server::read_body;

/// The path of the budgets.
pub(super) const BUDGETS_PATH: &str = "/endstop/v1/budgets";

/// The path of the spend.
pub(super) const SPEND_PATH: &str = "/endstop/v1/spend";

/// The path of the past kills.
pub(super) const KILLS_PATH: &str = "/endstop/v1/kills";

/// The question of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OutsideQuestion {
    /// All budgets.
    Budgets,
    /// The budget of a name.
    Budget(String),
    /// A correction of the budget of a name.
    Correction(String),
    /// The spend of the history.
    Spend,
    /// The kills that are recorded.
    Kills,
}

impl OutsideQuestion {
    /// Reads a path. `None` if it is of something else.
    pub(super) fn of(path: &str) -> Option<Self> {
        if path == SPEND_PATH {
            return Some(Self::Spend);
        }
        if path == KILLS_PATH {
            return Some(Self::Kills);
        }
        let rest = path.strip_prefix(BUDGETS_PATH)?;
        if !rest.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let mut parts = rest.trim_matches('/').splitn(2, '/');
        let read = |name: &str| String::from_utf8_lossy(&unescaped(name)).into_owned();
        match (parts.next().unwrap_or_default(), parts.next()) {
            ("", _) => Some(Self::Budgets),
            (name, None) => Some(Self::Budget(read(name))),
            (name, Some("adjust")) => Some(Self::Correction(read(name))),
            _ => None,
        }
    }
}

/// Why a query cannot be used.
#[derive(Debug, PartialEq, Eq, Error)]
enum QueryError {
    #[error("the query has more than {MAX_QUERY} bytes")]
    TooLong,
    #[error("unknown parameter `{0}`; known ones are `by`, `since` and `timezone`")]
    Unknown(String),
    #[error("the parameter `{0}` is there twice")]
    Twice(String),
    #[error("the parameter `{0}` is not valid UTF-8")]
    NotText(String),
}

/// The questions of one gateway, and who answers them. Clones share the turns.
#[derive(Clone, Debug)]
pub(super) struct OutsideAnswers {
    source: Option<Arc<dyn ControlSource>>,
    turns: OutsideTurns,
}

impl OutsideAnswers {
    pub(super) fn of(config: &Control) -> Self {
        Self { source: config.source.clone(), turns: OutsideTurns::new() }
    }

    /// The turns, which questions about keys share.
    pub(super) const fn turns(&self) -> &OutsideTurns {
        &self.turns
    }

    /// Answers a request whose token was checked.
    ///
    /// # Cancel safety
    /// A question that has begun goes on to its end: a correction is made or not made.
    pub(super) async fn answer(
        &self,
        question: OutsideQuestion,
        head: &Parts,
        incoming: Incoming,
    ) -> Response<Body> {
        let bad = |error: String| reply(StatusCode::BAD_REQUEST, &problem(error));
        match (question, &head.method) {
            (OutsideQuestion::Budgets, &Method::GET) => {
                self.ask(|source| source.budgets(None)).await
            }
            (OutsideQuestion::Budget(name), &Method::GET) => {
                self.ask(move |source| source.budgets(Some(&name))).await
            }
            (OutsideQuestion::Correction(name), &Method::POST) => {
                let Ok(body) = read_body(incoming, MAX_COMMAND).await else {
                    return bad("no body that is read".to_owned());
                };
                match signed(&body) {
                    Ok(request) => self.ask(move |source| source.correct(&name, &request)).await,
                    Err(error) => bad(error.to_string()),
                }
            }
            (OutsideQuestion::Spend, &Method::GET) => match spend_query(head.uri.query()) {
                Ok(query) => self.ask(move |source| source.spend(&query)).await,
                Err(error) => bad(error.to_string()),
            },
            (OutsideQuestion::Kills, &Method::GET) => self.ask(|source| source.kills()).await,
            _ => not_allowed(),
        }
    }

    /// Asks the program, if it has answers.
    async fn ask<T: Serialize + Send + 'static>(
        &self,
        question: impl FnOnce(&dyn ControlSource) -> Result<T, SourceError> + Send + 'static,
    ) -> Response<Body> {
        let Some(source) = self.source.clone() else {
            let error =
                "this process has no answers about budgets, spend and past kills".to_owned();
            let hint = Some("ask the control API of `endstop serve`".to_owned());
            return reply(StatusCode::NOT_FOUND, &json_of(&Problem { error, hint }));
        };
        self.turns.ask(move || question(&*source)).await
    }
}

/// A correction, which names who makes it.
fn signed(body: &[u8]) -> serde_json::Result<CorrectionRequest> {
    let request: CorrectionRequest = serde_json::from_slice(body)?;
    let by = acting(request.by.as_deref()).to_owned();
    Ok(CorrectionRequest { by: Some(by), ..request })
}

/// Reads the query of a question about spend. Escapes are those of a URL, and a plus sign is itself, as in `+02:00`.
fn spend_query(query: Option<&str>) -> Result<SpendQuery, QueryError> {
    let query = query.unwrap_or_default();
    if query.len() > MAX_QUERY {
        return Err(QueryError::TooLong);
    }
    let mut read = SpendQuery::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let place = match name {
            "by" => &mut read.by,
            "since" => &mut read.since,
            "timezone" => &mut read.timezone,
            _ => return Err(QueryError::Unknown(name.to_owned())),
        };
        let value = String::from_utf8(unescaped(value).into_owned())
            .map_err(|_| QueryError::NotText(name.to_owned()))?;
        if place.replace(value).is_some() {
            return Err(QueryError::Twice(name.to_owned()));
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
