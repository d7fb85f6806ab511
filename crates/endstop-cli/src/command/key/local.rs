//! The keys of a file or a store of this machine: what `endstop key` and the control API of `endstop serve` do with them.

use std::time::Duration;

use endstop::account::{AccountLimit, AccountSet, Window};
use endstop::core::policy::Policy;
use endstop::core::units::Money;
use endstop::ledger::Dimension;
use endstop::store::{RunId, RunIdError};
use endstop_gateway::control_source::{SourceError, SourceErrorKind};
use endstop_gateway::{
    Key, KeyChangeRecord, KeyDesk, KeyHash, KeyList, KeyReason, KeyRecord, KeyRuns, KeySettings,
    NewKey, RunsOfKey, ShownKey, new_key,
};
use jiff::Timestamp;

use super::super::limits::usd;
use super::{ALL, NEVER, NONE};
use crate::budgets::{Budgets, OpenBudgets, check_limit, is_name};
use crate::duration::span;
use crate::error::CliError;
use crate::keys::{KeyAct, KeyFile, KeyPlace, StoredKey, UnreadKey};
use crate::who::acting;

/// The budgets that a key may name.
#[derive(Debug)]
enum KnownBudgets {
    /// The budgets of the configuration file and of a policy.
    Defined(Policy),
    /// The budgets of a gateway, as they are now.
    Open(OpenBudgets),
}

/// The keys of a place.
#[derive(Debug)]
pub(in crate::command) struct LocalKeys {
    place: KeyPlace,
    budgets: KnownBudgets,
}

impl LocalKeys {
    /// For a command: the gateways know the budgets of this policy.
    pub(in crate::command) const fn new(place: KeyPlace, policy: Policy) -> Self {
        Self { place, budgets: KnownBudgets::Defined(policy) }
    }

    /// For a gateway: it knows what its flags define too.
    pub(in crate::command) const fn of_gateway(place: KeyPlace, budgets: OpenBudgets) -> Self {
        Self { place, budgets: KnownBudgets::Open(budgets) }
    }

    /// The budgets that a key may name now.
    fn budgets(&self) -> Result<AccountSet, SourceError> {
        match &self.budgets {
            KnownBudgets::Defined(policy) => {
                Budgets::of(policy, &[]).map(|budgets| budgets.set).map_err(invalid)
            }
            KnownBudgets::Open(budgets) => Ok(budgets.tables()),
        }
    }

    /// Changes one key, and returns it as it is from then on.
    fn change(
        &self,
        act: KeyAct,
        change: impl FnMut(&mut KeyFile) -> Result<StoredKey, SourceError>,
    ) -> Result<KeyRecord, SourceError> {
        let mut changed = self.place.change(&act, change)?;
        changed.changed = Some(act);
        Ok(record(&changed, self.place.now()))
    }
}

impl KeyDesk for LocalKeys {
    fn list(&self) -> Result<KeyList, SourceError> {
        // In this order: to read the keys is to hear of the time.
        let (file, now) = (self.place.read()?, self.place.now());
        let known = file.stored().map(|key| record(key, now));
        Ok(KeyList { keys: known.chain(file.unread().map(unread)).collect() })
    }

    fn issue(&self, new: &NewKey) -> Result<ShownKey, SourceError> {
        let name = &new.name;
        let wrong =
            |error: RunIdError| CliError::new(format!("`{name}` cannot name a key: {error}"));
        // A `*` in it would stand for any text.
        let run = RunId::parse(name).map_err(wrong).map_err(invalid)?;
        let runs = match new.runs {
            RunsOfKey::One => KeyRuns::One(run),
            RunsOfKey::Many => {
                format!("{name}-*").parse::<KeyRuns>().map_err(wrong).map_err(invalid)?
            }
        };
        let (budgets, mut limits) = budgets_and_limits(&new.budgets)?;
        limits.extend(new.usd.as_deref().map(dollars).transpose()?.map(in_all));
        let (key, now) = (new_key(), self.place.ask_now()?);
        let stored = StoredKey {
            name: name.clone(),
            hash: KeyHash::of(&Key::new(key.as_str())),
            runs,
            budgets,
            limits,
            models: new.models.clone(),
            created: now,
            expires: new.expires.as_deref().map(|text| expiry(now, text)).transpose()?,
            revoked: None,
            changed: None,
        };
        // Whether its budgets are defined.
        stored.check_budgets(&self.budgets()?).map_err(invalid)?;
        let act = act(now, new.by.as_ref(), new.message.as_ref());
        let issued = self.change(act, |file| {
            if file.find(name).is_some() || file.unread().any(|key| key.name == *name) {
                return Err(conflict(format!("the key `{name}` exists"))
                    .with_hint(format!("replace it: endstop key rotate {name}")));
            }
            file.push(stored.clone());
            Ok(stored.clone())
        })?;
        Ok(ShownKey { key, issued })
    }

