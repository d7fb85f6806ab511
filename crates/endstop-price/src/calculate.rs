//! The price of one call.

use endstop_core::units::{Money, WallTime};
use thiserror::Error;

use super::amount::ExactUsd;
use super::decimal;
use super::rates::Rate;
use super::unit::{Direction, Unit, UnitRow};
use super::usage::UsageCounts;
use super::{CallContext, Model, Provider, units};

/// Decimals of a rate: the data has no more.
pub(super) const RATE_DECIMALS: u32 = 18;

/// The key of the total of input tokens, which chooses the tier.
const TOTAL_INPUT: &str = "input_tokens";

/// Rates that a model may have without an allocation when a call is priced.
pub(super) const FEW_ROWS: usize = 16;

/// The units that a minimum duration is for.
const AUDIO_DURATIONS: [&str; 2] = ["audio_seconds", "input_audio_seconds"];

/// A model that was found in the table, ready to price calls. Find it once and keep it.
///
/// See the example of [`PriceTable`](crate::PriceTable).
#[derive(Clone, Copy, Debug)]
pub struct ModelPrice<'t> {
    pub(crate) provider: &'t Provider,
    pub(crate) model: &'t Model,
    /// Whether the price is another provider's, who offers the same model.
    pub(crate) is_borrowed: bool,
}

/// Why a call has no price although its model has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PriceError {
    /// A part was reported without the whole, so the rest of the whole is unknown.
    #[error("`{unit}` is missing, though its parts `{parts}` were reported")]
    MissingUsage {
        /// The priced unit that was not reported.
        unit: &'static str,
        /// The reported parts.
        parts: String,
    },
    /// The parts are more than the whole.
    #[error("the parts of `{unit}` are {parts}, more than its {count}")]
    PartsExceedWhole {
        /// The whole.
        unit: &'static str,
        /// Its reported count.
        count: u64,
        /// The sum of the parts that have separate prices.
        parts: u128,
    },
    /// A model that answered a further request of the call is not in the provider's list.
    #[error("no price for `{model}`, which answered a part of the call")]
    UnknownModel {
        /// The model as the report names it.
        model: String,
    },
    /// More money than can be counted ($18.4M).
    #[error("the price is more than $18.4M")]
    TooLarge,
}

/// A call with its price.
///
/// See the example of [`PriceTable`](crate::PriceTable).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priced {
    /// The charges, disjoint, in order of the unit; without those that count zero. Requests that the provider added
    /// while it answered follow, each with separate lines.
    pub lines: Vec<Line>,
    /// The part for the input.
    pub input: ExactUsd,
    /// The part for the output. Searches and similar items are in neither part.
    pub output: ExactUsd,
    /// The whole before rounding.
    pub exact: ExactUsd,
    /// The whole, rounded up once to a pico-dollar.
    pub total: Money,
}

/// One class of a call with its rate and amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The counted unit.
    pub unit: Unit,
    /// The number of units that are in no other line; milliseconds for durations.
    pub count: u64,
    /// The rate that applied.
    pub rate: UnitRate,
    /// Count × rate / per, exact.
    pub amount: ExactUsd,
}

/// A price of one unit, exact: 10⁻¹⁸ USD per [`Unit::per`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitRate(u128);

impl UnitRate {
    /// Returns the dollars per [`Unit::per`] counts as plain decimal text.
    #[must_use]
    pub fn to_decimal(self) -> String {
        decimal::plain(self.0, RATE_DECIMALS)
    }
}

/// A rate of a model, for showing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRate {
    /// The counted unit.
    pub unit: Unit,
    /// The rate of ordinary calls.
    pub base: UnitRate,
    /// The rates of calls whose total input is more than so many tokens, ascending.
    pub tiers: Vec<(u64, UnitRate)>,
}

