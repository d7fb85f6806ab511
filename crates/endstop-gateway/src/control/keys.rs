//! The keys of clients in the control API: `/endstop/v1/keys`.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use super::answer::problem;
use super::ask::{OutsideTurns, body_of};
use super::{acting, not_allowed, reply};
use crate::body::Body;
use crate::key_desk::{KeyDesk, KeyReason, KeySettings, NewKey};
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
///
/// # Cancel safety
/// A change that has begun goes on to its end, even if its client leaves.
pub(super) async fn answer(
    turns: &OutsideTurns,
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
        return turns.ask(move || desk.list()).await;
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
                let new = NewKey { by: signed(new.by), ..new };
                turns.ask(move || desk.issue(&new)).await
            }
            Err(refused) => *refused,
        },
        Some("set") => match parsed::<KeySettings>(&body) {
            Ok(settings) => {
                let settings = KeySettings { by: signed(settings.by), ..settings };
                turns.ask(move || desk.set(&name, &settings)).await
            }
            Err(refused) => *refused,
        },
        Some("revoke") => match parsed::<KeyReason>(&body) {
            Ok(reason) => {
                let reason = KeyReason { by: signed(reason.by), ..reason };
                turns.ask(move || desk.revoke(&name, &reason)).await
            }
            Err(refused) => *refused,
        },
        Some("rotate") => match parsed::<KeyReason>(&body) {
            Ok(reason) => {
                let reason = KeyReason { by: signed(reason.by), ..reason };
                turns.ask(move || desk.rotate(&name, &reason)).await
            }
            Err(refused) => *refused,
        },
        Some(_) => reply(StatusCode::NOT_FOUND, &problem("no such command")),
    }
}

/// Who acts, for the record of the key.
fn signed(by: Option<String>) -> Option<String> {
    Some(acting(by.as_deref()).to_owned())
}

/// The body of a command, which may be empty; or the answer to one that cannot be read.
fn parsed<B: Default + DeserializeOwned>(body: &[u8]) -> Result<B, Box<Response<Body>>> {
    body_of(body)
        .map_err(|error| Box::new(reply(StatusCode::BAD_REQUEST, &problem(error.to_string()))))
}

#[cfg(test)]
mod tests;
