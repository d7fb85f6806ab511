//! The state of budgets and corrections of them, for the command and for the control API of `endstop serve`.

use endstop::account::{
    Account, AccountLimit, AccountSet, AccountState, Adjustment, BudgetStore, BudgetStoreError,
    LimitState, PastAdjustment, Window,
};
use endstop::core::units::Money;
use endstop::ledger::{Amounts, Dimension};
use endstop::store::RunId;
use endstop_gateway::control_source::{
    BudgetAmount, BudgetCorrection, BudgetList, BudgetReport, CorrectedAmounts, CorrectedBudgets,
    CorrectionRequest, LimitReport, SourceError, SourceErrorKind,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::budgets::{store_error, unknown};
use crate::limits::MAX_LISTED_ADJUSTMENTS;
use crate::output;
use crate::who::acting;

/// The budget of a name, or all.
///
/// # Errors
/// Returns an error if there is none of the name.
pub(in crate::command) fn named<'s>(
    set: &'s AccountSet,
    name: Option<&str>,
) -> Result<Vec<&'s Account>, SourceError> {
    match name {
        Some(name) => Ok(vec![find(set, name)?]),
        None => Ok(set.iter().collect()),
    }
}

fn find<'s>(set: &'s AccountSet, name: &str) -> Result<&'s Account, SourceError> {
    set.get(name).ok_or_else(|| unknown(name, set).into_source(SourceErrorKind::Unknown))
}

/// Reads the state of budgets.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub(in crate::command) fn list(
    set: &AccountSet,
    accounts: &[&Account],
    store: &dyn BudgetStore,
) -> Result<BudgetList, SourceError> {
    reports(set, accounts, store).map(BudgetList::new)
}

fn reports(
    set: &AccountSet,
    accounts: &[&Account],
    store: &dyn BudgetStore,
) -> Result<Vec<BudgetReport>, SourceError> {
    let states = store.read(accounts).map_err(|error| failed(&error))?;
    let mut reports = Vec::with_capacity(states.len());
    for (state, account) in states.iter().zip(accounts) {
        let past = store.adjustments(&account.name, MAX_LISTED_ADJUSTMENTS);
        reports.push(report(state, account, set, &past.map_err(|error| failed(&error))?));
    }
    Ok(reports)
}

/// A correction that can be made.
#[derive(Debug)]
pub(in crate::command) struct PlannedCorrection<'s> {
    account: &'s Account,
    parents: Vec<&'s Account>,
    /// Whether the amounts are taken from the spend.
    is_return: bool,
    amounts: Amounts,
    why: &'s str,
    who: &'s str,
    /// The same id counts once.
    id: String,
}

impl<'s> PlannedCorrection<'s> {
    /// Reads a request.
    ///
    /// # Errors
    /// Returns an error if there is no such budget, the amount cannot be read, or there is no reason.
    pub(in crate::command) fn read(
        set: &'s AccountSet,
        name: &str,
        request: &'s CorrectionRequest,
    ) -> Result<Self, SourceError> {
        let account = find(set, name)?;
        let (is_return, amounts) = signed(&request.amount)?;
        if request.message.trim().is_empty() {
            return Err(unusable("the reason is empty")
                .with_hint("say why, for the record, such as `spent on another machine`"));
        }
        Ok(Self {
            account,
            parents: set.parents(account),
            is_return,
            amounts,
            why: &request.message,
            who: acting(request.by.as_deref()),
            id: request.id.clone().unwrap_or_else(|| RunId::new().to_string()),
        })
    }

