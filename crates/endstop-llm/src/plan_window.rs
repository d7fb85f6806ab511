//! The used part of a subscription's windows, as providers report it: in the headers of their responses, and Codex also in
//! its streams.
//!
//! Anthropic names the window and gives a fraction, and the time of the reset in Unix seconds:
//! `anthropic-ratelimit-unified-5h-utilization: 0.42` and `anthropic-ratelimit-unified-5h-reset: 1795000000`. Codex numbers
//! its windows, and gives a percentage, the length, and the reset as a time or as the seconds until then:
//! `x-codex-primary-used-percent: 42.5`, `x-codex-primary-window-minutes: 300`, `x-codex-primary-reset-at: 1795000000` or
//! `x-codex-primary-reset-after-seconds: 600`. Its event `codex.rate_limits` has the same fields. Other headers and values
//! are left alone, such as the windows of single models (`x-codex-NAME-primary-used-percent`).

use http::HeaderMap;

use crate::json::{Raw, fields, parse};

const UNIFIED: &str = "anthropic-ratelimit-unified-";
const UTILIZATION: &str = "-utilization";
const CODEX: &str = "x-codex-";
const USED_PERCENT: &str = "-used-percent";
/// The windows of Codex that are not those of single models.
const NUMBERED: [&str; 2] = ["primary", "secondary"];

/// A window of a subscription.
///
/// ```
/// use endstop_llm::{PlanReset, PlanWindow};
///
/// let mut headers = http::HeaderMap::new();
/// headers.insert("anthropic-ratelimit-unified-5h-utilization", "0.42".parse()?);
/// headers.insert("anthropic-ratelimit-unified-5h-reset", "1795000000".parse()?);
/// let resets = Some(PlanReset::AtSecond(1_795_000_000));
/// let window = PlanWindow { name: "5h".to_owned(), used: 4_200, resets };
/// assert_eq!(PlanWindow::of_headers(&headers), [window]);
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanWindow {
    /// Its length, such as `5h`.
    pub name: String,
    /// Its used part, in hundredths of a percent.
    pub used: u64,
    /// The time of its reset, if the provider reports it.
    pub resets: Option<PlanReset>,
}

/// The time at which a window resets.
///
/// See the example of [`PlanWindow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanReset {
    /// At this second since 1970-01-01T00:00Z.
    AtSecond(u64),
    /// The number of seconds after the report.
    AfterSeconds(u64),
}

impl PlanReset {
    /// Returns the time in milliseconds since 1970-01-01T00:00Z, for a report at `now`.
    #[must_use]
    pub const fn at(self, now: u64) -> u64 {
        match self {
            Self::AtSecond(second) => second.saturating_mul(1_000),
            Self::AfterSeconds(left) => now.saturating_add(left.saturating_mul(1_000)),
        }
    }
}

impl PlanWindow {
    /// Returns the windows that a response reports.
    #[must_use]
    pub fn of_headers(headers: &HeaderMap) -> Vec<Self> {
        let text = |name: String| headers.get(name).and_then(|value| value.to_str().ok());
        let windows = headers.iter().filter_map(|(name, value)| {
            let (name, value) = (name.as_str(), value.to_str().ok()?);
            let unified = name.strip_prefix(UNIFIED).and_then(|it| it.strip_suffix(UTILIZATION));
            if let Some(window) = unified {
                let resets = text(format!("{UNIFIED}{window}-reset")).and_then(second);
                return Some(Self { name: window.to_owned(), used: scaled(value, 4)?, resets });
            }
            let number = name.strip_prefix(CODEX)?.strip_suffix(USED_PERCENT)?;
            let of_window =
                |what: &str| text(format!("{CODEX}{number}-{what}")).unwrap_or_default();
            let is_numbered = NUMBERED.contains(&number);
            is_numbered
                .then(|| CodexText {
                    used: value,
                    minutes: of_window("window-minutes"),
                    at: of_window("reset-at"),
                    after: of_window("reset-after-seconds"),
                })?
                .window()
        });
        windows.collect()
    }

    /// The windows that an event of a stream reports. Empty for other events than `codex.rate_limits`, and for one
    /// about a single model.
    pub(crate) fn of_event(data: &str) -> Vec<Self> {
        let event: CodexEvent<'_> = parse(data).unwrap_or_default();
        let name = event.name.text();
        if name.is_some_and(|name| name != "codex") {
            return Vec::new();
        }
        let limits: CodexLimits<'_> = event.limits.read();
        let windows = [limits.primary, limits.secondary].map(|window| {
            let window: CodexWindow<'_> = window.read();
            let (used, minutes) = (window.used.json(), window.minutes.json());
            CodexText { used, minutes, at: window.at.json(), after: window.after.json() }.window()
        });
        windows.into_iter().flatten().collect()
    }
}

fields! {
    CodexEvent<'j> {
        limits: Raw<'j> = "rate_limits",
        name: Raw<'j> = "metered_limit_name",
    }
}

fields! {
    CodexLimits<'j> {
        primary: Raw<'j> = "primary",
        secondary: Raw<'j> = "secondary",
    }
}

fields! {
    CodexWindow<'j> {
        used: Raw<'j> = "used_percent",
        minutes: Raw<'j> = "window_minutes",
        at: Raw<'j> = "reset_at" | "resets_at",
        after: Raw<'j> = "reset_after_seconds" | "resets_in_seconds",
    }
}

/// A window of Codex as its numbers are written; what is not there is empty.
#[derive(Clone, Copy)]
struct CodexText<'t> {
    used: &'t str,
    minutes: &'t str,
    at: &'t str,
    after: &'t str,
}

impl CodexText<'_> {
    fn window(self) -> Option<PlanWindow> {
        let after = || scaled(self.after, 0).map(PlanReset::AfterSeconds);
        Some(PlanWindow {
            name: length_of(self.minutes.trim().parse().ok()?),
            used: scaled(self.used, 2)?,
            resets: second(self.at).or_else(after),
        })
    }
}

/// A time in Unix seconds.
fn second(text: &str) -> Option<PlanReset> {
    scaled(text, 0).filter(|second| *second > 0).map(PlanReset::AtSecond)
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
