//! The spend that a gateway has recorded, by its control API. A separate file because it is built for Unix only.

use endstop_gateway::control_source::SpendReport;
use jiff::tz::TimeZone;

use super::selection::{Selection, Since};
use crate::command::control::{ServerArgs, escaped};
use crate::error::CliError;

/// The spend at the gateway. `None` without --server.
///
/// # Errors
/// Returns an error if the gateway cannot be asked, or nothing is recorded there.
pub(super) fn report(
    server: &ServerArgs,
    selection: &Selection,
) -> Result<Option<SpendReport>, CliError> {
    let Some(gateway) = server.gateway()? else { return Ok(None) };
    let answer = gateway.get(&path_of(selection)?)?;
    gateway.read(answer).map(Some)
}

/// The path of the question. Days are sent as they are written: the gateway knows which day it is.
fn path_of(selection: &Selection) -> Result<String, CliError> {
    let since = selection.since.map(|since| match since {
        Since::Date(date) => format!("&since={date}"),
        Since::Days(days) => format!("&since={days}d"),
    });
    let zone = escaped(&name_of(&selection.timezone)?);
    let by = selection.by.name();
    Ok(format!("/endstop/v1/spend?by={by}{}&timezone={zone}", since.unwrap_or_default()))
}

/// The name of a time zone, or its offset. The zone of this machine is not that of the gateway.
fn name_of(zone: &TimeZone) -> Result<String, CliError> {
    if let Some(name) = zone.iana_name() {
        return Ok(name.to_owned());
    }
    let offset = zone.to_fixed_offset().map_err(|_| {
        CliError::new("the time zone of this machine has no name")
            .with_hint("write a zone such as `--timezone Europe/Berlin`")
    })?;
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.unsigned_abs() / 60;
    Ok(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
}

#[cfg(test)]
mod tests;