impl<'t> ModelPrice<'t> {
    /// Returns the provider whose price list was searched.
    #[must_use]
    pub fn provider_id(&self) -> &'t str {
        &self.provider.id
    }

    /// Returns the entry that matched, for example `claude-sonnet-4-5`.
    #[must_use]
    pub fn model_id(&self) -> &'t str {
        &self.model.id
    }

    /// Returns the most input tokens that a call may have, if known.
    #[must_use]
    pub const fn context_window(&self) -> Option<u64> {
        self.model.context_window
    }

    /// Returns the rates in force at `at` for requests of this kind.
    #[must_use]
    pub fn rates(&self, at: WallTime, context: &CallContext) -> Vec<ListedRate> {
        let listed = |(unit, rate): (Unit, &Rate)| ListedRate {
            unit,
            base: UnitRate(rate.base),
            tiers: rate.tiers.iter().map(|tier| (tier.above, UnitRate(tier.attos))).collect(),
        };
        self.scheduled(at, context).into_iter().map(listed).collect()
    }

    /// Returns the price of one call begun at `at`. Tiers go by the single call: never price a sum of calls.
    ///
    /// # Errors
    ///
    /// Returns [`PriceError`]: the usage contradicts itself, or the amount is too large. The cost is then unknown.
    pub fn price(
        &self,
        usage: &UsageCounts,
        at: WallTime,
        context: &CallContext,
    ) -> Result<Priced, PriceError> {
        self.in_force(at, context).price(usage)
    }

    /// Returns the total of [`ModelPrice::price`], without its lines.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ModelPrice::price`].
    pub fn total(
        &self,
        usage: &UsageCounts,
        at: WallTime,
        context: &CallContext,
    ) -> Result<Money, PriceError> {
        self.in_force(at, context).total(usage)
    }

    /// Returns the rates of calls begun at `at`, to price several of them.
    #[must_use]
    pub fn in_force<'a>(&self, at: WallTime, context: &'a CallContext) -> RatesInForce<'a>
    where
        't: 'a,
    {
        let rates = self.scheduled(at, context);
        let mut rows: Vec<Row<'a>> = Vec::with_capacity(rates.len());
        rows.extend(
            rates
                .iter()
                .filter_map(|&(unit, rate)| Some(Row { unit, row: units().get(unit)?, rate })),
        );
        let mut special_first: Vec<usize> = (0..rows.len()).collect();
        let dimensions = |index: &usize| rows.get(*index).map(|it| it.row.dimensions.count_ones());
        special_first.sort_by_key(|index| std::cmp::Reverse(dimensions(index)));
        let is_tiered = rows.iter().any(|row| !row.rate.tiers.is_empty());
        let tiers_by = is_tiered.then(|| units().by_key(TOTAL_INPUT)).flatten();
        RatesInForce { price: *self, at, context, rows, special_first, tiers_by }
    }

    /// Another model of the same provider.
    fn sibling(&self, name: &str) -> Result<Self, PriceError> {
        let model = self.provider.model(&name.trim().to_lowercase());
        let unknown = || PriceError::UnknownModel { model: name.to_owned() };
        Ok(Self { model: model.ok_or_else(unknown)?, ..*self })
    }

    fn scheduled(&self, at: WallTime, context: &CallContext) -> Vec<(Unit, &'t Rate)> {
        // A variant is an offer of the provider that lists it; another who sells the model may lack it.
        let schedule = &self.model.schedule;
        if self.is_borrowed {
            schedule.in_force(at, &CallContext::default())
        } else {
            schedule.in_force(at, context)
        }
    }

    /// The usage with a duration raised to the least that the provider bills, if there is such a rule.
    fn with_minimum(&self, usage: &UsageCounts) -> Option<UsageCounts> {
        let minimum = self.model.min_audio_millis?;
        let [either, input] = AUDIO_DURATIONS.map(Unit::named);
        let (either, input) = (either?, input?);
        let reported = usage.get(either).filter(|&n| n > 0).or_else(|| usage.get(input))?;
        let billed = if reported == 0 { 0 } else { reported.max(minimum) };
        let mut usage = usage.clone();
        usage.set(either, billed).ok()?;
        usage.set(input, billed).ok()?;
        Some(usage)
    }
}

