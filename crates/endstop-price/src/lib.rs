//! Exact prices of model calls, from the usage that a provider reports.
//!
//! A price in floating point is off by a little on every call, and a model that is not in the table is often taken for
//! free. Here money is an exact integer, and a model without a price is unknown, which is never zero.
//!
//! ```
//! use endstop_core::units::{TokenUsage, WallTime};
//! use endstop_price::{CallContext, PriceTable, UsageCounts};
//!
//! let model = PriceTable::embedded().find(Some("anthropic"), "claude-sonnet-4-5").unwrap();
//! let tokens = TokenUsage { input: 1_000, cache_read: 9_000, output: 500, ..TokenUsage::default() };
//! let usage = UsageCounts::from_token_usage(&tokens).unwrap();
//! let at = WallTime(1_793_534_400_000);
//! let priced = model.price(&usage, at, &CallContext::default()).unwrap();
//! assert_eq!(priced.total.to_string(), "$0.0132");
//! ```
//!
//! Start with [`PriceTable`], [`UsageCounts`] and [`Priced`]. [`read_response`] reads the usage of a provider's response.
//!
//! The embedded table is the data of the `genai-prices` package (MIT). Its version, license and the digest of the
//! package are in `data/`; `cargo xtask prices` writes them. Nothing is fetched at run time.
//!
//! # Arithmetic
//!
//! A rate is an integer of 10⁻¹⁸ USD, read from its decimal text. Count × rate / per is an integer number of
//! 1 / (9 × 10²⁷) USD for every unit of the registry, so lines and sums are exact in any order. Each call is rounded up
//! once to a pico-dollar.
//!
//! # Where next
//!
//! `endstop price` is the command for one call. The crate `endstop-runtime` reserves and settles with these prices. The
//! minimum Rust version is 1.95.

mod amount;
mod calculate;
mod clause;
mod cost_is;
mod decimal;
mod extract;
mod file;
mod limits;
mod lookup;
mod rates;
mod reported_usage;
mod shape;
mod unit;
mod unpriced_model;
mod usage;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;

pub use amount::ExactUsd;
pub use calculate::{Line, ListedRate, ModelPrice, PriceError, Priced, RatesInForce, UnitRate};
pub use cost_is::CostIs;
pub use decimal::DecimalError;
pub use file::{PriceFileError, PriceProblem};
pub use limits::{MAX_COUNT, TOOL_INSTRUCTION_TOKENS};
pub use lookup::RESELLER;
pub use reported_usage::ReportedUsage;
pub use shape::{
    UsageShape, context_of, detect_shape, model_of, read_response, read_usage, usage_of,
};
pub use unit::{Unit, UnitsError};
pub use unpriced_model::{UnknownPriceModel, with_unpriced_model};
pub use usage::{UsageCounts, UsageError, billed_cost};

use clause::Clause;
use extract::Extractor;
use rates::Schedule;
use unit::Units;

/// The data that ships, as written by `cargo xtask prices`.
const DATA: &[u8] = include_bytes!("../data/genai-prices.json.gz");

/// A list of providers with the prices of their models.
///
/// ```
/// use endstop_core::units::{TokenUsage, WallTime};
/// use endstop_price::{CallContext, PriceTable, UsageCounts};
///
/// // Prices of your own; [`PriceTable::embedded`] has those of the providers.
/// let table = PriceTable::from_json(
///     r#"{"version":"ours 1","providers":[{"id":"lab","models":[{"id":"small",
///         "match":{"equals":"small"},"prices":{"input_mtok":1,"output_mtok":4}}]}]}"#,
/// )?;
/// let model = table.find(Some("lab"), "small").unwrap();
/// let tokens = TokenUsage { input: 1_000, output: 500, ..TokenUsage::default() };
/// let usage = UsageCounts::from_token_usage(&tokens)?;
/// let priced = model.price(&usage, WallTime(0), &CallContext::default())?;
/// let parts = (priced.input.to_string(), priced.output.to_string());
/// assert_eq!(parts, ("$0.001".to_owned(), "$0.002".to_owned()));
/// assert_eq!(priced.total.to_string(), "$0.003");
/// assert!(table.find(Some("lab"), "large").is_none(), "unknown, and never free");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PriceTable(Origin);

/// Where a table comes from.
#[derive(Debug)]
enum Origin {
    /// It ships, and is decoded when something in it is first looked up.
    Shipped,
    /// It was read.
    Read(List),
}

/// The contents of a table.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct List {
    version: String,
    providers: Vec<Provider>,
}

/// One provider's price list, and how to read its responses.
#[derive(Debug, PartialEq)]
pub(crate) struct Provider {
    id: String,
    provider_match: Option<Clause>,
    model_match: Option<Clause>,
    /// Other providers whose models it offers at their price.
    fallbacks: Vec<String>,
    extractors: Vec<Extractor>,
    models: Vec<Model>,
}