    /// Makes the correction, and reads the budget and those above it. If they cannot be read, a note says so.
    ///
    /// # Errors
    /// Returns an error if the store cannot be used, or has spent less than is taken back. Nothing is corrected then, unless the
    /// answer of a store on a server was lost: a repetition with the same id counts once.
    pub(in crate::command) fn apply(
        &self,
        set: &AccountSet,
        store: &dyn BudgetStore,
    ) -> Result<CorrectedBudgets, SourceError> {
        let Self { account, is_return, amounts, why, who, .. } = *self;
        let parents = self.parents.as_slice();
        let all: Vec<&Account> = [account].into_iter().chain(parents.iter().copied()).collect();
        let before = store.read(&all).map_err(|error| failed(&error))?;
        let (spent, returned) =
            if is_return { (Amounts::ZERO, amounts) } else { (amounts, Amounts::ZERO) };
        let adjustment = Adjustment { id: &self.id, account, parents, spent, returned, who, why };
        store.adjust(&adjustment).map_err(|error| failed(&error))?;
        let mut notes = without_limit(&before, &amounts);
        if is_return {
            notes.extend(without_spend(&before, &amounts));
        }
        // An error would invite a client to make it again.
        let budgets = reports(set, &all, store).unwrap_or_else(|error| {
            notes.push(format!(
                "the correction is made, and the budgets cannot be read now: {}",
                error.message
            ));
            Vec::new()
        });
        Ok(CorrectedBudgets::new(budgets, notes))
    }
}

/// The refusal to take back more than a budget has spent.
fn not_spent(name: &str, dimension: Dimension, asked: u64, most: u64) -> SourceError {
    let (asked, most) = (shown(dimension, asked), shown(dimension, most));
    let error = format!(
        "{asked} cannot be taken back: budget {name} has spent {most} in its current windows"
    );
    SourceError::new(SourceErrorKind::Refused, error).with_hint(format!("take back at most {most}"))
}

/// Reads an amount with its sign; whether it is taken from the spend.
fn signed(text: &str) -> Result<(bool, Amounts), SourceError> {
    let (is_return, amount) = match text.split_at_checked(1) {
        Some(("-", amount)) => (Some(true), amount),
        Some(("+", amount)) => (Some(false), amount),
        _ => (None, text),
    };
    let amounts = amounts_of(amount).ok_or_else(|| {
        unusable(format!("`{text}` is not an amount"))
            .with_hint("write `+1.50` or `-1.50` for dollars, `+2M tokens` or `-5 steps`")
    })?;
    let is_return = is_return.ok_or_else(|| {
        let bare = text.trim_start_matches('$');
        unusable(format!("`{text}` has no sign"))
            .with_hint(format!("write `+{bare}` to add to the spend, or `-{bare}` to take from it"))
    })?;
    Ok((is_return, amounts))
}

/// Reads dollars without a unit, or a number of tokens or steps.
fn amounts_of(text: &str) -> Option<Amounts> {
    if !text.contains(' ') {
        return Some(Amounts { cost: text.parse().ok()?, ..Amounts::ZERO });
    }
    let limit: AccountLimit = text.parse().ok()?;
    match (limit.dimension, limit.window) {
        (Dimension::Tokens, Window::Ever) => {
            Some(Amounts { tokens: limit.amount, ..Amounts::ZERO })
        }
        (Dimension::Steps, Window::Ever) => Some(Amounts { steps: limit.amount, ..Amounts::ZERO }),
        _ => None,
    }
}

/// The units of amounts that are not zero.
fn units_of(amounts: &Amounts) -> impl Iterator<Item = Dimension> {
    let all = [Dimension::Cost, Dimension::Tokens, Dimension::Steps];
    all.into_iter().filter(move |dimension| amounts.get(*dimension) > 0)
}

/// Notes of a correction in a unit that no limit counts.
fn without_limit(states: &[AccountState], amounts: &Amounts) -> Vec<String> {
    let is_uncounted = |dimension: &Dimension| {
        let mut limits = states.iter().flat_map(|state| &state.limits);
        !limits.any(|limit| limit.limit.dimension == *dimension)
    };
    let notes = units_of(amounts).filter(is_uncounted).map(|dimension| {
        let unit = if dimension == Dimension::Cost { "dollars" } else { dimension.name() };
        format!("no limit counts {unit}: the correction shows in the list of corrections only")
    });
    notes.collect()
}