/// The rates of a model for calls of one kind that begin at one moment. Finding them takes longer than pricing a call by them.
///
/// ```
/// use endstop_core::units::{TokenUsage, WallTime};
/// use endstop_price::{CallContext, PriceTable, UsageCounts};
///
/// let model = PriceTable::embedded().find(Some("anthropic"), "claude-haiku-4-5").unwrap();
/// let plain = CallContext::default();
/// let rates = model.in_force(WallTime(1_793_534_400_000), &plain);
/// let of = |input| UsageCounts::from_token_usage(&TokenUsage { input, ..TokenUsage::default() });
/// assert!(rates.total(&of(1_000)?)? < rates.total(&of(2_000)?)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RatesInForce<'a> {
    price: ModelPrice<'a>,
    at: WallTime,
    context: &'a CallContext,
    /// In order of the unit.
    rows: Vec<Row<'a>>,
    /// Their places, the most special unit first: a part is counted before its whole.
    special_first: Vec<usize>,
    /// The unit whose count chooses the tier, if there are tiers.
    tiers_by: Option<Unit>,
}

impl RatesInForce<'_> {
    /// Returns the price of one call. Tiers go by the single call: never price a sum of calls.
    ///
    /// # Errors
    ///
    /// Returns [`PriceError`]: the usage contradicts itself, or the amount is too large. The cost is then unknown.
    pub fn price(&self, usage: &UsageCounts) -> Result<Priced, PriceError> {
        self.price_all(usage, true)
    }

    /// Returns the total of [`RatesInForce::price`], without its lines.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`RatesInForce::price`].
    pub fn total(&self, usage: &UsageCounts) -> Result<Money, PriceError> {
        self.price_all(usage, false).map(|priced| priced.total)
    }

    /// The price of a call with its further requests. Rounded once, for all of them.
    fn price_all(&self, usage: &UsageCounts, has_lines: bool) -> Result<Priced, PriceError> {
        if usage.further().is_empty() {
            return self.price_one(usage, has_lines)?.rounded();
        }
        let own = usage.without_further().map_err(|unit| PriceError::PartsExceedWhole {
            unit: unit.key(),
            count: usage.get(unit).unwrap_or(0),
            parts: usage
                .further()
                .iter()
                .filter_map(|it| it.counts.get(unit))
                .map(u128::from)
                .sum(),
        })?;
        let mut priced = self.price_one(&own, has_lines)?;
        for further in usage.further() {
            let more = match further.model.as_deref() {
                None => self.price_one(&further.counts, has_lines)?,
                Some(name) => {
                    let sibling = self.price.sibling(name)?.in_force(self.at, self.context);
                    sibling.price_one(&further.counts, has_lines)?
                }
            };
            priced.take(more).ok_or(PriceError::TooLarge)?;
        }
        priced.rounded()
    }

    /// The price of one request, not rounded yet.
    fn price_one(&self, usage: &UsageCounts, has_lines: bool) -> Result<Priced, PriceError> {
        let adjusted = self.price.with_minimum(usage);
        let usage = adjusted.as_ref().unwrap_or(usage);
        let total_input = match self.tiers_by {
            Some(unit) => reported_or_zero(unit, usage)?,
            None => 0,
        };
        // Most models have few rates, so that nothing is allocated.
        let (mut few, mut many) = ([0; FEW_ROWS], Vec::new());
        let leaves = match few.get_mut(..self.rows.len()) {
            Some(few) => few,
            None => {
                many.resize(self.rows.len(), 0);
                &mut many
            }
        };
        self.fill(leaves, usage)?;
        let mut priced = Priced {
            lines: Vec::with_capacity(if has_lines { self.rows.len() } else { 0 }),
            input: ExactUsd::ZERO,
            output: ExactUsd::ZERO,
            exact: ExactUsd::ZERO,
            total: Money::ZERO,
        };
        for (&Row { unit, row, rate }, &count) in self.rows.iter().zip(&*leaves) {
            if count > 0 {
                let attos = rate.at(total_input);
                let amount = ExactUsd::of(count, attos, row.per).ok_or(PriceError::TooLarge)?;
                if has_lines {
                    priced.lines.push(Line { unit, count, rate: UnitRate(attos), amount });
                }
                add(&mut priced, row.direction, amount).ok_or(PriceError::TooLarge)?;
            }
        }
        Ok(priced)
    }

    /// Fills in the remainder of the count of each unit after its priced parts: the parts without a price stay in the whole.
    fn fill(&self, leaves: &mut [u64], usage: &UsageCounts) -> Result<(), PriceError> {
        for (place, &index) in self.special_first.iter().enumerate() {
            let Some(of) = self.rows.get(index) else { continue };
            let leaf = if of.row.is_request {
                1
            } else {
                let before = self.special_first.iter().take(place);
                let parts = before
                    .filter(|&&other| {
                        self.rows.get(other).is_some_and(|it| of.row.contains(it.row))
                    })
                    .filter_map(|&other| leaves.get(other).copied().map(u128::from))
                    .sum();
                leaf_count(of.unit, parts, usage)?
            };
            if let Some(place) = leaves.get_mut(index) {
                *place = leaf;
            }
        }
        Ok(())
    }
}

