//! Lengths of time on the command line, as expressions have them.
//!
//! A separate file because the flags of the history read them as those of commands do.

use std::time::Duration;

use endstop::clock;
use endstop::core::condition::gauge::Unit;
use endstop::core::expr::{parse, parse_amount};
use endstop::core::units::Millis;

/// Checks a length of time and returns it as it is written: `90s`, `10m`, `1h30m`.
pub(crate) fn time(text: &str) -> Result<String, String> {
    let is_plain = text.chars().all(char::is_alphanumeric);
    match parse(&format!("active >= {text}")) {
        Ok(_) if is_plain => Ok(text.to_owned()),
        _ if is_plain && text.parse::<u64>().is_ok() => {
            Err(format!("a time has a unit; did you mean `{text}s`?"))
        }
        _ => Err("write a time such as `90s`, `10m` or `1h30m`".to_owned()),
    }
}

/// Reads a length of time as the expressions do: `500ms`, `10s`, `1h30m`; `0s` and `0` are none.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let amount = parse_amount(&time(text)?, Unit::Duration).map_err(|error| error.to_string())?;
    Ok(Duration::from_millis(amount))
}

/// The whole milliseconds of a time; saturates.
pub(crate) fn millis(time: Duration) -> Millis {
    Millis(clock::millis(time))
}

#[cfg(test)]
mod tests;
