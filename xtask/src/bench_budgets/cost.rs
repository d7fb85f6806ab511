//! The cost of reservation and settlement in each store, and the least that it can be.
//!
//! A separate file because each row of the table has one.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::tools::Tools;
use super::{COST, COST_RATE, Found, Row};

/// A store of the table.
struct Store {
    /// Its name in what the example prints.
    name: &'static str,
    shown: &'static str,
    /// The floors of a request: their names in that output, and in the table.
    floors: &'static [(&'static str, &'static str)],
    /// The median that is wanted, in µs.
    aim: Option<u64>,
}

const STORES: [Store; 4] = [
    Store { name: "memory", shown: "in memory", floors: &[], aim: None },
    Store {
        name: "sqlite",
        shown: "SQLite",
        floors: &[("sqlite commit", "a bare commit to the same file")],
        aim: Some(60),
    },
    Store {
        name: "redis everysec",
        shown: "Redis, `appendfsync everysec`",
        floors: &[("redis everysec ping", "`PING`"), ("redis everysec set", "`SET`")],
        aim: Some(250),
    },
    Store {
        name: "redis always",
        shown: "Redis, `appendfsync always`",
        floors: &[("redis always ping", "`PING`"), ("redis always set", "`SET`")],
        aim: Some(250),
    },
];

pub(super) fn measure(tools: &Tools, is_quick: bool) -> Result<Found, String> {
    let example = &tools.example;
    let output = Command::new(example)
        .arg(if is_quick { "1000" } else { "10000" })
        .env("TMPDIR", &tools.place.directory)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("`{}`: {error}", example.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let all: BTreeMap<String, Value> =
        lines.filter_map(|line| Some((line.get("name")?.as_str()?.to_owned(), line))).collect();
    let mut found = Found { is_skipped: !tools.has_server(), ..Found::default() };
    if !output.status.success() {
        found.must(false, "the measurement of the stores failed");
    }
    for Store { name, shown, floors, aim } in STORES {
        let Some(times) = all.get(name).and_then(times) else { continue };
        let floors: Vec<String> = floors
            .iter()
            .filter_map(|(floor, shown)| {
                Some(format!("{shown} {}", all.get(*floor).and_then(self::times)?))
            })
            .collect();
        let mut text = times;
        if !floors.is_empty() {
            text.push_str(&format!(
                "; floor, once for each of the two requests: {}",
                floors.join(", ")
            ));
        }
        if let Some(aim) = aim {
            text.push_str(&format!("; aim: {aim} µs at the median"));
        }
        found.rows.push(Row {
            what: COST,
            tried: format!("one reservation and its settlement, {shown}, one client"),
            found: text,
        });
    }
    for fsync in ["everysec", "always"] {
        let rates: Vec<String> = [1, 2, 8, 32]
            .iter()
            .filter_map(|count| {
                let rate = all.get(&format!("redis {fsync} rate {count}"))?.get("per_second")?;
                Some(format!("{rate} by {count}"))
            })
            .collect();
        if !rates.is_empty() {
            found.rows.push(Row {
                what: COST_RATE,
                tried: format!(
                    "one reservation and its settlement by clients at once, `appendfsync {fsync}`"
                ),
                found: rates.join(", "),
            });
        }
    }
    Ok(found)
}

fn times(line: &Value) -> Option<String> {
    let of = |key: &str| line.get(key).and_then(Value::as_f64);
    Some(format!("{:.0} µs at the median, {:.0} µs at 99%", of("median_us")?, of("p99_us")?))
}
