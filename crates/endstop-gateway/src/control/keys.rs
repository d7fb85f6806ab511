//! The keys of clients in the control API: `/endstop/v1/keys`.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use hyper::body::Incoming;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answer::{Problem, json_of, problem};
use super::{SOMEONE, not_allowed, reply};
use crate::body::Body;
use crate::key_desk::{KeyDesk, KeyDeskError, KeyProblem, KeyReason, KeySettings, NewKey};
use crate::limits::MAX_COMMAND;
use crate::server::read_body;

/// The path of the keys.
const KEYS_PATH: &str = "/endstop/v1/keys";

/// The rest of a path after that of the keys, if it begins so.
pub(super) fn below(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(KEYS_PATH)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Answers a request to the keys. `rest` follows their path.
pub(super) async fn answer(
    desk: Option<Arc<dyn KeyDesk>>,
    method: &Method,
    rest: &str,
    incoming: Incoming,
) -> Response<Body> {
    let Some(desk) = desk else {
        let error = "this gateway takes no keys: start it with `--keys`";
        return reply(StatusCode::NOT_FOUND, &problem(error));
    };
    let mut parts = rest.trim_matches('/').splitn(2, '/');
    let (name, act) = (parts.next().unwrap_or_default().to_owned(), parts.next());
    if name.is_empty() && method == Method::GET {
        return done(move || desk.list()).await;
    }
    if method != Method::POST || name.is_empty() != act.is_none() {
        return not_allowed();
    }
    let Ok(body) = read_body(incoming, MAX_COMMAND).await else {
        return reply(StatusCode::BAD_REQUEST, &problem("no body that is read"));
    };
    match act {
        None => match parsed::<NewKey>(&body) {
            Ok(new) => {
                let new = NewKey { by: acting(new.by), ..new };
                done(move || desk.issue(&new)).await
            }
            Err(refused) => *refused,
        },
        Some("set") => match parsed::<KeySettings>(&body) {
            Ok(settings) => {
                let settings = KeySettings { by: acting(settings.by), ..settings };
                done(move || desk.set(&name, &settings)).await
            }
            Err(refused) => *refused,
        },
        Some("revoke") => match parsed::<KeyReason>(&body) {
            Ok(reason) => {
                let reason = KeyReason { by: acting(reason.by), ..reason };
                done(move || desk.revoke(&name, &reason)).await
            }
            Err(refused) => *refused,
        },
        Some("rotate") => match parsed::<KeyReason>(&body) {
            Ok(reason) => {
                let reason = KeyReason { by: acting(reason.by), ..reason };
                done(move || desk.rotate(&name, &reason)).await
            }
            Err(refused) => *refused,
        },
        Some(_) => reply(StatusCode::NOT_FOUND, &problem("no such command")),
    }
}

/// Who acts.
fn acting(by: Option<String>) -> Option<String> {
    by.or_else(|| Some(SOMEONE.to_owned()))
}

/// The body of a command, which may be empty; or the answer to one that cannot be read.
fn parsed<B: Default + DeserializeOwned>(body: &[u8]) -> Result<B, Box<Response<Body>>> {
    if body.is_empty() {
        return Ok(B::default());
    }
    serde_json::from_slice(body)
        .map_err(|error| Box::new(reply(StatusCode::BAD_REQUEST, &problem(error.to_string()))))
}

/// The answer to what is done on another thread, because it may wait for a file or a server. It is done even if the client leaves.
async fn done<A: Serialize + Send + 'static>(
    act: impl FnOnce() -> Result<A, KeyDeskError> + Send + 'static,
) -> Response<Body> {
    match tokio::task::spawn_blocking(act).await {
        Ok(Ok(answer)) => reply(StatusCode::OK, &json_of(&answer)),
        Ok(Err(error)) => refused(error),
        Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, &problem("the command failed")),
    }
}

fn refused(error: KeyDeskError) -> Response<Body> {
    let status = match error.kind {
        KeyProblem::Invalid => StatusCode::BAD_REQUEST,
        KeyProblem::Unknown => StatusCode::NOT_FOUND,
        KeyProblem::Conflict => StatusCode::CONFLICT,
        KeyProblem::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    reply(status, &json_of(&Problem { error: error.error, hint: error.hint }))
}

#[cfg(test)]
mod tests;
