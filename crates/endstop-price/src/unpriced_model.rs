//! The model whose prices calls without a price have: `max_usd(2.00, model="gpt-4o")`.
//!
//! A separate file because the core knows no price table, and every driver does the same with one.

use endstop_core::Policy;
use endstop_core::policy::{FallbackRates, OnUnpriced};
use endstop_core::units::{Money, TokenUsage, WallTime};
use thiserror::Error;

use crate::{CallContext, PriceTable, UsageCounts};

/// Tokens for which a rate is read off: more than a rounding, fewer than the first tier of any list.
const SOME_TOKENS: u64 = 1_000;
const SHARE_OF_A_MILLION: u64 = 1_000_000 / SOME_TOKENS;

/// A condition names a model for calls without a price, and the price table does not have it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no price for model `{0}`, which `max_usd` names for calls without a price")]
pub struct UnknownPriceModel(String);

/// Returns the policy with the rates of the model that its `max_usd(…, model="…")` names, for calls whose price is not
/// known. A policy that says itself what such calls cost (`on_unpriced`), or names no model, stays as it is.
///
/// ```
/// use endstop_core::Policy;
/// use endstop_core::expr::parse;
/// use endstop_core::policy::OnUnpriced;
/// use endstop_price::{PriceTable, with_unpriced_model};
///
/// let policy = Policy::stop(parse(r#"max_usd(2.00, model="gpt-4o")"#)?);
/// let policy = with_unpriced_model(policy, PriceTable::embedded())?;
/// let Some(OnUnpriced::Rates(rates)) = policy.on_unpriced else { panic!("it has rates") };
/// assert_eq!((rates.input.to_string(), rates.output.to_string()), ("$2.50".into(), "$10.00".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns an error if the table has no price of the model.
pub fn with_unpriced_model(
    mut policy: Policy,
    table: &PriceTable,
) -> Result<Policy, UnknownPriceModel> {
    let named = policy.unpriced_model().map(str::to_owned);
    if let (Some(model), None) = (named, policy.on_unpriced) {
        let rates = rates_of(&model, table).ok_or(UnknownPriceModel(model))?;
        policy.on_unpriced = Some(OnUnpriced::Rates(rates));
    }
    Ok(policy)
}

/// The latest rates of a model: a policy has no time.
fn rates_of(model: &str, table: &PriceTable) -> Option<FallbackRates> {
    let price = match model.split_once('/') {
        Some((provider, name)) => {
            table.find(Some(provider), name).or_else(|| table.find(None, model))
        }
        None => table.find(None, model),
    }?;
    let rate = |usage: TokenUsage| {
        let usage = UsageCounts::from_token_usage(&usage).ok()?;
        let total = price.total(&usage, WallTime(u64::MAX), &CallContext::default()).ok()?;
        total.picos().checked_mul(SHARE_OF_A_MILLION).map(Money::from_picos)
    };
    let (input, output) = (
        TokenUsage { input: SOME_TOKENS, ..TokenUsage::default() },
        TokenUsage { output: SOME_TOKENS, ..TokenUsage::default() },
    );
    Some(FallbackRates { input: rate(input)?, output: rate(output)? })
}
