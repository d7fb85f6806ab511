//! Prices of models, looked up once: the look-up of a name that no table has is slow.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use endstop_price::PriceTable;
use endstop_runtime::Pricing;

use crate::limits::{MAX_CACHED_MODELS, MAX_CACHED_NAME};

/// Prices by provider and model.
#[derive(Debug)]
pub(crate) struct Prices {
    table: &'static PriceTable,
    known: Mutex<HashMap<&'static str, HashMap<String, Pricing>>>,
}

impl Prices {
    pub(crate) fn new(table: &'static PriceTable) -> Self {
        Self { table, known: Mutex::default() }
    }

    /// Returns the prices of a model of a provider, or of any other provider if that one has no such model.
    pub(crate) fn of(&self, provider: &'static str, model: &str) -> Pricing {
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(pricing) = known.get(provider).and_then(|models| models.get(model)) {
                return pricing.clone();
            }
        }
        let pricing = self.look_up(provider, model);
        if model.len() <= MAX_CACHED_NAME {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let models = known.entry(provider).or_default();
            if models.len() >= MAX_CACHED_MODELS {
                models.clear();
            }
            models.insert(model.to_owned(), pricing.clone());
        }
        pricing
    }

    fn look_up(&self, provider: &'static str, model: &str) -> Pricing {
        let of_provider = Pricing::new(provider, model, self.table);
        if of_provider.is_known() || provider.is_empty() {
            return of_provider;
        }
        let of_any = Pricing::new("", model, self.table);
        if of_any.is_known() { of_any } else { of_provider }
    }
}