/// One model of a provider.
#[derive(Debug, PartialEq)]
pub(crate) struct Model {
    id: String,
    clause: Clause,
    context_window: Option<u64>,
    /// The least duration that is billed.
    min_audio_millis: Option<u64>,
    schedule: Schedule,
}

/// The kind of request of a call, if that changes its price. Values are those of the provider, compared exactly:
/// `processing` `batch`, `service_tier` `flex` or `priority`, `speed` `fast`.
///
/// ```
/// use endstop_core::units::{TokenUsage, WallTime};
/// use endstop_price::{CallContext, PriceTable, UsageCounts};
///
/// let model = PriceTable::embedded().find(Some("anthropic"), "claude-haiku-4-5").unwrap();
/// let usage = UsageCounts::from_token_usage(&TokenUsage { input: 1_000, ..TokenUsage::default() })?;
/// let at = WallTime(1_793_534_400_000);
/// let batch = CallContext { processing: Some("batch".to_owned()), ..CallContext::default() };
/// let whole = model.total(&usage, at, &CallContext::default())?;
/// assert!(model.total(&usage, at, &batch)? < whole);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallContext {
    /// The kind of processing, for example `batch`.
    pub processing: Option<String>,
    /// The service tier that the *response* names.
    pub service_tier: Option<String>,
    /// The requested speed.
    pub speed: Option<String>,
    /// Anything else that the table distinguishes, such as `search_type`.
    pub other: BTreeMap<String, String>,
}

impl CallContext {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn get(&self, key: &str) -> Option<&String> {
        match key {
            "processing" => self.processing.as_ref(),
            "service_tier" => self.service_tier.as_ref(),
            "speed" => self.speed.as_ref(),
            _ => self.other.get(key),
        }
    }
}

/// The data that ships, read once.
#[derive(Default)]
struct Embedded {
    units: Units,
    list: List,
}

static EMBEDDED: LazyLock<Embedded> = LazyLock::new(|| {
    let mut text = String::new();
    let unpacked = GzDecoder::new(DATA).read_to_string(&mut text);
    match unpacked.map(|_| read_embedded(&text)) {
        Ok(Ok(embedded)) => embedded,
        // An empty table would make every model free under `on_unpriced = "ignore"`.
        other => {
            unreachable!("the prices that ship with the crate are readable: {:?}", other.err())
        }
    }
});

fn read_embedded(text: &str) -> Result<Embedded, PriceFileError> {
    let mut file = file::parse(text)?;
    let units = Units::new(file.units.take().unwrap_or_default())?;
    let list = file::resolve(file, &units, false)?;
    Ok(Embedded { units, list })
}

/// The registry of units. It always comes from the data that ships.
fn units() -> &'static Units {
    &EMBEDDED.units
}

/// An empty table: no model is known.
impl Default for PriceTable {
    fn default() -> Self {
        Self(Origin::Read(List::default()))
    }
}

/// Tables that hold the same are equal, wherever they come from.
impl PartialEq for PriceTable {
    fn eq(&self, other: &Self) -> bool {
        self.list() == other.list()
    }
}

impl PriceTable {
    /// Returns the table that ships. Decoding it takes some milliseconds, and happens when something in it is first
    /// looked up.
    #[must_use]
    pub const fn embedded() -> &'static Self {
        static SHIPPED: PriceTable = PriceTable(Origin::Shipped);
        &SHIPPED
    }

    fn list(&self) -> &List {
        match &self.0 {
            Origin::Shipped => &EMBEDDED.list,
            Origin::Read(list) => list,
        }
    }

    /// Reads a price file in the JSON form of the genai-prices data: an object with `version` and
    /// `providers`, or the list of providers alone. Units are those of the table that ships.
    ///
    /// # Errors
    ///
    /// Returns [`PriceFileError`], with line and column, or with provider and model.
    pub fn from_json(text: &str) -> Result<Self, PriceFileError> {
        let list = file::resolve(file::parse(text)?, units(), true)?;
        Ok(Self(Origin::Read(list)))
    }

    /// Returns the data's name and version, for example `genai-prices 0.2.3`. Belongs into every trace: prices
    /// change.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.list().version
    }

    /// Returns all models as (provider, model), in the order of the table.
    pub fn models(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list().providers.iter().flat_map(|provider| {
            provider.models.iter().map(|model| (provider.id.as_str(), model.id.as_str()))
        })
    }

    /// Returns all providers, in the order of the table.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.list().providers.iter().map(|provider| provider.id.as_str())
    }
}

#[cfg(test)]
mod tests;