    fn set(&self, name: &str, settings: &KeySettings) -> Result<KeyRecord, SourceError> {
        let KeySettings { budgets: named, models, .. } = settings;
        let is_empty = named.is_empty() && models.is_empty();
        if is_empty && settings.usd.is_none() && settings.expires.is_none() {
            return Err(unusable("nothing to change")
                .with_hint("give `budgets`, `usd`, `models` or `expires`"));
        }
        if named.len() > 1 && named.iter().any(|text| text == NONE) {
            return Err(unusable("`budgets`: `none` stands alone"));
        }
        let is_none = *named == [NONE];
        let drawn: &[String] = if is_none { &[] } else { named };
        let (budgets, limits) = budgets_and_limits(drawn)?;
        let replaces_in_all = is_none || limits.iter().any(|limit| is_in_all(limit));
        // `None` leaves it as it was.
        let usd = match settings.usd.as_deref() {
            None => None,
            Some(NONE) => Some(None),
            Some(text) => Some(Some(dollars(text)?)),
        };
        let now = self.place.ask_now()?;
        let expires = match settings.expires.as_deref() {
            None => None,
            Some(NEVER) => Some(None),
            Some(text) => Some(Some(expiry(now, text)?)),
        };
        let defined = self.budgets()?;
        let act = act(now, settings.by.as_ref(), settings.message.as_ref());
        self.change(act, |file| {
            let key = found(file, name)?;
            refuse_revoked(key)?;
            let (in_all_before, mut others): (Vec<String>, Vec<String>) =
                key.limits.iter().cloned().partition(|limit| is_in_all(limit));
            // A budget that it keeps may be one of a policy that is not named here.
            let mut checked = StoredKey { budgets: budgets.clone(), ..key.clone() };
            if !named.is_empty() {
                key.budgets.clone_from(&budgets);
                others.clone_from(&limits);
            }
            others.extend(match usd {
                None if replaces_in_all => Vec::new(),
                None => in_all_before,
                Some(None) => Vec::new(),
                Some(Some(usd)) => vec![in_all(usd)],
            });
            checked.limits.clone_from(&others);
            checked.check_budgets(&defined).map_err(invalid)?;
            key.limits = others;
            if !models.is_empty() {
                key.models = if *models == [ALL] { Vec::new() } else { models.clone() };
            }
            key.expires = expires.unwrap_or(key.expires);
            Ok(key.clone())
        })
    }

    fn revoke(&self, name: &str, reason: &KeyReason) -> Result<KeyRecord, SourceError> {
        let now = self.place.ask_now()?;
        self.change(act(now, reason.by.as_ref(), reason.message.as_ref()), |file| {
            let key = found(file, name)?;
            if key.revoked.is_some() {
                return Err(conflict(format!("the key `{name}` is revoked already")));
            }
            key.revoked = Some(now);
            Ok(key.clone())
        })
    }

    fn rotate(&self, name: &str, reason: &KeyReason) -> Result<ShownKey, SourceError> {
        let (new, now) = (new_key(), self.place.ask_now()?);
        let act = act(now, reason.by.as_ref(), reason.message.as_ref());
        let issued = self.change(act, |file| {
            let key = found(file, name)?;
            refuse_revoked(key)?;
            if status(key, now) == "expired" {
                return Err(conflict(format!("the key `{name}` has expired"))
                    .with_hint("issue one with another name: endstop key new NAME"));
            }
            key.hash = KeyHash::of(&Key::new(new.as_str()));
            key.created = now;
            Ok(key.clone())
        })?;
        Ok(ShownKey { key: new, issued })
    }
}

