//! Reading a price file: the JSON form of the genai-prices data.
//!
//! Rates may be JSON numbers or decimal text; either way their digits are read as written, never as floats.

use std::collections::BTreeMap;

use endstop_core::units::WallTime;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use super::calculate::RATE_DECIMALS;
use super::clause::Clause;
use super::decimal::{self, Beyond, DecimalError};
use super::extract::{FileExtractor, UnknownUnit};
use super::rates::{Period, Rate, RateSet, Schedule, Tier, Variant, lay_over};
use super::unit::{FileUnit, Unit, UnitRow, Units, UnitsError};
use super::{List, Model, Provider};

/// The version of a file that names none.
const NO_VERSION: &str = "unversioned price file";

/// The least that Groq bills of an audio file, in milliseconds, and for which models. A rule of the data's
/// own library that the data does not carry.
const MIN_AUDIO: (&str, [&str; 2], u64) =
    ("groq", ["whisper-large-v3", "whisper-large-v3-turbo"], 10_000);

/// Why a price file cannot be used.
#[derive(Debug, Error)]
pub enum PriceFileError {
    /// Not JSON, or not of the known form; says line and column.
    #[error("not a price file: {0}")]
    Json(#[from] serde_json::Error),
    /// An empty table would make every model unknown.
    #[error("the price file names no model")]
    Empty,
    /// The units that come with the data are wrong.
    #[error(transparent)]
    Units(#[from] UnitsError),
    /// A provider is wrong as a whole.
    #[error("provider `{provider}`: {problem}")]
    Provider {
        /// The provider's id.
        provider: String,
        /// The error.
        problem: String,
    },
    /// One model is wrong.
    #[error("provider `{provider}`, model `{model}`: {problem}")]
    Model {
        /// The provider's id.
        provider: String,
        /// The model's id.
        model: String,
        /// The error.
        problem: PriceProblem,
    },
}

/// An error in a model's prices.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PriceProblem {
    /// A rate that is no exact, non-negative amount of dollars.
    #[error("`{key}` is `{text}`: {reason}")]
    Rate {
        /// The price key.
        key: String,
        /// The text of the rate.
        text: String,
        /// Why.
        reason: DecimalError,
    },
    /// A price key that no unit has: its part of a bill would be lost.
    #[error("unknown price `{0}`")]
    UnknownPrice(String),
    /// Something else than a price or tiers.
    #[error("`{key}` is neither a price nor tiers: {reason}")]
    Form {
        /// The price key.
        key: String,
        /// Why.
        reason: String,
    },
    /// Tiers out of order.
    #[error("the tiers of `{0}` are not in ascending order")]
    Tiers(String),
    /// A date or time of day that cannot be read.
    #[error("`{0}` is not a date or a UTC time of day")]
    Time(String),
    /// A regular expression that cannot be compiled.
    #[error("the regular expression `{0}` cannot be used")]
    Pattern(String),
    /// A part has a price and its whole has none.
    #[error("`{part}` has a price and `{whole}` has none")]
    NoWhole {
        /// The priced part.
        part: String,
        /// What it is a part of.
        whole: String,
    },
    /// Two priced units overlap and their common part has no price.
    #[error("`{0}` and `{1}` have prices, and their combination has none")]
    NoCommonPart(String, String),
}

#[derive(Deserialize)]
pub(crate) struct FileTable<'a> {
    version: Option<String>,
    pub(crate) units: Option<BTreeMap<String, FileUnit>>,
    #[serde(borrow)]
    providers: Vec<FileProvider<'a>>,
}

#[derive(Deserialize)]
struct FileProvider<'a> {
    id: String,
    provider_match: Option<Clause>,
    model_match: Option<Clause>,
    #[serde(default)]
    fallback_model_providers: Option<Vec<String>>,
    #[serde(default)]
    extractors: Option<Vec<FileExtractor>>,
    #[serde(borrow)]
    models: Vec<FileModel<'a>>,
}

#[derive(Deserialize)]
struct FileModel<'a> {
    id: String,
    #[serde(rename = "match")]
    clause: Clause,
    context_window: Option<u64>,
    #[serde(borrow)]
    prices: &'a RawValue,
    #[serde(borrow, default)]
    price_variants: Option<Vec<FileVariant<'a>>>,
}

type FilePrices<'a> = BTreeMap<String, &'a RawValue>;

#[derive(Deserialize)]
struct FileConditional<'a> {
    constraint: Option<FileConstraint>,
    #[serde(borrow)]
    prices: FilePrices<'a>,
}

