//! The cost of a model call: its upper bound in advance, and the exact cost once its usage is known.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use endstop_core::policy::OnUnpriced;
use endstop_core::units::{Cost, Money, TokenUsage, WallTime};

use endstop_price::{
    CallContext, ModelPrice, PriceTable, RESELLER, RatesInForce, ReportedUsage, Unit, UsageCounts,
};

use crate::limits::{LARGEST_WINDOW, MAX_RESPONDED_MODELS, MAX_RESPONDED_NAME};

/// Content of a call other than text, which models may charge at other rates.
///
/// ```
/// use endstop_price::PriceTable;
/// use endstop_runtime::{Modalities, Pricing};
///
/// let pricing = Pricing::new("anthropic", "claude-sonnet-4-5", PriceTable::embedded());
/// let speech = Modalities { audio_output: true, ..Modalities::default() };
/// assert!(!pricing.has_output_rates(speech), "the cost of such a reply is not known");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modalities {
    /// The request has images, recordings or files.
    pub media_input: bool,
    /// Speech may be answered.
    pub audio_output: bool,
    /// Images may be answered.
    pub image_output: bool,
}

/// Units of input that is not text.
const MEDIA_INPUT: [&str; 3] = ["input_audio_tokens", "input_image_tokens", "input_video_tokens"];
const AUDIO_OUTPUT: &str = "output_audio_tokens";
const IMAGE_OUTPUT: &str = "output_image_tokens";

impl Modalities {
    /// The units that input other than text may be charged as.
    fn input_units(self) -> &'static [&'static str] {
        if self.media_input { &MEDIA_INPUT } else { &[] }
    }

    /// The units that output other than text may be charged as.
    fn output_units(self) -> impl Iterator<Item = &'static str> + Clone {
        let audio = self.audio_output.then_some(AUDIO_OUTPUT);
        audio.into_iter().chain(self.image_output.then_some(IMAGE_OUTPUT))
    }
}

/// Prices calls of one model.
///
/// ```
/// use endstop_core::units::{Cost, TokenUsage, WallTime};
/// use endstop_price::PriceTable;
/// use endstop_runtime::Pricing;
///
/// let (at, prices) = (WallTime(1_793_534_400_000), PriceTable::embedded());
/// let usage = TokenUsage { input: 1_000, output: 100, ..TokenUsage::default() };
/// let pricing = Pricing::new("anthropic", "claude-sonnet-4-5", prices);
/// assert_eq!(pricing.cost(&usage, at), Cost::Known("0.0045".parse()?));
/// assert_eq!(Pricing::new("", "my-own-model", prices).cost(&usage, at), Cost::Unpriced);
/// # Ok::<(), endstop_core::units::MoneyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pricing {
    provider: Arc<str>,
    model: Arc<str>,
    table: &'static PriceTable,
    /// Looking up a name is slow; it is done once.
    price: Option<ModelPrice<'static>>,
    /// The prices of models that responded instead. Copies share them.
    responded: Arc<Mutex<HashMap<Box<str>, Option<ModelPrice<'static>>>>>,
    /// The properties of a request that may make it more expensive.
    asked: CallContext,
    may_write_1h: bool,
    /// Who may answer in the model's stead.
    others: Vec<Self>,
    /// Most searches that run at the provider.
    searches: u64,
    modalities: Modalities,
}

/// The tiers that a provider may choose for a request that leaves the tier to it.
const LEFT_TO_THE_PROVIDER: &str = "auto";
const DEAREST_TIER: &str = "priority";

impl Pricing {
    /// The context window that a model is assumed to have at most if its own is not known, in tokens. One listed model has more.
    pub const LARGEST_WINDOW: u64 = LARGEST_WINDOW;

