//! The webhook of the configuration file: `[webhook]` with `url` and `secret_file`.
//!
//! It gets a message when a run is paused or waits for a full budget, and when the spend of a budget has reached its threshold. No message has a prompt, a
//! response or a key.

mod budget_waits;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop::account::{AccountRefused, AccountThreshold, AccountWarning};
use endstop::core::Run;
use endstop::core::event::EventKind;
use endstop::core::policy::Action;
use endstop::core::run::Status;
use endstop::core::trip_record::RuleRecord;
use endstop::core::units::Money;
use endstop::ledger::{Budget, Dimension};
use endstop::observe::{Observation, Observer, RunInfo};
use endstop::store::RunId;
use endstop_gateway::{Key, Webhook, WebhookTask};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::defaults::file_of;
use crate::error::{CliError, causes};
use crate::input::read_text;
use crate::limits::{MAX_CONFIG_BYTES, MAX_SECRET_BYTES, WEBHOOK_PATIENCE};
use crate::output;
use budget_waits::BudgetWaits;

/// The webhook, if there is one. It has to be ended, or messages are lost.
#[derive(Debug, Default)]
pub(crate) struct Hook {
    webhook: Option<Webhook>,
    task: Option<WebhookTask>,
}

/// The `[webhook]` table of the configuration file.
pub(crate) struct WebhookTable {
    /// The configuration file.
    file: PathBuf,
    /// The address, which can have a secret.
    url: String,
    secret_file: PathBuf,
}

/// Sends pauses to the webhook, and waits for budgets.
#[derive(Debug)]
struct Pauses {
    webhook: Webhook,
    /// The runs whose pause was sent.
    paused: Mutex<BTreeSet<RunId>>,
    waits: Mutex<BudgetWaits>,
}

impl WebhookTable {
    /// The table of the configuration file. `None` without one. The secret is not read.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or has a key that is not known or lacks one.
    pub(crate) fn read() -> Result<Option<Self>, CliError> {
        file_of(&|name| std::env::var_os(name)).map_or(Ok(None), Self::read_file)
    }

    fn read_file(file: PathBuf) -> Result<Option<Self>, CliError> {
        // One that the system does not show is not missing: no message would be sent.
        if !file.try_exists().unwrap_or(true) {
            return Ok(None);
        }
        let text = read_text(&file, "configuration file", MAX_CONFIG_BYTES)?;
        let failed = |why: &str| in_webhook(&file, why);
        let all: toml::Table = toml::from_str(&text).map_err(|error| failed(error.message()))?;
        let Some(table) = all.get("webhook").and_then(toml::Value::as_table) else {
            return Ok(None);
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
        let secret_file = directory.join(word("secret_file")?);
        let url = word("url")?.to_owned();
        Ok(Some(Self { file, url, secret_file }))
    }

    /// The file that has the secret.
    pub(crate) fn secret_file(&self) -> &Path {
        &self.secret_file
    }

    /// The scheme and the host of the address. The rest of it can be a secret.
    pub(crate) fn host(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or_default();
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}")
    }

    fn error(&self, why: &str) -> CliError {
        in_webhook(&self.file, why)
    }
}

fn in_webhook(file: &Path, why: &str) -> CliError {
    CliError::new(format!("`{}`: [webhook]: {why}", file.display()))
}

impl Hook {
    /// The webhook of the configuration file.
    ///
    /// # Errors
    /// Returns an error if its table or its secret cannot be used.
    pub(crate) fn open() -> Result<Self, CliError> {
        let Some(table) = WebhookTable::read()? else { return Ok(Self::default()) };
        let secret = read_text(&table.secret_file, "secret", MAX_SECRET_BYTES)?;
        let secret = secret.trim();
        if secret.is_empty() {
            return Err(table.error("the secret is empty"));
        }
        let (webhook, task) = Webhook::start(&table.url, Key::new(secret), output::warn)
            .map_err(|error| table.error(&causes(&error)))?;
        Ok(Self { webhook: Some(webhook), task: Some(task) })
    }

