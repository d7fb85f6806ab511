//! The key of a call: whether it is still valid, and which models it may call.
//!
//! A call may wait between its routing and its admission: for its body, for a human, for the next day of a budget. So its key is
//! looked up again as the last step before each admission, and the call has what that key may do then.
//!
//! A separate file because both the first reading of a call and its admission check the key.

use std::sync::Arc;

use endstop_llm::ErrorKind;
use http::{Response, StatusCode};

use super::context::CallContext;
use super::parse::ParsedCall;
use super::respond;
use crate::body::Body;
use crate::config::IssuedKey;
use crate::limits::MAX_LOGGED_MODEL;
use crate::refused_call::CallRefusal;
use crate::run::RunEntry;

/// Checks the key of a call as it is now. Returns the response if the call is no longer taken.
pub(super) async fn recheck(
    context: &CallContext,
    run: &RunEntry,
    parsed: &ParsedCall,
) -> Result<(), Box<Response<Body>>> {
    let route = parsed.route();
    let key = context.key_now(route).await;
    let key = key.map_err(|why| Box::new(respond::no_route(parsed.dialect(), &why)))?;
    let Some(key) = key else { return Ok(()) };
    if route.issued.as_ref().is_some_and(|issued| Arc::ptr_eq(&issued.key, &key)) {
        return Ok(());
    }
    if let Some(refused) = refused_model(parsed, &key) {
        return Err(Box::new(refused));
    }
    context.use_key(run, &key);
    Ok(())
}

/// Returns the refusal of a call whose key may not call its model, or one that may answer instead.
pub(super) fn refused_model(parsed: &ParsedCall, key: &IssuedKey) -> Option<Response<Body>> {
    let request = parsed.request();
    let mut models = std::iter::once(&request.model).chain(&request.fallbacks);
    let refused: String =
        models.find(|model| !key.allows(model))?.chars().take(MAX_LOGGED_MODEL).collect();
    let text = format!("the key `{}` is not for the model `{refused}`", key.name);
    let response =
        respond::error(parsed.dialect(), StatusCode::FORBIDDEN, ErrorKind::Invalid, &text);
    Some(respond::refusing(response, CallRefusal::new("model_not_allowed")))
}
