//! Amounts, strings and patterns: reading them, and reading them in a gauge's unit.

use alloc::format;
use alloc::string::{String, ToString};
use core::ops::Range;

use super::gauge::Unit;
use crate::diagnostic::Diagnostic;
use crate::limits::{MAX_READ_DOLLARS, MAX_STRING};
use crate::units::{Millis, Money, MoneyError, PICOS_PER_DOLLAR, WallTime, scaled_decimal};

/// A literal, kept as written so that a named condition prints as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub(crate) raw: String,
    pub(crate) value: LiteralValue,
}

/// The value of a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LiteralValue {
    /// A bare number, perhaps with decimals, `k` or `M`; in thousandths, so that `1.5k` is exact.
    Number { thousandths: u128, whole: bool },
    /// Dollars.
    Money(Money),
    /// A duration.
    Duration(Millis),
    /// Hundredths of a percent.
    Percent(u64),
    /// A string, or a bare name.
    Text(String),
    /// A pattern between slashes.
    Pattern(String),
}

impl Literal {
    /// A string literal.
    pub(crate) fn text(text: &str) -> Self {
        Self { raw: quoted(text), value: LiteralValue::Text(text.to_string()) }
    }

    /// A whole number.
    pub(crate) fn count(n: u64) -> Self {
        let value = LiteralValue::Number { thousandths: u128::from(n) * 1_000, whole: true };
        Self { raw: n.to_string(), value }
    }

    /// An amount of money, written with its sign.
    pub(crate) fn money(money: Money) -> Self {
        Self { raw: money.to_string(), value: LiteralValue::Money(money) }
    }

    /// A duration.
    pub(crate) fn duration(duration: Millis) -> Self {
        Self { raw: duration.to_string(), value: LiteralValue::Duration(duration) }
    }

    const fn kind(&self) -> &'static str {
        match &self.value {
            LiteralValue::Number { .. } => "a bare number",
            LiteralValue::Money(_) => "an amount of money",
            LiteralValue::Duration(_) => "a duration",
            LiteralValue::Percent(_) => "a percentage",
            LiteralValue::Text(_) => "a string",
            LiteralValue::Pattern(_) => "a pattern",
        }
    }

    /// The amount in `unit`, for the gauge or argument called `name`.
    pub(crate) fn amount(
        &self,
        unit: Unit,
        name: &str,
        span: Range<usize>,
    ) -> Result<u64, Diagnostic> {
        match (&self.value, unit) {
            (LiteralValue::Number { thousandths, whole }, Unit::Count | Unit::Tokens) => {
                whole_number(*thousandths, *whole, name, span)
            }
            (LiteralValue::Money(money), Unit::Money) => Ok(money.picos()),
            (LiteralValue::Duration(duration), Unit::Duration) => Ok(duration.0),
            (LiteralValue::Percent(percent), Unit::Percent) => Ok(*percent),
            (LiteralValue::Text(text), Unit::WallTime) => wall_time(text, span).map(|t| t.0),
            _ => Err(self.wrong_unit(unit, name, span)),
        }
    }

    fn wrong_unit(&self, unit: Unit, name: &str, span: Range<usize>) -> Diagnostic {
        let number = match &self.value {
            LiteralValue::Number { .. } => Some(self.raw.as_str()),
            _ => None,
        };
        let (wanted, help) = match unit {
            Unit::Money => (
                "an amount of money",
                match number.and_then(|raw| raw.replace('_', "").parse::<Money>().ok()) {
                    Some(money) => format!(
                        "write `{money}` (in a shell between single quotes) or `{}usd`",
                        money.to_decimal()
                    ),
                    None => "write for example `$2.00` or `2.00usd`".to_string(),
                },
            ),
            Unit::Duration => (
                "a duration",
                match number {
                    Some(raw) => format!("write `{raw}s` for seconds, `{raw}m` for minutes"),
                    None => "write for example `90s`, `10m` or `1h30m`".to_string(),
                },
            ),
            Unit::Percent => (
                "a percentage",
                match number {
                    Some(raw) => format!("write `{raw}%`"),
                    None => "write for example `90%`".to_string(),
                },
            ),
            Unit::WallTime => ("a time", "write for example `\"2026-11-30T12:00Z\"`".to_string()),
            Unit::Count | Unit::Tokens => {
                let millions = self.raw.strip_suffix('m').filter(|number| {
                    number.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '_'))
                });
                let help = match millions {
                    Some(number) => format!("millions need an uppercase M: write `{number}M`"),
                    None => "write for example `25` or `200k`".to_string(),
                };
                ("a whole number", help)
            }
        };
        Diagnostic::new(
            format!("`{name}` is compared with {wanted}, not with {}", self.kind()),
            span,
        )
        .with_help(help)
    }
}