    /// Returns the pricing of a model's calls; `provider` may be empty. Looks the model up, which is slow if no table has
    /// it: keep what this gives.
    #[must_use]
    pub fn new(provider: &str, model: &str, table: &'static PriceTable) -> Self {
        let named = Some(provider).filter(|name| !name.is_empty());
        let price = table.find_or_vendor(named, model);
        Self {
            provider: provider.into(),
            model: model.into(),
            table,
            price,
            responded: Arc::default(),
            asked: CallContext::default(),
            may_write_1h: false,
            others: Vec::new(),
            searches: 0,
            modalities: Modalities::default(),
        }
    }

    /// Prices a request that has, or may be answered with, more than text: its worst case is at its highest rate.
    #[must_use]
    pub const fn with_modalities(mut self, modalities: Modalities) -> Self {
        self.modalities = modalities;
        self
    }

    /// Returns whether output other than text has separate rates, by the newest prices. Without one, its cost is not
    /// known.
    #[must_use]
    pub fn has_output_rates(&self, modalities: Modalities) -> bool {
        let Some(price) = &self.price else { return false };
        let rates = price.rates(WallTime(u64::MAX), &CallContext::default());
        let has = |key: &str| rates.iter().any(|rate| rate.unit.key() == key);
        modalities.output_units().all(has)
    }

    /// Prices a request that asks for a tier or speed, or may write to a cache for an hour: an amount that is not known
    /// exactly costs the more expensive of both, with and without.
    #[must_use]
    pub fn for_request(self, asked: &CallContext, may_write_1h: bool) -> Self {
        let mut asked = asked.clone();
        if asked.service_tier.as_deref() == Some(LEFT_TO_THE_PROVIDER) {
            asked.service_tier = Some(DEAREST_TIER.to_owned());
        }
        Self { asked, may_write_1h, ..self }
    }

    /// Prices a request that one of these may answer in the model's stead. It costs at most what the most expensive
    /// of them costs; unknown if one has no price.
    #[must_use]
    pub fn or_others(self, others: Vec<Self>) -> Self {
        Self { others, ..self }
    }

    /// Prices a request with at most this many searches at the provider.
    #[must_use]
    pub fn with_searches(self, searches: u64) -> Self {
        Self { searches, ..self }
    }

    /// Returns the most tokens that a request can have, by those who may answer it; unknown if the table lacks one of
    /// them. One that is listed without its window is assumed to have [`Pricing::LARGEST_WINDOW`].
    #[must_use]
    pub fn context_window(&self) -> Option<u64> {
        let own = self.price.as_ref()?.context_window().unwrap_or(LARGEST_WINDOW);
        self.others.iter().try_fold(own, |most, other| Some(most.max(other.context_window()?)))
    }

