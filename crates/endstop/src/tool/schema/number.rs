//! JSON values as a schema compares them: `1` and `1.0` are one number.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Whether two values are the same, numbers by what they are worth.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compared(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let in_b = |(name, a): (&String, &Value)| b.get(name).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(in_b)
        }
        _ => a == b,
    }
}

/// The order of two numbers: exact for integers, as floats otherwise.
pub(super) fn compared(a: &Number, b: &Number) -> Option<Ordering> {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// Whether a schema counts this as an integer: `3.0` is one.
pub(super) fn is_integer(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Whether a number is a multiple of another: exact for decimals that fit in 128 bits, so that `0.3` is a
/// multiple of `0.1`.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    if let Some((number, of)) = scaled(number, of) {
        return of != 0 && number.checked_rem(of) == Some(0);
    }
    let (Some(number), Some(of)) = (number.as_f64(), of.as_f64()) else { return false };
    (number / of).fract() == 0.0
}

/// A text that two values share exactly if they are the same.
pub(super) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => match integer(number) {
            Some(whole) => out.push_str(&whole.to_string()),
            None => out.push_str(&number.to_string()),
        },
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (name, value) in fields {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// The number as an integer, if it is one of at most 128 bits.
fn integer(number: &Number) -> Option<i128> {
    if let Some(whole) = number.as_i128() {
        return Some(whole);
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0)?;
    // `Display` writes a float without an exponent, so the text of a whole one parses.
    format!("{float:.0}").parse().ok()
}

/// Two numbers as integers in units of the smaller last decimal.
fn scaled(a: &Number, b: &Number) -> Option<(i128, i128)> {
    let ((a, a_decimals), (b, b_decimals)) = (decimal(a)?, decimal(b)?);
    let raised = |digits: i128, by: u32| digits.checked_mul(10_i128.checked_pow(by)?);
    let decimals = a_decimals.max(b_decimals);
    Some((
        raised(a, decimals.checked_sub(a_decimals)?)?,
        raised(b, decimals.checked_sub(b_decimals)?)?,
    ))
}

/// The digits of a number and how many of them are decimals.
fn decimal(number: &Number) -> Option<(i128, u32)> {
    if let Some(whole) = number.as_i128() {
        return Some((whole, 0));
    }
    let text = format!("{}", number.as_f64()?);
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{whole}{decimals}").parse().ok()?;
    Some((digits, u32::try_from(decimals.len()).ok()?))
}