fn whole_number(
    thousandths: u128,
    whole: bool,
    name: &str,
    span: Range<usize>,
) -> Result<u64, Diagnostic> {
    if !whole || !thousandths.is_multiple_of(1_000) {
        return Err(Diagnostic::new(
            format!("`{name}` is a whole number; fractions are not counted"),
            span,
        )
        .with_help("write for example `25` or `1.5k`"));
    }
    u64::try_from(thousandths / 1_000).map_err(|_| {
        Diagnostic::new("the number is too large", span).with_help("leave the key out for no limit")
    })
}

/// Reads an RFC 3339 time; seconds may be left out.
pub(crate) fn wall_time(text: &str, span: Range<usize>) -> Result<WallTime, Diagnostic> {
    let bad = || {
        Diagnostic::new(format!("`{text}` is not a time with an offset"), span.clone())
            .with_help("write for example `2026-11-30T12:00Z` or `2026-11-30T12:00:00+02:00`")
    };
    let time: jiff::Timestamp = text.parse().map_err(|_| bad())?;
    u64::try_from(time.as_millisecond()).map(WallTime).map_err(|_| bad())
}

/// The literal form of a wall time.
pub(crate) fn wall_text(time: WallTime) -> String {
    i64::try_from(time.0)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| time.0.to_string(), |t| t.to_string())
}