/// Notes of the limits that had spent less than the returned amount: no counter falls below zero.
fn without_spend(before: &[AccountState], amounts: &Amounts) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, state) in before.iter().enumerate() {
        // The first is the budget that was named, and the others are above it.
        let name = if at == 0 { String::new() } else { format!("budget {}, ", state.account) };
        for limit in &state.limits {
            let dimension = limit.limit.dimension;
            let amount = amounts.get(dimension);
            if limit.settled < amount {
                notes.push(format!(
                    "{name}{}: only {} was spent, so {} of {} were not taken back",
                    limit.limit,
                    shown(dimension, limit.settled),
                    shown(dimension, amount - limit.settled),
                    shown(dimension, amount)
                ));
            }
        }
    }
    notes
}

fn failed(error: &BudgetStoreError) -> SourceError {
    let kind = match error {
        BudgetStoreError::NotSpent { account, dimension, asked, most } => {
            return not_spent(account, *dimension, *asked, *most);
        }
        BudgetStoreError::Id(_) => SourceErrorKind::Unusable,
        BudgetStoreError::Away { .. } => SourceErrorKind::Away,
        _ => SourceErrorKind::Failed,
    };
    store_error(error).into_source(kind)
}

fn unusable(message: impl Into<String>) -> SourceError {
    SourceError::new(SourceErrorKind::Unusable, message)
}

fn report(
    state: &AccountState,
    account: &Account,
    set: &AccountSet,
    past: &[PastAdjustment],
) -> BudgetReport {
    BudgetReport {
        name: state.account.clone(),
        parents: set.parents(account).iter().map(|parent| parent.name.clone()).collect(),
        limits: state.limits.iter().map(limit_report).collect(),
        adjustments: past.iter().map(|it| correction(it, &account.zone)).collect(),
        clock_behind_s: state.clock_behind.as_secs(),
    }
}

fn limit_report(limit: &LimitState) -> LimitReport {
    let dimension = limit.limit.dimension;
    let amount = |amount| match dimension {
        Dimension::Cost => BudgetAmount::Usd(Money::from_picos(amount).to_decimal()),
        _ => BudgetAmount::Count(amount),
    };
    let unit = if dimension == Dimension::Cost { "usd" } else { dimension.name() };
    LimitReport {
        limit: limit.limit.to_string(),
        unit: unit.to_owned(),
        amount: amount(limit.limit.amount),
        spent: amount(limit.settled),
        unconfirmed: amount(limit.unconfirmed),
        held: amount(limit.held),
        left: amount(limit.left()),
        resets_at_ms: limit.resets_at.map(|at| at.0),
        resets_at: limit.resets_text.clone(),
    }
}

fn correction(past: &PastAdjustment, zone: &TimeZone) -> BudgetCorrection {
    let amounts = |amounts: &Amounts| CorrectedAmounts {
        usd: amounts.cost.to_decimal(),
        tokens: amounts.tokens,
        steps: amounts.steps,
    };
    BudgetCorrection {
        at_ms: past.at.0,
        at: time_of(past, zone),
        spent: amounts(&past.spent),
        returned: amounts(&past.returned),
        who: past.who.clone(),
        why: past.why.clone(),
    }
}

/// The time of a correction in the time zone of its budget.
fn time_of(correction: &PastAdjustment, zone: &TimeZone) -> Option<String> {
    let at = Timestamp::from_millisecond(i64::try_from(correction.at.0).ok()?).ok()?;
    Some(at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %Z").to_string())
}

fn shown(dimension: Dimension, amount: u64) -> String {
    match dimension {
        Dimension::Cost => output::money(Money::from_picos(amount)),
        Dimension::Tokens => output::short(amount),
        _ => output::count(amount),
    }
}

#[cfg(test)]
mod tests;
