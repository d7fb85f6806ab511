//! The used part of a subscription's windows, as providers report it in the headers of their responses.
//!
//! Anthropic names the window and gives a fraction: `anthropic-ratelimit-unified-5h-utilization: 0.42`. Codex numbers its
//! windows, and gives a percentage and the length of each: `x-codex-primary-used-percent: 42.5` and
//! `x-codex-primary-window-minutes: 300`. Other headers and values are left alone, such as the windows of single models
//! (`x-codex-NAME-primary-used-percent`).

use http::HeaderMap;

const UNIFIED: &str = "anthropic-ratelimit-unified-";
const UTILIZATION: &str = "-utilization";
const CODEX: &str = "x-codex-";
const USED_PERCENT: &str = "-used-percent";

/// A window by its length, such as `5h`, and its used part in hundredths of a percent.
pub(super) type UsedWindow = (String, u64);

/// Returns the windows that a response reports.
pub(super) fn used_windows(headers: &HeaderMap) -> impl Iterator<Item = UsedWindow> {
    headers.iter().filter_map(|(name, value)| {
        let (name, value) = (name.as_str(), value.to_str().ok()?);
        if let Some(window) = name.strip_prefix(UNIFIED).and_then(|it| it.strip_suffix(UTILIZATION))
        {
            return Some((window.to_owned(), scaled(value, 4)?));
        }
        let number = name.strip_prefix(CODEX)?.strip_suffix(USED_PERCENT)?;
        if !matches!(number, "primary" | "secondary") {
            return None;
        }
        let minutes = headers.get(format!("{CODEX}{number}-window-minutes"))?.to_str().ok()?;
        Some((length_of(minutes.trim().parse().ok()?), scaled(value, 2)?))
    })
}

/// The name of a window of `minutes`, in the largest unit that divides it. Reported lengths can be a few minutes off
/// the hour.
fn length_of(minutes: u64) -> String {
    /// As far as Codex lets a length be off.
    const ROUNDING: u64 = 3;
    let hour = minutes.saturating_add(ROUNDING) / 60 * 60;
    let minutes = if hour > 0 && hour.abs_diff(minutes) <= ROUNDING { hour } else { minutes };
    match minutes {
        _ if minutes > 0 && minutes.is_multiple_of(1_440) => format!("{}d", minutes / 1_440),
        _ if minutes > 0 && minutes.is_multiple_of(60) => format!("{}h", minutes / 60),
        _ => format!("{minutes}m"),
    }
}

/// A decimal number in units of ten to the power of minus `decimals`; finer digits are cut off. `None` for anything else.
fn scaled(text: &str, decimals: usize) -> Option<u64> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let digits =
        whole.bytes().chain(fraction.bytes().chain(std::iter::repeat(b'0')).take(decimals));
    digits.into_iter().try_fold(0u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit.checked_sub(b'0')?))
    })
}

#[cfg(test)]
mod tests;