fn invalid(error: CliError) -> SourceError {
    error.into_source(SourceErrorKind::Unusable)
}

fn unusable(error: impl Into<String>) -> SourceError {
    SourceError::new(SourceErrorKind::Unusable, error)
}

fn conflict(error: String) -> SourceError {
    SourceError::new(SourceErrorKind::Refused, error)
}

fn act(at: Timestamp, by: Option<&String>, why: Option<&String>) -> KeyAct {
    let by = acting(by.map(String::as_str)).to_owned();
    KeyAct { at, by, why: why.cloned().unwrap_or_default() }
}

fn found<'f>(file: &'f mut KeyFile, name: &str) -> Result<&'f mut StoredKey, SourceError> {
    let unread = file.unread().find(|key| key.name == name).map(|key| key.why.clone());
    if let Some(why) = unread {
        return Err(conflict(format!("the key `{name}` cannot be read: {why}"))
            .with_hint("change it with the version of Endstop that wrote it"));
    }
    file.find(name).ok_or_else(|| {
        SourceError::new(SourceErrorKind::Unknown, format!("no key `{name}`"))
            .with_hint("`endstop key list` lists them")
    })
}

fn refuse_revoked(key: &StoredKey) -> Result<(), SourceError> {
    if key.revoked.is_none() {
        return Ok(());
    }
    Err(conflict(format!("the key `{}` is revoked", key.name))
        .with_hint("issue one with another name: endstop key new NAME"))
}

/// The budgets by name and the limits of some values of `budgets`.
fn budgets_and_limits(texts: &[String]) -> Result<(Vec<String>, Vec<String>), SourceError> {
    let (budgets, limits): (Vec<String>, Vec<String>) =
        texts.iter().cloned().partition(|text| is_name(text));
    limits.iter().try_for_each(|limit| check_limit("`budgets`", limit)).map_err(invalid)?;
    Ok((budgets, limits))
}

fn dollars(text: &str) -> Result<Money, SourceError> {
    usd(text).map_err(|why| unusable(format!("`usd`: {why}")))
}

/// The limit of `usd`.
fn in_all(usd: Money) -> String {
    format!("${}", usd.to_decimal())
}

/// Whether a limit is one of `usd`.
fn is_in_all(limit: &str) -> bool {
    let read = limit.parse::<AccountLimit>();
    read.is_ok_and(|it| it.dimension == Dimension::Cost && it.window == Window::Ever)
}

fn expiry(now: Timestamp, text: &str) -> Result<Timestamp, SourceError> {
    let wrong = |why: &str| unusable(format!("`expires`: {why}"));
    let span: Duration = span(text).map_err(|why| wrong(&why))?;
    let at = now.checked_add(span).map_err(|_| wrong("that is too long"))?;
    if at <= now {
        return Err(wrong("the key would have expired already")
            .with_hint("write how long it is valid, such as `90d`"));
    }
    Ok(at)
}

/// Without the hash, which no reader needs.
fn record(key: &StoredKey, now: Timestamp) -> KeyRecord {
    KeyRecord {
        name: key.name.clone(),
        status: status(key, now).to_owned(),
        runs: key.runs.to_string(),
        budgets: key.budgets.clone(),
        limits: key.limits.clone(),
        models: key.models.clone(),
        created: key.created.to_string(),
        expires: key.expires.map(|time| time.to_string()),
        revoked: key.revoked.map(|time| time.to_string()),
        changed: key.changed.as_ref().map(|act| KeyChangeRecord {
            at: act.at.to_string(),
            by: act.by.clone(),
            why: act.why.clone(),
        }),
    }
}

fn unread(key: &UnreadKey) -> KeyRecord {
    let (name, status) = (key.name.clone(), "unread".to_owned());
    KeyRecord { name, status, ..KeyRecord::default() }
}

fn status(key: &StoredKey, now: Timestamp) -> &'static str {
    match (key.revoked, key.expires) {
        (Some(_), _) => "revoked",
        (None, Some(expires)) if expires <= now => "expired",
        (None, _) => "valid",
    }
}
