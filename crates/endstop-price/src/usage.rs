//! The usage of a call, as its provider reported it.

use std::sync::LazyLock;

use endstop_core::units::{Money, TokenUsage};
use serde_json::Value;
use thiserror::Error;

use super::decimal::{self, Beyond, DecimalError};
use super::limits::MAX_COUNT;
use super::unit::Unit;

/// The units of the token classes, looked up once: they are priced before every call.
static TOKEN_UNITS: LazyLock<[Option<Unit>; 6]> = LazyLock::new(|| {
    let names = [
        "input_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cache_write_1h_tokens",
        "output_tokens",
        "cache_write_5m_tokens",
    ];
    names.map(Unit::named)
});

/// How many tokens of a unit a call used.
type CountOf = fn(&TokenUsage) -> u64;

/// The units of disjoint classes, in order of the unit.
static TOKEN_COUNTS: LazyLock<Vec<(Unit, CountOf)>> = LazyLock::new(|| {
    let counts: [CountOf; 5] = [
        TokenUsage::total_input,
        |tokens| tokens.cache_read,
        |tokens| tokens.cache_write.saturating_add(tokens.cache_write_1h),
        |tokens| tokens.cache_write_1h,
        |tokens| tokens.output,
    ];
    let named = TOKEN_UNITS.iter().zip(counts);
    let mut units: Vec<_> = named.filter_map(|(unit, count)| Some(((*unit)?, count))).collect();
    units.sort_unstable_by_key(|(unit, _)| *unit);
    units
});

/// Units that a report has, with room for some more.
const USUAL_UNITS: usize = 8;

/// Decimals of a count of milliseconds that is reported in seconds.
const MILLI_DECIMALS: u32 = 3;

/// Why a usage report cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UsageError {
    /// None of the shapes that are known.
    #[error("not a usage report of a known shape")]
    UnknownShape,
    /// The price data has no such provider.
    #[error("unknown provider `{provider}`")]
    UnknownProvider {
        /// The name that was given.
        provider: String,
    },
    /// The price data does not say how to read this provider's responses.
    #[error("`{provider}` has no response flavor `{flavor}`; known are {known}")]
    UnknownFlavor {
        /// The provider.
        provider: String,
        /// The requested flavor.
        flavor: String,
        /// The flavors there are.
        known: String,
    },
    /// A field that every report has is absent.
    #[error("`{path}` is missing")]
    Missing {
        /// Where it should be.
        path: String,
    },
    /// Neither a number nor absent.
    #[error("`{path}` is not a number")]
    NotANumber {
        /// Where it is.
        path: String,
    },
    /// Negative, fractional where only whole counts make sense, or beyond [`MAX_COUNT`].
    #[error("`{path}` is not a count: `{found}`")]
    NotACount {
        /// Where it is.
        path: String,
        /// The value found.
        found: String,
    },
    /// More requests in one report than any provider makes.
    #[error("`{path}` has {found} entries, and at most {most} are read")]
    TooMany {
        /// The list.
        path: &'static str,
        /// How many it has.
        found: usize,
        /// How many it may have.
        most: usize,
    },
    /// The report has none of the fields that its shape may have.
    #[error("the usage report is empty")]
    Empty,
}

/// Counts by unit, exactly as reported: the whole and its parts side by side (`input_tokens` holds the
/// `cache_read_tokens` too).
///
/// ```
/// use endstop_core::units::TokenUsage;
/// use endstop_price::{Unit, UsageCounts};
///
/// let tokens = TokenUsage { input: 100, cache_read: 900, ..TokenUsage::default() };
/// let mut usage = UsageCounts::from_token_usage(&tokens)?;
/// let unit = |key| Unit::named(key).unwrap();
/// assert_eq!(usage.get(unit("input_tokens")), Some(1_000));
/// assert_eq!(usage.get(unit("cache_read_tokens")), Some(900));
/// usage.add(unit("web_searches"), 2)?;
/// assert_eq!(usage.token_usage(), tokens);
/// # Ok::<(), endstop_price::UsageError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageCounts {
    /// In order of the unit, each once: a handful, set and read for the price of every call.
    counts: Vec<(Unit, u64)>,
    pub(crate) was_exclusive: bool,
    further: Vec<FurtherUsage>,
}

/// The usage of a request that the provider added while it answered, such as a summary of the conversation or the
/// question to an adviser. It is billed in addition to the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FurtherUsage {
    /// The model that answered it, if it was another one.
    pub(crate) model: Option<String>,
    pub(crate) counts: UsageCounts,
}

