//! The webhook of the configuration file: `[webhook]` with `url` and `secret_file`.
//!
//! It gets a message when a run is paused or waits for a full budget, and when the spend of a budget has reached its threshold. No message has a prompt, a
//! response or a key.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use endstop::account::AccountRefused;
use endstop::core::Run;
use endstop::core::event::EventKind;
use endstop::core::policy::Action;
use endstop::core::run::Status;
use endstop::core::trip_record::RuleRecord;
use endstop::ledger::Budget;
use endstop::observe::{Observation, Observer, RunInfo};
use endstop::store::RunId;
use endstop_gateway::{Key, Webhook, WebhookTask};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::defaults::file_of;
use crate::error::{CliError, causes};
use crate::input::read_text;
use crate::limits::{MAX_CONFIG_BYTES, MAX_SECRET_BYTES};
use crate::output;

/// How long the end of a command waits for messages that are not taken yet.
const PATIENCE: Duration = Duration::from_secs(5);

/// The webhook, if there is one. It has to be ended, or messages are lost.
#[derive(Debug, Default)]
pub(crate) struct Hook {
    webhook: Option<Webhook>,
    task: Option<WebhookTask>,
}

/// Sends pauses to the webhook, and waits for budgets.
#[derive(Debug)]
struct Pauses {
    webhook: Webhook,
    /// The runs whose pause was sent.
    paused: Mutex<BTreeSet<RunId>>,
}

impl Hook {
    /// The webhook of the configuration file.
    ///
    /// # Errors
    /// Returns an error if its table or its secret cannot be used.
    pub(crate) fn open() -> Result<Self, CliError> {
        let file = file_of(&|name| std::env::var_os(name)).filter(|file| file.exists());
        let Some(file) = file else { return Ok(Self::default()) };
        let text = read_text(&file, "configuration file", MAX_CONFIG_BYTES)?;
        let failed = |why: &str| CliError::new(format!("`{}`: [webhook]: {why}", file.display()));
        let all: toml::Table = toml::from_str(&text).map_err(|error| failed(error.message()))?;
        let Some(table) = all.get("webhook").and_then(toml::Value::as_table) else {
            return Ok(Self::default());
        };
        if let Some(unknown) = table.keys().find(|key| !["url", "secret_file"].contains(&&***key)) {
            return Err(failed(&format!("`{unknown}` is not known here")));
        }
        let word = |key: &str| {
            let word = table.get(key).and_then(toml::Value::as_str);
            word.ok_or_else(|| failed(&format!("`{key}` is missing")))
        };
        // Next to the configuration file, if its path is relative.
        let directory = file.parent().unwrap_or(Path::new(""));
        let secret = directory.join(word("secret_file")?);
        let secret = read_text(&secret, "secret", MAX_SECRET_BYTES)?;
        let secret = secret.trim();
        if secret.is_empty() {
            return Err(failed("the secret is empty"));
        }
        let (webhook, task) = Webhook::start(word("url")?, Key::new(secret), output::warn)
            .map_err(|error| failed(&causes(&error)))?;
        Ok(Self { webhook: Some(webhook), task: Some(task) })
    }

    /// The observer that sends pauses of runs.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        let pauses = |webhook| Pauses { webhook, paused: Mutex::default() };
        self.webhook.clone().map(|webhook| Arc::new(pauses(webhook)) as Arc<dyn Observer>)
    }

    /// Takes the warnings of budgets: they are printed, and sent.
    pub(crate) fn budget_warnings(&self) -> Arc<dyn Fn(&str) + Send + Sync> {
        let webhook = self.webhook.clone();
        Arc::new(move |text: &str| {
            output::warn(text);
            if let Some(webhook) = &webhook {
                send(webhook, "budget_threshold", json!({ "text": text }));
            }
        })
    }

    /// Waits a moment for unsent messages.
    pub(crate) async fn end(self) {
        if let Some(task) = self.task {
            task.end(PATIENCE).await;
        }
    }
}

fn send(webhook: &Webhook, event: &str, more: Value) {
    let mut message = json!({ "version": 1, "event": event, "time": Timestamp::now().to_string() });
    if let (Some(message), Value::Object(more)) = (message.as_object_mut(), more) {
        message.extend(more);
    }
    webhook.send(&message);
}

impl Pauses {
    /// Sends a pause, if the run was not paused before.
    fn pause(&self, run: &RunId, more: Value) {
        if self.set().insert(run.clone()) {
            send(&self.webhook, "run_paused", more);
        }
    }

    fn pause_by_rules(&self, id: &RunId, run: &Run) {
        let record = run.trip_record();
        let trips = |rule: &&RuleRecord| rule.action == Action::Pause && rule.trips;
        let rules: Vec<&str> =
            record.rules.iter().filter(trips).map(|rule| rule.id.as_str()).collect();
        self.pause(id, json!({ "run": id.as_str(), "rules": rules }));
    }

    fn set(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Pauses {
    fn observe(&self, observation: &Observation<'_>) {
        let (info, run) = (observation.info, observation.run);
        if info.parent.is_some() {
            return;
        }
        let id = info.id.as_str();
        match observation.event.kind {
            EventKind::PauseRequested { by, why } => {
                self.pause(&info.id, json!({ "run": id, "by": by, "why": why }));
            }
            EventKind::Paused => {
                self.pause_by_rules(&info.id, run);
            }
            EventKind::Resumed | EventKind::ResumeRequested { .. }
                if self.set().remove(&info.id) =>
            {
                send(&self.webhook, "run_resumed", json!({ "run": id }));
            }
            _ => {}
        }
    }

    fn account_awaited(&self, info: &RunInfo, refused: Option<&AccountRefused>) {
        let run = info.id.as_str();
        let Some(refused) = refused else {
            send(&self.webhook, "run_resumed", json!({ "run": run }));
            return;
        };
        let millis = refused.resets_at.and_then(|at| i64::try_from(at.0).ok());
        let resets = millis.and_then(|at| Timestamp::from_millisecond(at).ok());
        let more = json!({
            "run": run,
            "budget": refused.account,
            "resets_at": resets.map(|at| at.to_string()),
            "text": refused.to_string(),
        });
        send(&self.webhook, "run_paused", more);
    }

    fn run_ended(&self, info: &RunInfo, run: &Run, _: &Budget) {
        // An agent without anyone to ask ends as paused, with no event for that.
        if info.parent.is_none() && run.status() == Status::Paused {
            self.pause_by_rules(&info.id, run);
        }
        self.set().remove(&info.id);
    }
}