    /// Returns the model as it was named.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the provider; empty if none was named.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns whether the table has the model.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.price.is_some()
    }

    /// The exact cost of everything that a provider counted, by the table.
    fn exact(&self, usage: &UsageCounts, at: WallTime, context: &CallContext) -> Cost {
        total(self.price.as_ref(), usage, at, context)
    }

    /// The exact cost of a report, by the table: by the price of the model that responded if that is higher, or if only
    /// that is known (`docs/semantics.md`, section 1).
    fn exact_of(
        &self,
        report: &ReportedUsage,
        responded: Option<&str>,
        at: WallTime,
        context: &CallContext,
    ) -> Cost {
        let asked = self.exact(&report.counts, at, context);
        let Some(name) = responded.filter(|name| *name != self.model()) else { return asked };
        higher(asked, total(self.price_of(name).as_ref(), &report.counts, at, context))
    }

    /// The cost of a complete report.
    pub(crate) fn cost_of_report(
        &self,
        report: &ReportedUsage,
        responded: Option<&str>,
        at: WallTime,
    ) -> Cost {
        let by_table = self.exact_of(report, responded, at, &report.context);
        self.with_report(report.billed, by_table)
    }

    /// The cost of usage that is not reported whole, by the table: at the tier that the response names, or at the
    /// requested one if that costs more.
    pub(crate) fn cost_of_half(
        &self,
        report: &ReportedUsage,
        responded: Option<&str>,
        at: WallTime,
    ) -> Cost {
        let by = |context: &CallContext| self.exact_of(report, responded, at, context);
        higher(by(&report.context), by(&self.asked))
    }

    /// The price of a model that responded: of the same provider, or of any other one if that has no such model.
    fn price_of(&self, name: &str) -> Option<ModelPrice<'static>> {
        let lock = || self.responded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(price) = lock().get(name) {
            return *price;
        }
        let provider = Some(&*self.provider).filter(|name| !name.is_empty());
        let price = self
            .table
            .find_or_vendor(provider, name)
            .or_else(|| self.table.find_or_vendor(None, name));
        if name.len() <= MAX_RESPONDED_NAME {
            let mut known = lock();
            if known.len() >= MAX_RESPONDED_MODELS {
                known.clear();
            }
            known.insert(name.into(), price);
        }
        price
    }

    /// Returns the cost of one call; the requested tier counts if it is more expensive.
    #[must_use]
    pub fn cost(&self, usage: &TokenUsage, at: WallTime) -> Cost {
        let Ok(counts) = UsageCounts::from_token_usage(usage) else { return Cost::Unpriced };
        self.offers(at, &CallContext::default()).dearest(&counts)
    }

    /// The cost of a call whose provider or upstream reports one: by the table, or as it is reported if that is more, or if it
    /// is a provider that bills by its reports (OpenRouter).
    pub(crate) fn with_report(&self, reported: Option<Money>, by_table: Cost) -> Cost {
        match (reported, by_table) {
            (Some(reported), Cost::Known(cost)) if &*self.provider != RESELLER => {
                Cost::Known(reported.max(cost))
            }
            (Some(reported), _) if &*self.provider == RESELLER => Cost::Known(reported),
            // No more is known. A report of nothing is none.
            (Some(reported), _) if reported > Money::ZERO => Cost::Known(reported),
            (_, by_table) => by_table,
        }
    }

    /// The rates that a call may be billed at: at the requested tier or without it, of any model that may respond.
    fn offers<'p>(&'p self, at: WallTime, plain: &'p CallContext) -> Offers<'p> {
        let asked = Some(&self.asked).filter(|asked| *asked != plain);
        let of_one = |one: &'p Self| Offer {
            plain: one.price.as_ref().map(|price| price.in_force(at, plain)),
            asked: one.price.as_ref().zip(asked).map(|(price, asked)| price.in_force(at, asked)),
        };
        Offers { first: of_one(self), others: self.others.iter().map(of_one).collect() }
    }

    /// The most that a call with these tokens can cost: all input uncached, or all of it written to a cache if that
    /// costs more; all of it, and all output, at the highest rate of the content and options of the request.
    pub(crate) fn worst(&self, input: u64, output: u64, at: WallTime) -> Cost {
        let plain_context = CallContext::default();
        let offers = self.offers(at, &plain_context);
        let worst = |usage: &TokenUsage, input| self.worst_output(&offers, usage, input);
        let plain = TokenUsage { input, output, ..TokenUsage::default() };
        let written = TokenUsage { input: 0, cache_write: input, ..plain };
        let written_1h = TokenUsage { input: 0, cache_write_1h: input, ..plain };
        let mut most = dearer(worst(&plain, None), worst(&written, None));
        if self.may_write_1h {
            most = dearer(most, worst(&written_1h, None));
        }
        let units = self.modalities.input_units().iter();
        units.fold(most, |most, unit| dearer(most, worst(&plain, Some((unit, input)))))
    }

    /// Whether searches or output other than text can come on top of the tokens of text.
    pub(crate) fn has_more_than_text(&self) -> bool {
        self.searches > 0 || self.modalities.output_units().next().is_some()
    }

    /// The most that a call can cost of which this input was reported: that, and the worst case of everything else.
    pub(crate) fn worst_beyond(
        &self,
        told: &TokenUsage,
        more_input: u64,
        output: u64,
        at: WallTime,
    ) -> Cost {
        let without_searches = Self { searches: 0, ..self.clone() };
        let input = told.total_input();
        let all = self.worst(input.saturating_add(more_input), output, at);
        let of_told = without_searches.worst(input, 0, at);
        let known = self.cost(&TokenUsage { output: 0, ..*told }, at);
        match (all, of_told, known) {
            (Cost::Known(all), Cost::Known(of_told), Cost::Known(known)) => {
                // The whole is compared, because the price of a token can depend on how many there are.
                Cost::Known(all.saturating_sub(of_told).checked_add(known).unwrap_or(all))
            }
            _ => Cost::Unpriced,
        }
    }

    /// The most for this input, with all searches, whatever the output is.
    fn worst_output(
        &self,
        offers: &Offers<'_>,
        usage: &TokenUsage,
        input: Option<(&str, u64)>,
    ) -> Cost {
        let with = |output: Option<(&str, u64)>| {
            let Ok(mut counts) = UsageCounts::from_token_usage(usage) else {
                return Cost::Unpriced;
            };
            let searches = (self.searches > 0).then_some(("web_searches", self.searches));
            for (key, count) in [searches, input, output].into_iter().flatten() {
                let set = Unit::named(key).map(|unit| counts.set(unit, count));
                if !matches!(set, Some(Ok(()))) {
                    return Cost::Unpriced;
                }
            }
            offers.dearest(&counts)
        };
        let units = self.modalities.output_units();
        units.fold(with(None), |worst, unit| dearer(worst, with(Some((unit, usage.output)))))
    }
}

