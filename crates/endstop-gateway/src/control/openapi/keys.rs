//! The requests to the keys of clients.
//!
//! A separate file because each part of the control API has its rows where it is found.

use super::{Operation, get, of, post};
use crate::key_desk::{KeyList, KeyReason, KeyRecord, KeySettings, NewKey, ShownKey};

/// Every request that is answered.
pub(super) const OPERATIONS: [Operation; 5] = [
    get("/endstop/v1/keys", of::<KeyList>, "The issued keys, without what clients send"),
    post(
        "/endstop/v1/keys",
        of::<NewKey>,
        of::<ShownKey>,
        "Issue a key. The answer has it once; only its hash is stored",
    ),
    post(
        "/endstop/v1/keys/{name}/set",
        of::<KeySettings>,
        of::<KeyRecord>,
        "Change the budgets, limits, models or expiry of a key from its next call on",
    ),
    post(
        "/endstop/v1/keys/{name}/revoke",
        of::<KeyReason>,
        of::<KeyRecord>,
        "Refuse a key from its next call on",
    ),
    post(
        "/endstop/v1/keys/{name}/rotate",
        of::<KeyReason>,
        of::<ShownKey>,
        "Replace a key by a new one. The answer has it once",
    ),
];