impl UsageCounts {
    /// Returns the counts of tokens that are already in disjoint classes.
    ///
    /// # Errors
    ///
    /// Returns [`UsageError::NotACount`] if one is beyond [`MAX_COUNT`].
    pub fn from_token_usage(tokens: &TokenUsage) -> Result<Self, UsageError> {
        let mut counts = Vec::with_capacity(USUAL_UNITS);
        for (unit, count) in TOKEN_COUNTS.iter() {
            let count = count(tokens);
            if count >= MAX_COUNT {
                return Err(too_many(*unit, count));
            }
            counts.push((*unit, count));
        }
        Ok(Self { counts, ..Self::default() })
    }

    /// Returns the count of a unit, or `None` if it was not reported. Milliseconds for durations.
    #[must_use]
    pub fn get(&self, unit: Unit) -> Option<u64> {
        self.counts.iter().find(|(known, _)| *known == unit).map(|(_, count)| *count)
    }

    /// Sets the count of a unit; milliseconds for durations.
    ///
    /// # Errors
    ///
    /// Returns [`UsageError::NotACount`] beyond [`MAX_COUNT`].
    pub fn set(&mut self, unit: Unit, count: u64) -> Result<(), UsageError> {
        if count >= MAX_COUNT {
            return Err(too_many(unit, count));
        }
        // Most come in order.
        let is_next = self.counts.last().is_none_or(|(last, _)| *last < unit);
        let place = match is_next {
            true => self.counts.len(),
            false => self.counts.partition_point(|(known, _)| *known < unit),
        };
        match self.counts.get_mut(place) {
            Some((known, old)) if *known == unit => *old = count,
            _ => {
                if self.counts.capacity() == 0 {
                    self.counts.reserve(USUAL_UNITS);
                }
                self.counts.insert(place, (unit, count));
            }
        }
        Ok(())
    }

    /// Adds to the count of a unit.
    ///
    /// # Errors
    ///
    /// Returns [`UsageError::NotACount`] beyond [`MAX_COUNT`].
    pub fn add(&mut self, unit: Unit, count: u64) -> Result<(), UsageError> {
        self.set(unit, self.get(unit).unwrap_or(0).saturating_add(count))
    }

    /// Adds the usage of a further request. The counts include it, and it is priced separately: by its model, at the
    /// tier of its input.
    ///
    /// # Errors
    ///
    /// Returns [`UsageError::NotACount`] beyond [`MAX_COUNT`].
    pub(crate) fn add_further(&mut self, further: FurtherUsage) -> Result<(), UsageError> {
        for (unit, count) in further.counts.iter() {
            self.add(unit, count)?;
        }
        self.further.push(further);
        Ok(())
    }

    /// Adds requests that a model declined before another one answered. Counts that are large enough for both include
    /// both; those that are large enough for the answer alone include that.
    ///
    /// # Errors
    ///
    /// Returns [`UsageError::NotACount`] beyond [`MAX_COUNT`].
    pub(crate) fn add_declined(
        &mut self,
        declined: Vec<FurtherUsage>,
        answered: Vec<FurtherUsage>,
    ) -> Result<(), UsageError> {
        if self.covers(answered.iter().chain(&declined)) {
            self.further.extend(declined);
            return Ok(());
        }
        let left_out = if self.covers(&answered) { Vec::new() } else { answered };
        left_out.into_iter().chain(declined).try_for_each(|further| self.add_further(further))
    }