/// The rates of one who may answer a call.
struct Offer<'p> {
    plain: Option<RatesInForce<'p>>,
    /// The rates of what the request asks for, if it asks for something.
    asked: Option<RatesInForce<'p>>,
}

impl Offer<'_> {
    fn dearest(&self, counts: &UsageCounts) -> Cost {
        let at = |rates: &Option<RatesInForce<'_>>| {
            let total = rates.as_ref().and_then(|rates| rates.total(counts).ok());
            total.map_or(Cost::Unpriced, Cost::Known)
        };
        dearer(at(&self.plain), at(&self.asked))
    }
}

/// The rates of everyone who may answer a call.
struct Offers<'p> {
    first: Offer<'p>,
    others: Vec<Offer<'p>>,
}

impl Offers<'_> {
    /// The highest cost of these counts; unknown if that of one is.
    fn dearest(&self, counts: &UsageCounts) -> Cost {
        let first = self.first.dearest(counts);
        self.others.iter().fold(first, |dearest, other| match (dearest, other.dearest(counts)) {
            (Cost::Known(one), Cost::Known(other)) => Cost::Known(one.max(other)),
            _ => Cost::Unpriced,
        })
    }
}

fn total(
    price: Option<&ModelPrice<'static>>,
    usage: &UsageCounts,
    at: WallTime,
    context: &CallContext,
) -> Cost {
    let total = price.and_then(|price| price.total(usage, at, context).ok());
    total.map_or(Cost::Unpriced, Cost::Known)
}

/// The greater cost, or the one that is known.
pub(super) fn higher(one: Cost, other: Cost) -> Cost {
    match (one, other) {
        (Cost::Known(one), Cost::Known(other)) => Cost::Known(one.max(other)),
        (Cost::Unpriced, other) => other,
        (one, Cost::Unpriced) => one,
    }
}

/// The greater cost; the first if the other is not known.
fn dearer(one: Cost, other: Cost) -> Cost {
    match (one, other) {
        (Cost::Known(one), Cost::Known(other)) => Cost::Known(one.max(other)),
        (one, _) => one,
    }
}

/// The amount that the ledger holds or settles for a cost: an unknown price counts as the policy says.
pub(crate) fn amount(cost: Option<Cost>, usage: &TokenUsage, unpriced: OnUnpriced) -> Money {
    match (cost, unpriced) {
        (Some(Cost::Known(money)), _) => money,
        (Some(Cost::Unpriced), OnUnpriced::Rates(rates)) => {
            rates.cost(usage).unwrap_or(Money::from_picos(u64::MAX))
        }
        _ => Money::ZERO,
    }
}

#[cfg(test)]
mod tests;
