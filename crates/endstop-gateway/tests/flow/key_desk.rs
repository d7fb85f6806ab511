//! Requests of the control API about keys, which the program of the gateway answers.

use std::sync::Arc;

use endstop_gateway::control_source::{SourceError, SourceErrorKind};
use endstop_gateway::{
    Gateway, KeyChangeRecord, KeyDesk, KeyList, KeyReason, KeyRecord, KeySettings, NewKey, ShownKey,
};

use crate::fake::{Fake, json};
use crate::file::golden;
use crate::golden::Log;
use crate::kit::*;
use crate::runs::{TOKEN, ask};

const POLICY: &str = "[stop]\nlimit = \"steps >= 9\"\n";
const KEYS: &str = "/endstop/v1/keys";

/// One key, and names for what can go wrong.
#[derive(Debug)]
struct FixedDesk;

fn record(name: &str, by: Option<&String>, why: Option<&String>) -> KeyRecord {
    let at = "2026-01-01T00:00:00Z".to_owned();
    KeyRecord {
        name: name.to_owned(),
        status: "valid".to_owned(),
        runs: format!("{name}-*"),
        budgets: vec!["team-a".to_owned()],
        limits: vec!["$5 per day".to_owned()],
        created: at.clone(),
        changed: Some(KeyChangeRecord {
            at,
            by: by.unwrap().clone(),
            why: why.cloned().unwrap_or_default(),
        }),
        ..KeyRecord::default()
    }
}

fn checked(name: &str) -> Result<(), SourceError> {
    let error = SourceError::new;
    match name {
        "nobody" => Err(error(SourceErrorKind::Unknown, "no key `nobody`")
            .with_hint("`endstop key list` lists them")),
        "taken" => Err(error(SourceErrorKind::Refused, "the key `taken` exists")
            .with_hint("replace it: endstop key rotate taken")),
        "away" => Err(error(SourceErrorKind::Away, "the store is away")),
        "broken" => Err(SourceError {
            details: Some("line 3 of a file".to_owned()),
            ..error(SourceErrorKind::Failed, "the keys are damaged")
        }),
        _ => Ok(()),
    }
}

fn shown(issued: KeyRecord) -> ShownKey {
    ShownKey { key: "endstop_new".to_owned(), issued }
}

impl KeyDesk for FixedDesk {
    fn list(&self) -> Result<KeyList, SourceError> {
        let (by, why) = ("ann".to_owned(), "a test".to_owned());
        Ok(KeyList { keys: vec![record("alice", Some(&by), Some(&why))] })
    }

    fn issue(&self, new: &NewKey) -> Result<ShownKey, SourceError> {
        checked(&new.name)?;
        Ok(shown(record(&new.name, new.by.as_ref(), new.message.as_ref())))
    }

    fn set(&self, name: &str, settings: &KeySettings) -> Result<KeyRecord, SourceError> {
        checked(name)?;
        Ok(record(name, settings.by.as_ref(), settings.message.as_ref()))
    }

    fn revoke(&self, name: &str, reason: &KeyReason) -> Result<KeyRecord, SourceError> {
        checked(name)?;
        Ok(record(name, reason.by.as_ref(), reason.message.as_ref()))
    }

    fn rotate(&self, name: &str, reason: &KeyReason) -> Result<ShownKey, SourceError> {
        checked(name)?;
        Ok(shown(record(name, reason.by.as_ref(), reason.message.as_ref())))
    }
}

async fn gateway_with(desk: Option<Arc<dyn KeyDesk>>) -> (Gateway, Fake) {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let mut config = config(POLICY, upstream.addr);
    config.control = controlled();
    config.key_desk = desk;
    (Gateway::start(config).await.unwrap(), upstream)
}

#[tokio::test]
async fn control_api_of_keys() {
    let (gateway, _upstream) = gateway_with(Some(Arc::new(FixedDesk))).await;
    let mut log = Log { gateway: &gateway, text: String::new() };
    let of = |name: &str, act: &str| format!("{KEYS}/{name}/{act}");
    log.ask_as("", "GET", KEYS, "").await;
    log.ask_as("", "POST", KEYS, "{\"name\":\"alice\"}").await;
    for act in ["set", "revoke", "rotate"] {
        log.ask_as("", "POST", &of("alice", act), "{\"message\":\"a test\"}").await;
    }
    log.ask("GET", KEYS, "").await;
    let new = "{\"name\":\"alice\",\"budgets\":[\"team-a\"],\"usd\":20,\"by\":\"ann\",\"message\":\"a test\"}";
    log.ask("POST", KEYS, new).await;
    log.ask("POST", KEYS, "{\"name\":\"taken\"}").await;
    log.ask("POST", KEYS, "{\"limit\":\"$5\"}").await;
    log.ask("POST", &of("alice", "set"), "{\"usd\":\"none\"}").await;
    log.ask("POST", &of("nobody", "set"), "{\"usd\":1}").await;
    log.ask("POST", &of("alice", "revoke"), "{\"by\":\" \",\"message\":\"left\"}").await;
    log.ask("POST", &of("alice", "rotate"), "").await;
    log.ask("POST", &of("away", "revoke"), "").await;
    log.ask("POST", &of("broken", "rotate"), "").await;
    log.ask("POST", &of("alice", "dance"), "").await;
    log.ask("PUT", KEYS, "").await;
    log.ask("GET", &format!("{KEYS}/alice"), "").await;
    golden("control-api-keys.txt", &log.text, &[]);
}

#[tokio::test]
async fn a_gateway_without_a_desk_has_no_keys() {
    let (gateway, _upstream) = gateway_with(None).await;
    for (method, path) in [("GET", KEYS), ("POST", KEYS), ("POST", "/endstop/v1/keys/a/revoke")] {
        let got = ask(&gateway, method, path, TOKEN, "").await;
        assert_eq!(got.status, 404, "{path}: {got:?}");
        assert!(got.json()["error"].as_str().unwrap().contains("--keys"), "{got:?}");
    }
}
