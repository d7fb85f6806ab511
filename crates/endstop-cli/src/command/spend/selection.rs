//! Which calls count in the spend, and in which row.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use endstop::runtime::history::RecordedCall;
use endstop_gateway::control_source::{SourceError, SourceErrorKind, SpendQuery};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};

use super::tally::UNNAMED;

/// The row of calls without a budget or a key.
const NONE: &str = "(none)";

/// The rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum By {
    /// The day of each call
    Day,
    /// The model that answered
    Model,
    /// The directory of the transcript, or the one in which the run began
    Project,
    /// The run
    Run,
    /// The budget over time
    Budget,
    /// The key of the client
    Key,
    /// The tool: its calls, failures and the bytes of its results
    Tool,
}

impl By {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Model => "model",
            Self::Project => "project",
            Self::Run => "run",
            Self::Budget => "budget",
            Self::Key => "key",
            Self::Tool => "tool",
        }
    }
}

/// The beginning of what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    Date(Date),
    Days(i64),
}

/// The calls that count, and their rows.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) by: By,
    pub(super) since: Option<Since>,
    pub(super) timezone: TimeZone,
}

impl Selection {
    /// Reads a query of the control API, with the values that the options take.
    ///
    /// # Errors
    /// Returns an error if a value cannot be used.
    pub(super) fn of_query(query: &SpendQuery) -> Result<Self, SourceError> {
        let wrong = |name: &str, value: &str, advice: String| {
            let error = format!("`{value}` is not a value of `{name}`");
            SourceError::new(SourceErrorKind::Unusable, error).with_hint(advice)
        };
        let by = query.by.as_deref().map(|value| {
            let by = By::from_str(value, false).ok().filter(|by| *by != By::Tool);
            let known = "write day, model, project, run, budget or key";
            by.ok_or_else(|| wrong("by", value, known.to_owned()))
        });
        let from = query.since.as_deref();
        let from = from.map(|value| since(value).map_err(|advice| wrong("since", value, advice)));
        let timezone = query.timezone.as_deref();
        let timezone =
            timezone.map(|value| zone(value).map_err(|advice| wrong("timezone", value, advice)));
        Ok(Self {
            by: by.transpose()?.unwrap_or(By::Day),
            since: from.transpose()?,
            timezone: timezone.transpose()?.unwrap_or(TimeZone::UTC),
        })
    }

    /// The rows of a call of the history. Only with budgets it can be in several.
    pub(super) fn rows(&self, call: &RecordedCall) -> Vec<String> {
        let one = |name: &Option<String>, missing: &str| {
            vec![name.clone().unwrap_or_else(|| missing.to_owned())]
        };
        match self.by {
            By::Day => vec![self.day(call.at.0)],
            By::Model => match &call.tool {
                Some(tool) => vec![format!("(tool {tool})")],
                None => one(&call.model, UNNAMED),
            },
            By::Project => vec![call.directory.clone()],
            By::Run => vec![call.run.clone()],
            By::Key => one(&call.key, NONE),
            By::Budget if call.budgets.is_empty() => vec![NONE.to_owned()],
            By::Budget => call.budgets.clone(),
            By::Tool => Vec::new(),
        }
    }

    /// The first millisecond that counts.
    pub(super) fn begin(&self) -> Option<u64> {
        let date = match self.since? {
            Since::Date(date) => date,
            Since::Days(days) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
                let now = Timestamp::from_second(i64::try_from(now.as_secs()).ok()?).ok()?;
                let today = now.to_zoned(self.timezone.clone()).date();
                // Today is one of the days.
                let back = days.saturating_sub(1).max(0);
                today.checked_sub(jiff::Span::new().try_days(back).ok()?).ok()?
            }
        };
        let begin = date.to_zoned(self.timezone.clone()).ok()?.timestamp().as_millisecond();
        Some(u64::try_from(begin).unwrap_or(0))
    }

    /// The day of a time in milliseconds since 1970.
    pub(super) fn day(&self, wall: u64) -> String {
        let time = i64::try_from(wall).ok().filter(|wall| *wall > 0);
        let time = time.and_then(|wall| Timestamp::from_millisecond(wall).ok());
        let day = time.map(|time| time.to_zoned(self.timezone.clone()).date().to_string());
        day.unwrap_or_else(|| "(no time)".to_owned())
    }
}

pub(super) fn since(text: &str) -> Result<Since, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    match days {
        Some(days) => Ok(Since::Days(days.into())),
        None => text
            .parse()
            .map(Since::Date)
            .map_err(|_| "write a date such as `2026-01-31`, or days such as `7d`".to_owned()),
    }
}

pub(super) fn zone(text: &str) -> Result<TimeZone, String> {
    if text == "local" {
        return TimeZone::try_system().map_err(|_| {
            "the system names no time zone; write an offset such as `+02:00`".to_owned()
        });
    }
    if text.starts_with(['+', '-']) {
        return offset(text).map(TimeZone::fixed);
    }
    TimeZone::get(text).map_err(|_| {
        "write a zone such as `Europe/Berlin`, an offset such as `+02:00`, or `local`".to_owned()
    })
}

fn offset(text: &str) -> Result<Offset, String> {
    let wrong = || "write an offset such as `+02:00`".to_owned();
    let (sign, rest) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (_, Some(rest)) => (-1, rest),
        _ => return Err(wrong()),
    };
    let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
    let (hours, minutes): (i32, i32) =
        (hours.parse().map_err(|_| wrong())?, minutes.parse().map_err(|_| wrong())?);
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
        return Err(wrong());
    }
    Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).map_err(|_| wrong())
}

#[cfg(test)]
mod tests;