/// Reads the string that begins at `at`; returns it with its length in the text.
pub(crate) fn string(text: &str, at: usize) -> Result<(Literal, usize), Diagnostic> {
    let (_, rest) = text.split_at(at);
    let mut chars = rest.char_indices();
    let quote = chars.next().map_or('"', |(_, c)| c);
    let mut value = String::new();
    while let Some((index, c)) = chars.next() {
        match c {
            c if c == quote => {
                check_length(value.len(), at..at + index)?;
                let raw = quoted(&value);
                return Ok((Literal { raw, value: LiteralValue::Text(value) }, index + 1));
            }
            '\\' => {
                let escaped = chars.next().map(|(_, c)| c);
                value.push(match escaped {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some(c @ ('\\' | '"' | '\'')) => c,
                    _ => {
                        return Err(Diagnostic::new(
                            "unknown escape in a string",
                            at + index..at + index + 2,
                        )
                        .with_help(r#"known are \n \t \r \\ \" \'"#));
                    }
                });
            }
            c => value.push(c),
        }
    }
    Err(Diagnostic::new("the string does not end", at..text.len())
        .with_help(format!("close it with {quote}")))
}

/// Reads the pattern between slashes that begins at `at`.
pub(crate) fn pattern(text: &str, at: usize) -> Result<(Literal, usize), Diagnostic> {
    let (_, rest) = text.split_at(at);
    let mut value = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((index, c)) = chars.next() {
        match c {
            '/' => {
                check_length(value.len(), at..at + index)?;
                let raw = pattern_text(&value);
                return Ok((Literal { raw, value: LiteralValue::Pattern(value) }, index + 1));
            }
            '\\' => match chars.next() {
                Some((_, '/')) => value.push('/'),
                Some((_, other)) => value.extend(['\\', other]),
                None => break,
            },
            c => value.push(c),
        }
    }
    Err(Diagnostic::new("the pattern does not end", at..text.len()).with_help("close it with /"))
}

fn check_length(length: usize, span: Range<usize>) -> Result<(), Diagnostic> {
    if length > MAX_STRING {
        return Err(Diagnostic::new(
            format!("the string has {length} bytes; at most {MAX_STRING} are read"),
            span,
        ));
    }
    Ok(())
}

/// The string as a literal in double quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The pattern as a literal between slashes.
pub(crate) fn pattern_text(pattern: &str) -> String {
    let mut out = String::from("/");
    let mut escaped = false;
    for c in pattern.chars() {
        if c == '/' && !escaped {
            out.push('\\');
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    out.push('/');
    out
}

/// Reads the amount that begins at `at`: `25`, `200k`, `$2.00`, `50c`, `1h30m`.
pub(crate) fn amount(text: &str, at: usize) -> Result<(Literal, usize), Diagnostic> {
    let (_, rest) = text.split_at(at);
    let length = rest
        .char_indices()
        .find(|&(index, c)| index > 0 && !(c.is_ascii_alphanumeric() || c == '.' || c == '_'))
        .map_or(rest.len(), |(index, c)| if c == '%' { index + 1 } else { index });
    let (raw, _) = rest.split_at(length);
    let span = at..at + length;
    if raw.starts_with('-') {
        return Err(Diagnostic::new("amounts are never negative", span));
    }
    if raw == "$" && !number_before(text, at).is_empty() {
        return Err(Diagnostic::new("the dollar sign is written before the amount", span)
            .with_help(format!("write `${}`", number_before(text, at))));
    }
    if raw.starts_with('.') || raw == "$" || raw.starts_with("$.") {
        return Err(eaten_by_the_shell(span));
    }
    let value = amount_value(raw).map_err(|problem| problem.into_diagnostic(raw, span))?;
    Ok((Literal { raw: raw.to_string(), value }, length))
}

/// The number that ends at `at`, as in `2$`.
fn number_before(text: &str, at: usize) -> &str {
    let (before, _) = text.split_at(at);
    let rest = before.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '_'));
    before.strip_prefix(rest).unwrap_or_default()
}

/// The error for `.00` or nothing where an amount belongs: a shell replaced `$2` by an empty variable.
pub(crate) fn eaten_by_the_shell(span: Range<usize>) -> Diagnostic {
    Diagnostic::new("an amount is missing here", span)
        .with_help("a shell may have eaten `$2`: use single quotes, or write 2.00usd")
}

enum AmountProblem {
    NotANumber,
    Money(MoneyError),
    UnknownUnit(String),
    TooLarge,
}

impl AmountProblem {
    fn into_diagnostic(self, raw: &str, span: Range<usize>) -> Diagnostic {
        match self {
            Self::NotANumber => Diagnostic::new(format!("`{raw}` is not an amount"), span)
                .with_help(
                    "amounts look like `25`, `200k`, `$2.00`, `50c`, `90s`, `1h30m` or `90%`",
                ),
            Self::Money(error) => Diagnostic::new(format!("`{raw}` is {error}"), span),
            Self::UnknownUnit(unit) => Diagnostic::new(format!("`{unit}` is not a unit"), span)
                .with_help("units are $, usd, c, k, M, ms, s, m, h and d"),
            Self::TooLarge => Diagnostic::new(format!("`{raw}` is too large"), span),
        }
    }
}

fn amount_value(raw: &str) -> Result<LiteralValue, AmountProblem> {
    let money = |text: &str| text.parse().map(LiteralValue::Money).map_err(AmountProblem::Money);
    if let Some(dollars) = raw.strip_prefix('$') {
        return money(dollars);
    }
    if let Some(percent) = raw.strip_suffix('%') {
        return hundredths(percent);
    }
    let digits = raw.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(raw.len());
    let (number, unit) = raw.split_at(digits);
    match unit {
        "" => thousandths(number, 1),
        "k" | "K" => thousandths(number, 1_000),
        "M" => thousandths(number, 1_000_000),
        "usd" | "USD" => money(number),
        "c" => cents(number),
        _ => duration(raw),
    }
}

/// A count in thousandths: finer fractions are kept only as "not an integer".
fn thousandths(number: &str, factor: u128) -> Result<LiteralValue, AmountProblem> {
    // Nine decimals are more than `M` can make whole; what lies beyond cannot be a count.
    match scaled_decimal(number, 9) {
        Ok(scaled) => {
            let scaled = scaled.checked_mul(factor).ok_or(AmountProblem::TooLarge)?;
            let whole = scaled.is_multiple_of(1_000_000_000);
            Ok(LiteralValue::Number { thousandths: scaled / 1_000_000, whole })
        }
        Err(MoneyError::TooFine) => Ok(LiteralValue::Number { thousandths: 0, whole: false }),
        Err(MoneyError::TooLarge) => Err(AmountProblem::TooLarge),
        Err(MoneyError::NotANumber) => Err(AmountProblem::NotANumber),
    }
}

/// A percentage in hundredths of a percent; finer limits could not be observed.
fn hundredths(number: &str) -> Result<LiteralValue, AmountProblem> {
    let scaled = scaled_decimal(number, 2).map_err(|error| match error {
        MoneyError::TooLarge => AmountProblem::TooLarge,
        MoneyError::TooFine | MoneyError::NotANumber => AmountProblem::NotANumber,
    })?;
    u64::try_from(scaled).map(LiteralValue::Percent).map_err(|_| AmountProblem::TooLarge)
}

fn cents(number: &str) -> Result<LiteralValue, AmountProblem> {
    let picos = scaled_decimal(number, 10).map_err(AmountProblem::Money)?;
    let limit = u128::from(MAX_READ_DOLLARS) * u128::from(PICOS_PER_DOLLAR);
    match u64::try_from(picos) {
        Ok(picos) if u128::from(picos) <= limit => {
            Ok(LiteralValue::Money(Money::from_picos(picos)))
        }
        _ => Err(AmountProblem::Money(MoneyError::TooLarge)),
    }
}

/// `1h30m`, `90s`, `1.5h`: parts of falling unit.
fn duration(raw: &str) -> Result<LiteralValue, AmountProblem> {
    let mut rest = raw;
    let mut total: u64 = 0;
    let mut last_size = u64::MAX;
    while !rest.is_empty() {
        let digits =
            rest.find(|c: char| c.is_ascii_alphabetic()).ok_or(AmountProblem::NotANumber)?;
        let (number, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, after) = tail.split_at(end);
        let size: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            other => return Err(AmountProblem::UnknownUnit(other.to_string())),
        };
        if size >= last_size {
            return Err(AmountProblem::NotANumber);
        }
        last_size = size;
        let scaled = scaled_decimal(number, 3).map_err(|_| AmountProblem::NotANumber)?;
        let ms = scaled.checked_mul(u128::from(size)).ok_or(AmountProblem::TooLarge)?;
        if !ms.is_multiple_of(1_000) {
            return Err(AmountProblem::NotANumber);
        }
        let ms = u64::try_from(ms / 1_000).map_err(|_| AmountProblem::TooLarge)?;
        total = total.checked_add(ms).ok_or(AmountProblem::TooLarge)?;
        rest = after;
    }
    Ok(LiteralValue::Duration(Millis(total)))
}

/// A duration or whole number of seconds, for the seeds' `MaxSeconds(60)`.
pub(crate) fn seconds(literal: &Literal, span: Range<usize>) -> Result<u64, Diagnostic> {
    match literal.value {
        LiteralValue::Number { .. } => {
            literal.amount(Unit::Count, "seconds", span).map(|s| Millis::from_secs(s).0)
        }
        _ => literal.amount(Unit::Duration, "seconds", span),
    }
}
