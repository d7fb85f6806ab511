//! Dollars of runs: their sum, and their form in JSON.
//!
//! A separate file because reports, usage and comparisons all have dollars.

use endstop_core::units::Money;
use serde::Deserialize as _;

/// More than $18 million is more than 64 bits of pico-dollars hold; the sum then stays where it is.
pub(super) fn sum(one: Money, other: Money) -> Money {
    one.checked_add(other).unwrap_or(one)
}

pub(super) fn dollars<S: serde::Serializer>(
    money: &Money,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&money.to_decimal())
}

pub(super) fn dollars_from<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Money, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

pub(super) fn dollars_or_none<S: serde::Serializer>(
    money: &Option<Money>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match money {
        Some(money) => dollars(money, serializer),
        None => serializer.serialize_none(),
    }
}
