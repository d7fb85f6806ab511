//! Questions to the program of a gateway, which has the budgets, the history and the keys. They may wait for a file or a server.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::answer::{Problem, json_of, problem};
use super::reply;
use crate::body::Body;
use crate::control_source::{SourceError, SourceErrorKind};
use crate::limits::OUTSIDE_QUESTIONS;

/// The turns of questions: a few are asked at the same time, each in a separate thread. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct OutsideTurns(Arc<Semaphore>);

impl OutsideTurns {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(OUTSIDE_QUESTIONS)))
    }

    /// Asks in another thread, once it is this question's turn.
    ///
    /// # Cancel safety
    /// A question that has begun goes on to its end: what it changes is changed or not changed.
    pub(super) async fn ask<A: Serialize + Send + 'static>(
        &self,
        question: impl FnOnce() -> Result<A, SourceError> + Send + 'static,
    ) -> Response<Body> {
        let failed = || reply(StatusCode::INTERNAL_SERVER_ERROR, &problem("the request failed"));
        let Ok(turn) = Arc::clone(&self.0).acquire_owned().await else { return failed() };
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            question()
        });
        match asked.await {
            Ok(Ok(answer)) => reply(StatusCode::OK, &json_of(&answer)),
            Ok(Err(error)) => {
                let (status, problem) = refused(error);
                reply(status, &json_of(&problem))
            }
            Err(_) => failed(),
        }
    }
}

/// The status and the body for an error of the program. Its details are for a terminal of the same machine.
fn refused(error: SourceError) -> (StatusCode, Problem) {
    let status = match error.kind {
        SourceErrorKind::Unknown => StatusCode::NOT_FOUND,
        SourceErrorKind::Unusable => StatusCode::BAD_REQUEST,
        SourceErrorKind::Refused => StatusCode::CONFLICT,
        SourceErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        SourceErrorKind::Away => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Problem { error: error.message, hint: error.hint })
}

/// The body of a command, which may be empty.
pub(super) fn body_of<B: Default + DeserializeOwned>(body: &[u8]) -> serde_json::Result<B> {
    if body.is_empty() {
        return Ok(B::default());
    }
    serde_json::from_slice(body)
}

#[cfg(test)]
mod tests;
