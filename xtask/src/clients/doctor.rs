//! The answer of `endstop doctor` on a program, compared with its run.

use std::process::Command;

use serde_json::Value;

use super::programs::Way;
use super::run;

/// The compared parts of the answer of doctor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Diagnosis {
    is_limited: bool,
    way: String,
    hint: String,
}

impl Diagnosis {
    /// Runs a command that starts doctor with `--json`.
    ///
    /// # Errors
    /// If its output cannot be read.
    pub(super) fn of(command: &mut Command) -> Result<Self, String> {
        let (_, output, errors) = run::finished(command)?;
        let said: Value = serde_json::from_str(&output)
            .map_err(|error| format!("doctor: {error}: {}", run::tail(&errors)))?;
        let text = |key: &str| said.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_limited = said.get("is_limited").and_then(Value::as_bool).unwrap_or_default();
        Ok(Self { is_limited, way: text("way"), hint: text("hint") })
    }

    /// How it does not agree with a run that was limited in this way, or was not limited.
    pub(super) fn fault(&self, way: Way, was_limited: bool) -> Option<String> {
        let Self { is_limited, way: said, hint } = self;
        let agrees = match way {
            // Nothing limits it as it is, and doctor names the flag that does.
            Way::InterceptOnly => !is_limited && hint.contains("--intercept") && was_limited,
            Way::Variables | Way::Adapter | Way::Intercept => {
                *is_limited == was_limited && (!is_limited || said == way.name())
            }
        };
        let way = way.name();
        let was = if was_limited { "was" } else { "was not" };
        let says = if *is_limited { "limited" } else { "not limited" };
        (!agrees).then(|| format!("doctor says `{said}`, {says}; it {was} limited by `{way}`"))
    }

    /// The cell of the table.
    pub(super) fn in_words(&self) -> String {
        match (self.is_limited, self.hint.contains("--intercept")) {
            (true, _) => self.way.clone(),
            (false, true) => "no, use --intercept".to_owned(),
            (false, false) => self.way.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
