//! The registry of billable units.
//!
//! A unit is a set of dimensions. A unit that has all the dimensions of another and more is a part of it:
//! `cache_read_tokens` (input tokens, read from a cache) are a part of `input_tokens`. The registry comes
//! with the price data.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use super::amount::PER_MULTIPLE;
use super::limits::MAX_DIMENSIONS;

/// The key of what is billed for each request as such; never reported, always one.
const REQUESTS: &str = "requests";

/// The family of units that count seconds; here they count milliseconds.
const DURATIONS: &str = "durations";

/// Milliseconds in the second that the registry counts.
const MILLIS: u64 = 1_000;

/// A billable unit such as `input_tokens`: a place in the registry.
///
/// ```
/// use endstop_price::Unit;
///
/// let searches = Unit::named("web_searches").unwrap();
/// assert_eq!((searches.price_key(), searches.per()), ("web_searches_kcount", 1_000));
/// assert_eq!(Unit::named("words"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit(u8);

impl Unit {
    /// Returns the unit with this key, for example `cache_write_1h_tokens`.
    #[must_use]
    pub fn named(key: &str) -> Option<Self> {
        super::units().by_key(key)
    }

    /// Returns its key.
    #[must_use]
    pub fn key(self) -> &'static str {
        super::units().get(self).map_or("", |row| &row.key)
    }

    /// Returns the key of its price in price tables, for example `cache_write_1h_mtok`.
    #[must_use]
    pub fn price_key(self) -> &'static str {
        super::units().get(self).map_or("", |row| &row.price_key)
    }

    /// Returns how many counts one price is for: 1,000,000 for tokens, 3,600,000 for durations in milliseconds.
    #[must_use]
    pub fn per(self) -> u64 {
        super::units().get(self).map_or(1, |row| row.per)
    }

    /// Returns whether it is a time: counted in milliseconds, where providers report seconds.
    #[must_use]
    pub fn is_duration(self) -> bool {
        super::units().get(self).is_some_and(|row| row.is_duration)
    }
}

/// The total that an amount belongs to, in addition to the grand total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// Input.
    Input,
    /// Output.
    Output,
    /// Neither, such as a web search.
    Neither,
}

/// One unit of the registry.
#[derive(Debug)]
pub(crate) struct UnitRow {
    pub(crate) key: String,
    pub(crate) price_key: String,
    pub(crate) per: u64,
    pub(crate) direction: Direction,
    pub(crate) is_duration: bool,
    /// Billed once for each request, whatever was reported.
    pub(crate) is_request: bool,
    /// The set of its dimensions.
    pub(crate) dimensions: u64,
}

impl UnitRow {
    /// Whether `other` is a part of this unit, or the same.
    pub(crate) const fn contains(&self, other: &Self) -> bool {
        self.dimensions & other.dimensions == self.dimensions
    }
}

/// Why the registry of units cannot be used.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum UnitsError {
    /// A price would not be a whole number of parts.
    #[error("unit `{key}` is priced per {per}, which does not divide 9,000,000,000")]
    Per {
        /// The unit's key.
        key: String,
        /// What it is priced per.
        per: u64,
    },
    /// The sets no longer fit into a word.
    #[error("more than {MAX_DIMENSIONS} dimensions, or more than 255 units")]
    TooMany,
}

/// A unit as the price data writes it.
#[derive(Debug, Deserialize)]
pub(crate) struct FileUnit {
    per: u64,
    price_key: Option<String>,
    dimensions: BTreeMap<String, String>,
}

/// All units, input before output before the rest, general before special.
#[derive(Debug, Default)]
pub(crate) struct Units {
    rows: Vec<UnitRow>,
    keys: BTreeMap<String, Unit>,
    price_keys: BTreeMap<String, Unit>,
    /// For each dimension (its name), the bits of its values.
    names: BTreeMap<String, u64>,
}

impl Units {
    pub(crate) fn new(file: BTreeMap<String, FileUnit>) -> Result<Self, UnitsError> {
        let mut units = Self::default();
        let mut bits: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (key, unit) in file {
            let mut dimensions = 0;
            for pair in &unit.dimensions {
                let next = bits.len();
                let bit =
                    *bits.entry((pair.0.clone(), pair.1.clone())).or_insert(1 << next.min(63));
                if bits.len() > MAX_DIMENSIONS {
                    return Err(UnitsError::TooMany);
                }
                dimensions |= bit;
                *units.names.entry(pair.0.clone()).or_default() |= bit;
            }
            units.rows.push(row(key, unit, dimensions)?);
        }
        units.rows.sort_by(|a, b| {
            let rank = |row: &UnitRow| (row.direction, row.dimensions.count_ones());
            rank(a).cmp(&rank(b)).then_with(|| a.key.cmp(&b.key))
        });
        for (index, row) in units.rows.iter().enumerate() {
            let unit = Unit(u8::try_from(index).map_err(|_| UnitsError::TooMany)?);
            units.keys.insert(row.key.clone(), unit);
            units.price_keys.insert(row.price_key.clone(), unit);
        }
        Ok(units)
    }

    pub(crate) fn get(&self, unit: Unit) -> Option<&UnitRow> {
        self.rows.get(usize::from(unit.0))
    }

    pub(crate) fn by_key(&self, key: &str) -> Option<Unit> {
        self.keys.get(key).copied()
    }

    pub(crate) fn by_price_key(&self, key: &str) -> Option<Unit> {
        self.price_keys.get(key).copied()
    }

    pub(crate) fn rows(&self) -> &[UnitRow] {
        &self.rows
    }

    /// Whether something can be both: no dimension has two values.
    pub(crate) fn compatible(&self, a: &UnitRow, b: &UnitRow) -> bool {
        self.names.values().all(|&values| (values & (a.dimensions | b.dimensions)).count_ones() < 2)
    }
}

fn row(key: String, unit: FileUnit, dimensions: u64) -> Result<UnitRow, UnitsError> {
    let family = unit.dimensions.get("family").map(String::as_str);
    let is_duration = family == Some(DURATIONS);
    let per = if is_duration { unit.per.saturating_mul(MILLIS) } else { unit.per };
    if per == 0 || !PER_MULTIPLE.is_multiple_of(per) {
        return Err(UnitsError::Per { key, per });
    }
    let direction = match unit.dimensions.get("direction").map(String::as_str) {
        Some("input") => Direction::Input,
        Some("output") => Direction::Output,
        _ => Direction::Neither,
    };
    let is_request = key == REQUESTS;
    let price_key = unit.price_key.unwrap_or_else(|| key.clone());
    Ok(UnitRow { key, price_key, per, direction, is_duration, is_request, dimensions })
}