#[derive(Deserialize)]
struct FileVariant<'a> {
    when: BTreeMap<String, String>,
    constraint: Option<FileConstraint>,
    #[serde(borrow)]
    prices: FilePrices<'a>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FileConstraint {
    Since { start_date: String },
    Daily { start_time: String, end_time: String },
}

#[derive(Deserialize)]
struct FileTiers<'a> {
    #[serde(borrow)]
    base: &'a RawValue,
    #[serde(borrow)]
    tiers: Vec<FileTier<'a>>,
}

#[derive(Deserialize)]
struct FileTier<'a> {
    start: u64,
    #[serde(borrow)]
    price: &'a RawValue,
}

/// Reads either the form that ships, an object with `providers`, or a bare list of providers.
pub(crate) fn parse(text: &str) -> Result<FileTable<'_>, PriceFileError> {
    if text.trim_start().starts_with('[') {
        let providers = serde_json::from_str(text)?;
        return Ok(FileTable { version: None, units: None, providers });
    }
    Ok(serde_json::from_str(text)?)
}

/// Resolves the parsed file. With `check`, later errors are looked for now.
pub(crate) fn resolve(
    file: FileTable<'_>,
    units: &Units,
    check: bool,
) -> Result<List, PriceFileError> {
    let mut providers = Vec::with_capacity(file.providers.len());
    for provider in file.providers {
        providers.push(resolve_provider(provider, units, check)?);
    }
    if providers.iter().all(|provider| provider.models.is_empty()) {
        return Err(PriceFileError::Empty);
    }
    Ok(List { version: file.version.unwrap_or_else(|| NO_VERSION.to_owned()), providers })
}

fn resolve_provider(
    file: FileProvider<'_>,
    units: &Units,
    check: bool,
) -> Result<Provider, PriceFileError> {
    let wrong = |problem: String| PriceFileError::Provider { provider: file.id.clone(), problem };
    let clauses = [&file.provider_match, &file.model_match];
    let bad = clauses.into_iter().flatten().find_map(|clause| clause.bad_pattern());
    if let Some(pattern) = bad.filter(|_| check) {
        return Err(wrong(PriceProblem::Pattern(pattern.to_owned()).to_string()));
    }
    let mut extractors = Vec::new();
    for extractor in file.extractors.unwrap_or_default() {
        let unknown =
            |UnknownUnit(unit)| wrong(format!("an extractor writes the unknown unit `{unit}`"));
        extractors.push(extractor.resolve(units).map_err(unknown)?);
    }
    let mut models = Vec::with_capacity(file.models.len());
    for model in file.models {
        let id = model.id.clone();
        let resolved = resolve_model(&file.id, model, units, check);
        models.push(resolved.map_err(|problem| {
            let provider = file.id.clone();
            PriceFileError::Model { provider, model: id, problem }
        })?);
    }
    Ok(Provider {
        id: file.id,
        provider_match: file.provider_match.map(Clause::lowered),
        model_match: file.model_match.map(Clause::lowered),
        fallbacks: file.fallback_model_providers.unwrap_or_default(),
        extractors,
        models,
    })
}

fn resolve_model(
    provider: &str,
    file: FileModel<'_>,
    units: &Units,
    check: bool,
) -> Result<Model, PriceProblem> {
    if let Some(pattern) = file.clause.bad_pattern().filter(|_| check) {
        return Err(PriceProblem::Pattern(pattern.to_owned()));
    }
    let mut schedule = Schedule::default();
    for conditional in conditionals(file.prices)? {
        let period = read_period(conditional.constraint)?;
        schedule.standard.push((period, read_rates(&conditional.prices, units)?));
    }
    for variant in file.price_variants.unwrap_or_default() {
        let period = read_period(variant.constraint)?;
        let rates = read_rates(&variant.prices, units)?;
        schedule.variants.push(Variant { when: variant.when.into_iter().collect(), period, rates });
    }
    if check {
        check_schedule(&schedule, units)?;
    }
    let (groq, models, millis) = MIN_AUDIO;
    let has_minimum = provider == groq && models.contains(&file.id.as_str());
    Ok(Model {
        id: file.id,
        clause: file.clause.lowered(),
        context_window: file.context_window,
        min_audio_millis: has_minimum.then_some(millis),
        schedule,
    })
}

fn conditionals(raw: &RawValue) -> Result<Vec<FileConditional<'_>>, PriceProblem> {
    let text = raw.get();
    let read = if text.starts_with('[') {
        serde_json::from_str(text)
    } else {
        let single = |prices| vec![FileConditional { constraint: None, prices }];
        serde_json::from_str(text).map(single)
    };
    read.map_err(|e| PriceProblem::Form { key: "prices".to_owned(), reason: e.to_string() })
}