    /// The observer that sends pauses of runs.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        let pauses =
            |webhook| Pauses { webhook, paused: Mutex::default(), waits: Mutex::default() };
        self.webhook.clone().map(|webhook| Arc::new(pauses(webhook)) as Arc<dyn Observer>)
    }

    /// Takes the warnings of budgets: they are printed, and those of thresholds are sent as well.
    pub(crate) fn budget_warnings(&self) -> Arc<dyn Fn(&AccountWarning) + Send + Sync> {
        let webhook = self.webhook.clone();
        Arc::new(move |warning: &AccountWarning| {
            output::warn(&warning.to_string());
            if let (Some(webhook), AccountWarning::Threshold(reached)) = (&webhook, warning) {
                send(webhook, "budget_threshold", threshold_json(reached));
            }
        })
    }

    /// Waits a moment for unsent messages.
    pub(crate) async fn end(self) {
        if let Some(task) = self.task {
            task.end(WEBHOOK_PATIENCE).await;
        }
    }
}

/// Sends a message. Its id is the same in every attempt, and that of no other message.
fn send(webhook: &Webhook, event: &str, more: Value) {
    let (id, time) = (RunId::new().to_string(), Timestamp::now().to_string());
    let mut message = json!({ "version": 1, "id": id, "event": event, "time": time });
    if let (Some(message), Value::Object(more)) = (message.as_object_mut(), more) {
        message.extend(more);
    }
    if let Err(why) = webhook.send(&message) {
        output::warn(&format!("a message to the webhook is lost: {why} ({event})"));
    }
}

/// The part of a message that only a threshold has. Receivers know by budget, limit and reset what several processes report.
fn threshold_json(reached: &AccountThreshold) -> Value {
    let AccountThreshold { account, limit, spent, threshold, resets_at } = reached;
    let is_money = limit.dimension == Dimension::Cost;
    let amount = |amount: u64| match is_money {
        true => json!(Money::from_picos(amount).to_decimal()),
        false => json!(amount),
    };
    json!({
        "budget": account,
        "limit": limit.to_string(),
        "unit": if is_money { "usd" } else { limit.dimension.name() },
        "amount": amount(limit.amount),
        "spent": amount(*spent),
        "percent": reached.percent(),
        "warns_at_percent": threshold,
        "resets_at_ms": resets_at.map(|at| at.0),
        "text": reached.to_string(),
    })
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

    fn resumed(&self, run: &RunId) {
        send(&self.webhook, "run_resumed", json!({ "run": run.as_str() }));
    }

    fn waits(&self) -> MutexGuard<'_, BudgetWaits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
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
        if matches!(run.status(), Status::Stopped | Status::Failed) {
            // Its calls wait no longer, and it does not continue.
            self.waits().forget(&info.id);
        }
        match observation.event.kind {
            EventKind::AttemptBegin { .. } | EventKind::ToolReserve { .. }
                if self.waits().call_begins(&info.id) =>
            {
                self.resumed(&info.id);
            }
            EventKind::PauseRequested { by, why } => {
                self.pause(&info.id, json!({ "run": id, "by": by, "why": why }));
            }
            EventKind::Paused => {
                self.pause_by_rules(&info.id, run);
            }
            EventKind::Resumed | EventKind::ResumeRequested { .. }
                if self.set().remove(&info.id) =>
            {
                self.resumed(&info.id);
            }
            _ => {}
        }
    }

    fn account_awaited(&self, info: &RunInfo, refused: Option<&AccountRefused>) {
        let run = info.id.as_str();
        let Some(refused) = refused else {
            if self.set().contains(&info.id) {
                // The end of its pause is sent.
                self.waits().forget(&info.id);
            } else if self.waits().end(&info.id) {
                self.resumed(&info.id);
            }
            return;
        };
        if !self.waits().begin(&info.id, &refused.account) {
            return;
        }
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
        self.waits().forget(&info.id);
    }
}

#[cfg(test)]
mod tests;