impl Priced {
    fn rounded(mut self) -> Result<Self, PriceError> {
        self.total = self.exact.round_up().ok_or(PriceError::TooLarge)?;
        Ok(self)
    }

    fn take(&mut self, more: Self) -> Option<()> {
        self.lines.extend(more.lines);
        self.input = self.input.checked_add(more.input)?;
        self.output = self.output.checked_add(more.output)?;
        self.exact = self.exact.checked_add(more.exact)?;
        Some(())
    }
}

fn add(priced: &mut Priced, direction: Direction, amount: ExactUsd) -> Option<()> {
    priced.exact = priced.exact.checked_add(amount)?;
    match direction {
        Direction::Input => priced.input = priced.input.checked_add(amount)?,
        Direction::Output => priced.output = priced.output.checked_add(amount)?,
        Direction::Neither => {}
    }
    Some(())
}

/// A priced unit of a call.
#[derive(Clone, Copy, Debug)]
struct Row<'a> {
    unit: Unit,
    row: &'static UnitRow,
    rate: &'a Rate,
}

fn leaf_count(unit: Unit, parts: u128, usage: &UsageCounts) -> Result<u64, PriceError> {
    let count = reported_or_zero(unit, usage)?;
    u64::try_from(parts)
        .ok()
        .and_then(|parts| count.checked_sub(parts))
        .ok_or(PriceError::PartsExceedWhole { unit: unit.key(), count, parts })
}

/// The reported count; zero where neither it nor anything that overlaps it was reported.
fn reported_or_zero(unit: Unit, usage: &UsageCounts) -> Result<u64, PriceError> {
    if let Some(count) = usage.get(unit) {
        return Ok(count);
    }
    let Some(row) = units().get(unit) else { return Ok(0) };
    let rows =
        || usage.iter().filter(|(_, count)| *count > 0).filter_map(|(it, _)| units().get(it));
    // Two that overlap in it are both more general.
    if !rows().any(|it| row.contains(it)) && rows().filter(|it| it.contains(row)).nth(1).is_none() {
        return Ok(0);
    }
    let reported: Vec<(Unit, &UnitRow)> = usage
        .iter()
        .filter(|&(_, count)| count > 0)
        .filter_map(|(unit, _)| Some((unit, units().get(unit)?)))
        .collect();
    let parts: Vec<&str> = reported
        .iter()
        .filter(|(_, part)| row.contains(part))
        .map(|(unit, _)| unit.key())
        .collect();
    let parts = if parts.is_empty() { overlapping(row, &reported) } else { parts };
    if parts.is_empty() {
        return Ok(0);
    }
    Err(PriceError::MissingUsage { unit: unit.key(), parts: parts.join("`, `") })
}

/// Two reported units whose common part is `row`: without a separate count it cannot be distinguished.
fn overlapping(row: &UnitRow, reported: &[(Unit, &UnitRow)]) -> Vec<&'static str> {
    for (index, (left_unit, left)) in reported.iter().enumerate() {
        for (right_unit, right) in reported.iter().skip(index + 1) {
            let apart = !left.contains(right) && !right.contains(left);
            let common = left.dimensions | right.dimensions == row.dimensions;
            if apart && common && units().compatible(left, right) {
                return vec![left_unit.key(), right_unit.key()];
            }
        }
    }
    Vec::new()
}