fn read_period(constraint: Option<FileConstraint>) -> Result<Period, PriceProblem> {
    match constraint {
        None => Ok(Period::Always),
        Some(FileConstraint::Since { start_date }) => {
            start_of_day(&start_date).map(Period::Since).ok_or(PriceProblem::Time(start_date))
        }
        Some(FileConstraint::Daily { start_time, end_time }) => Ok(Period::Daily {
            from: time_of_day(&start_time).ok_or(PriceProblem::Time(start_time))?,
            until: time_of_day(&end_time).ok_or(PriceProblem::Time(end_time))?,
        }),
    }
}

fn start_of_day(text: &str) -> Option<WallTime> {
    let date: Date = text.parse().ok()?;
    let start = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
    u64::try_from(start.as_millisecond()).ok().map(WallTime)
}

/// Milliseconds since midnight of a UTC time such as `16:30:00+00:00`; other offsets are refused.
fn time_of_day(text: &str) -> Option<u64> {
    let plain = text.strip_suffix("+00:00").or_else(|| text.strip_suffix('Z')).unwrap_or(text);
    let time: Time = plain.parse().ok()?;
    let whole = (i64::from(time.hour()) * 60 + i64::from(time.minute())) * 60;
    let seconds = whole + i64::from(time.second());
    u64::try_from(seconds * 1_000 + i64::from(time.millisecond())).ok()
}

fn read_rates(prices: &FilePrices<'_>, units: &Units) -> Result<RateSet, PriceProblem> {
    let mut rates = RateSet::with_capacity(prices.len());
    for (key, raw) in prices {
        if raw.get() != "null" {
            let unit = units.by_price_key(key);
            let unit = unit.ok_or_else(|| PriceProblem::UnknownPrice(key.clone()))?;
            rates.push((unit, read_rate(key, raw)?));
        }
    }
    rates.sort_by_key(|(unit, _)| *unit);
    Ok(rates)
}

fn read_rate(key: &str, raw: &RawValue) -> Result<Rate, PriceProblem> {
    let text = raw.get();
    if !text.starts_with('{') {
        return Ok(Rate { base: read_attos(key, raw)?, tiers: Vec::new() });
    }
    let file: FileTiers<'_> = serde_json::from_str(text)
        .map_err(|e| PriceProblem::Form { key: key.to_owned(), reason: e.to_string() })?;
    let mut tiers = Vec::with_capacity(file.tiers.len());
    for tier in file.tiers {
        tiers.push(Tier { above: tier.start, attos: read_attos(key, tier.price)? });
    }
    if !tiers.is_sorted_by_key(|tier| tier.above) {
        return Err(PriceProblem::Tiers(key.to_owned()));
    }
    Ok(Rate { base: read_attos(key, file.base)?, tiers })
}

fn read_attos(key: &str, raw: &RawValue) -> Result<u128, PriceProblem> {
    let text = raw.get().trim_matches('"');
    decimal::scaled(text, RATE_DECIMALS, Beyond::Refuse).map_err(|reason| {
        let (key, text) = (key.to_owned(), text.to_owned());
        PriceProblem::Rate { key, text, reason }
    })
}

/// Every set of rates that can be in force has a price for each whole and each common part; otherwise some
/// count would be charged twice or not at all.
fn check_schedule(schedule: &Schedule, units: &Units) -> Result<(), PriceProblem> {
    for (_, standard) in &schedule.standard {
        let base: Vec<(Unit, &Rate)> = standard.iter().map(|(unit, rate)| (*unit, rate)).collect();
        check_coverage(&base, units)?;
        for variant in &schedule.variants {
            let mut rates = base.clone();
            lay_over(&mut rates, &variant.rates);
            check_coverage(&rates, units)?;
        }
    }
    Ok(())
}

fn check_coverage(rates: &[(Unit, &Rate)], units: &Units) -> Result<(), PriceProblem> {
    let priced: Vec<&UnitRow> = rates.iter().filter_map(|(unit, _)| units.get(*unit)).collect();
    let is_priced = |dimensions| priced.iter().any(|row| row.dimensions == dimensions);
    for (index, row) in priced.iter().enumerate() {
        let whole = units.rows().iter().find(|w| w.contains(row) && !is_priced(w.dimensions));
        if let Some(whole) = whole {
            let (part, whole) = (row.price_key.clone(), whole.price_key.clone());
            return Err(PriceProblem::NoWhole { part, whole });
        }
        for other in priced.iter().skip(index + 1) {
            let common = row.dimensions | other.dimensions;
            if units.compatible(row, other) && !is_priced(common) {
                let names = (row.price_key.clone(), other.price_key.clone());
                return Err(PriceProblem::NoCommonPart(names.0, names.1));
            }
        }
    }
    Ok(())
}
