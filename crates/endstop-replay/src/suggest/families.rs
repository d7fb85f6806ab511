//! The candidates: one row per family, its values from tight to loose.

use endstop_core::Policy;
use endstop_core::expr::parse;
use endstop_core::policy::{Action, Rule};

/// One condition at many values.
#[derive(Debug)]
pub(super) struct Family {
    /// The rule's name in the policy file.
    pub(super) id: &'static str,
    /// The condition, with `{}` for the value.
    pub(super) template: &'static str,
    /// The values, from tight to loose.
    pub(super) values: &'static [&'static str],
    /// What it is for.
    pub(super) purpose: &'static str,
    /// Whether it is proposed although it loses more than is allowed: the loosest value, because something has to
    /// bound a run.
    pub(super) is_limit: bool,
    /// Whether it reads time.
    pub(super) is_time: bool,
}

impl Family {
    /// The condition at the value of that index.
    pub(super) fn condition(&self, value: usize) -> Option<String> {
        self.values.get(value).map(|value| self.template.replace("{}", value))
    }
}

const COUNTS: &[&str] = &["2", "3", "4", "5", "6", "7", "8", "10", "12"];

/// In the order in which they are fitted together: what costs no success to use comes first.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        id: "loops",
        template: "no_progress(){}",
        values: &[""],
        purpose: "loops, by the limits that docs/detection.md measured",
        is_limit: false,
        is_time: false,
    },
    Family {
        id: "stale",
        template: "stale >= {}",
        values: &["20", "25", "30", "40", "50", "60", "80"],
        purpose: "percent of steps with only results seen before",
        is_limit: false,
        is_time: false,
    },
    Family {
        id: "repeats",
        template: "repeats >= {}",
        values: COUNTS,
        purpose: "the same call with the same result, repeated",
        is_limit: false,
        is_time: false,
    },
    Family {
        id: "cycles",
        template: "cycles >= {}",
        values: COUNTS,
        purpose: "a cycle of two to four calls, with the same results",
        is_limit: false,
        is_time: false,
    },
    Family {
        id: "no_progress",
        template: "no_progress({})",
        values: COUNTS,
        purpose: "steps in a row without new results",
        is_limit: false,
        is_time: false,
    },
    Family {
        id: "near_duplicate",
        template: "streak(near_duplicate) >= {}",
        values: COUNTS,
        purpose: "responses that repeat earlier ones",
        is_limit: false,
        is_time: false,
    },
    Family {
        id: "errors",
        template: "streak(errored) >= {}",
        values: COUNTS,
        purpose: "steps in a row in which something failed",
        is_limit: false,
        is_time: false,
    },
    Family {
        id: "steps",
        template: "steps >= {}",
        values: &[
            "2", "3", "4", "5", "6", "8", "10", "12", "15", "20", "25", "30", "40", "50", "60",
            "80", "100", "120", "150", "200", "250", "300", "400", "500", "600", "800", "1000",
            "1500", "2000", "5000",
        ],
        purpose: "model calls",
        is_limit: true,
        is_time: false,
    },
    Family {
        id: "cost",
        template: "cost >= {}",
        values: &[
            "$0.01", "$0.02", "$0.03", "$0.05", "$0.07", "$0.10", "$0.15", "$0.20", "$0.25",
            "$0.30", "$0.40", "$0.50", "$0.60", "$0.80", "$1.00", "$1.25", "$1.50", "$2.00",
            "$2.50", "$3.00", "$4.00", "$5.00", "$7.50", "$10.00", "$15.00", "$20.00", "$30.00",
            "$50.00", "$75.00", "$100.00", "$200.00", "$500.00",
        ],
        purpose: "money",
        is_limit: true,
        is_time: false,
    },
    Family {
        id: "tokens",
        template: "tokens >= {}",
        values: &[
            "2k", "5k", "10k", "20k", "30k", "50k", "75k", "100k", "150k", "200k", "300k", "500k",
            "750k", "1M", "1.5M", "2M", "3M", "5M", "7.5M", "10M", "15M", "20M", "30M", "50M",
            "100M", "200M", "500M",
        ],
        purpose: "tokens, input and output",
        is_limit: true,
        is_time: false,
    },
    Family {
        id: "time",
        template: "active >= {}",
        values: &[
            "10s", "20s", "30s", "1m", "90s", "2m", "3m", "5m", "7m30s", "10m", "15m", "20m",
            "30m", "45m", "1h", "90m", "2h", "3h", "4h", "6h", "8h", "12h", "24h", "48h", "168h",
        ],
        purpose: "time, pauses not counted",
        is_limit: true,
        is_time: true,
    },
];

/// A policy of one stop rule for each value of each family, in their order.
pub(super) fn policies() -> Vec<Policy> {
    let values = FAMILIES.iter().flat_map(|family| {
        (0..family.values.len()).filter_map(move |value| family.condition(value))
    });
    values
        .map(|condition| {
            let mut policy = Policy::default();
            // A row of the table that is no condition is found by a test.
            policy.rules.extend(parse(&condition).map(|c| Rule::new("stop", Action::Stop, c)));
            policy
        })
        .collect()
}
