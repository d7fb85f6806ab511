//! Budgets over time as they are written: `[budget.NAME]` of a policy file.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer};

use super::write::toml_string;

/// A `[budget.NAME]` table, as text. The runtime reads it, because windows need a clock and time zones.
///
/// ```
/// use endstop_core::Policy;
///
/// let policy = Policy::from_toml("[budget.me]\nlimit = \"$5 per day\"\n")?;
/// assert_eq!(policy.budgets["me"].limit, ["$5 per day"]);
/// assert_eq!(Policy::from_toml(&policy.to_toml())?, policy);
/// # Ok::<(), endstop_core::expr::Diagnostic>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BudgetTable {
    /// The limits: "$5 per day", "2M tokens per hour", "1000 steps per week", "$20" forever, "$10 per rolling 5h".
    /// One limit, or a list of limits that all apply.
    #[serde(deserialize_with = "one_or_more")]
    #[cfg_attr(feature = "schema", schemars(with = "OneOrMore"))]
    pub limit: Vec<String>,
    /// The part of a limit at which a warning is printed, such as "80%".
    #[serde(default)]
    pub warn: Option<String>,
    /// The budget that each charge counts in as well.
    #[serde(default)]
    pub parent: Option<String>,
    /// The reaction of a run to a full budget: "refuse" (default), it stops, or "pause", it waits for the reset.
    #[serde(default)]
    pub on_full: Option<String>,
    /// Models whose calls draw on it, whichever budget their run has; `*` stands for any text.
    #[serde(default)]
    pub models: Vec<String>,
    /// Providers whose calls draw on it.
    #[serde(default)]
    pub providers: Vec<String>,
    /// The time zone of hours, days, weeks and months, such as "Europe/Berlin"; UTC by default.
    #[serde(default)]
    pub timezone: Option<String>,
    /// The file that has the table, for errors. Readers of text leave it out.
    #[serde(skip)]
    pub origin: Option<String>,
}

/// A text, or a list of texts.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "`limit` is a text such as `$5 per day`, or a list of such texts")]
enum OneOrMore {
    /// One limit.
    One(String),
    /// Limits that all hold.
    More(Vec<String>),
}

fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(match OneOrMore::deserialize(from)? {
        OneOrMore::One(limit) => alloc::vec![limit],
        OneOrMore::More(limits) => limits,
    })
}

impl BudgetTable {
    /// The table as it is written.
    pub(super) fn to_toml(&self, name: &str) -> String {
        let list = |texts: &[String]| {
            let texts: Vec<String> = texts.iter().map(|text| toml_string(text)).collect();
            format!("[{}]", texts.join(", "))
        };
        let mut out = format!("\n[budget.{}]\nlimit = {}\n", toml_string(name), list(&self.limit));
        let words = [
            ("warn", &self.warn),
            ("parent", &self.parent),
            ("on_full", &self.on_full),
            ("timezone", &self.timezone),
        ];
        for (key, word) in words {
            if let Some(word) = word {
                out.push_str(&format!("{key} = {}\n", toml_string(word)));
            }
        }
        for (key, texts) in [("models", &self.models), ("providers", &self.providers)] {
            if !texts.is_empty() {
                out.push_str(&format!("{key} = {}\n", list(texts)));
            }
        }
        out
    }
}