    /// Whether each count is at least the sum of theirs.
    fn covers<'f>(&self, parts: impl IntoIterator<Item = &'f FurtherUsage>) -> bool {
        let mut sum = Self::default();
        let mut counts = parts.into_iter().flat_map(|part| part.counts.iter());
        counts.try_for_each(|(unit, count)| sum.add(unit, count)).is_ok()
            && sum.iter().all(|(unit, count)| self.get(unit).unwrap_or(0) >= count)
    }

    pub(crate) fn further(&self) -> &[FurtherUsage] {
        &self.further
    }

    /// The counts without those of further requests.
    ///
    /// # Errors
    ///
    /// Returns the unit of which further requests used more than the whole call.
    pub(crate) fn without_further(&self) -> Result<Self, Unit> {
        let mut own = Self { further: Vec::new(), ..self.clone() };
        for (unit, count) in self.further.iter().flat_map(|further| further.counts.iter()) {
            match own.counts.iter_mut().find(|(known, _)| *known == unit) {
                Some((_, left)) => *left = left.checked_sub(count).ok_or(unit)?,
                None if count > 0 => return Err(unit),
                None => {}
            }
        }
        Ok(own)
    }

    /// Returns all reported counts, in order of the unit.
    pub fn iter(&self) -> impl Iterator<Item = (Unit, u64)> {
        self.counts.iter().copied()
    }

    /// Returns whether the input was taken as *without* the cached tokens against the convention of its shape,
    /// because the cached ones are more than it.
    #[must_use]
    pub const fn was_exclusive(&self) -> bool {
        self.was_exclusive
    }

    /// Returns the tokens in disjoint classes. If the parts exceed the whole, the remainder is zero; pricing
    /// such a report is an error.
    #[must_use]
    pub fn token_usage(&self) -> TokenUsage {
        let count = |unit: Option<Unit>| unit.and_then(|unit| self.get(unit)).unwrap_or(0);
        let [input, cache_read, cache_write, cache_write_1h, output, cache_write_5m] =
            TOKEN_UNITS.map(count);
        // The parts by lifetime may come without their sum.
        let written = cache_write.max(cache_write_5m.saturating_add(cache_write_1h));
        TokenUsage {
            input: input.saturating_sub(cache_read).saturating_sub(written),
            cache_read,
            cache_write: written.saturating_sub(cache_write_1h),
            cache_write_1h,
            output,
        }
    }
}

/// The error of a count that is [`MAX_COUNT`] or more.
#[cold]
fn too_many(unit: Unit, count: u64) -> UsageError {
    UsageError::NotACount { path: unit.key().to_owned(), found: count.to_string() }
}

/// Reads a JSON number as a count of `unit`: an integer, not negative, below [`MAX_COUNT`]. Seconds become
/// milliseconds, rounded up. `path` is called if it is not one.
pub(crate) fn read_count(
    unit: Unit,
    value: &Value,
    path: impl FnOnce() -> String,
) -> Result<u64, UsageError> {
    let Value::Number(number) = value else {
        return Err(UsageError::NotANumber { path: path() });
    };
    if let Some(count) = number.as_u64().filter(|count| *count < MAX_COUNT && !unit.is_duration()) {
        return Ok(count);
    }
    let text = number.to_string();
    let count = if unit.is_duration() {
        decimal::scaled(&text, MILLI_DECIMALS, Beyond::RoundUp)
    } else {
        decimal::scaled(&text, 0, Beyond::Refuse)
    };
    let count = count.and_then(|count| u64::try_from(count).map_err(|_| DecimalError::TooLarge));
    match count {
        Ok(count) if count < MAX_COUNT => Ok(count),
        _ => Err(UsageError::NotACount { path: path(), found: text }),
    }
}

/// Returns the amount that the provider says it billed: `usage.cost` in dollars, as OpenRouter reports it.
///
/// It wins over a computed price. A JSON number is a double: beyond 15 significant digits it is noise, which
/// is left out. Decimals beyond a pico-dollar round up. `None` if it is absent, no
/// number, negative or above $9,000,000.
///
/// If the call was made with the caller's own key at the vendor (`is_byok`), `cost` is the fee alone: the vendor's
/// bill (`cost_details.upstream_inference_cost`) is added, and the amount is `None` if that is missing.
#[must_use]
pub fn billed_cost(usage: &Value) -> Option<Money> {
    let fee = dollars(usage.get("cost")?)?;
    let is_own_key = usage.get("is_byok").and_then(Value::as_bool);
    let of_vendor = usage.pointer("/cost_details/upstream_inference_cost").and_then(dollars);
    match (is_own_key, of_vendor) {
        (Some(false), _) | (None, None) => Some(fee),
        (Some(true), None) => None,
        (_, Some(more)) => fee.checked_add(more),
    }
}

/// An amount in dollars, as [`billed_cost`] reads it.
fn dollars(amount: &Value) -> Option<Money> {
    let Value::Number(cost) = amount else { return None };
    let text = cost.to_string();
    let mantissa = text.split(['e', 'E']).next().unwrap_or("").trim_start_matches(['-', '0', '.']);
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let text = if digits > 15 { format!("{:.14e}", cost.as_f64()?) } else { text };
    let picos = decimal::scaled(&text, 12, Beyond::RoundUp).ok()?;
    let money = Money::from_picos(u64::try_from(picos).ok()?);
    let most = endstop_core::limits::MAX_READ_DOLLARS * endstop_core::units::PICOS_PER_DOLLAR;
    (money.picos() <= most).then_some(money)
}
