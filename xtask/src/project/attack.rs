//! `cargo xtask attack`: a misbehaving upstream, what it bills, and what the ledger says.
//!
//! Each row starts the real gateway with a limit, in front of an upstream that answers as the row says. That
//! upstream bills by its own price table and its own reading of requests: no code of Endstop's has a part in it.
//! An amount above the limit, or above the ledger, breaks a promise, unless the row rests on an assumption that
//! `docs/semantics.md` names.

mod assumption;
pub(super) mod bill;
pub(super) mod play;
pub(super) mod reply;
mod rows;
pub(super) mod upstream;

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use self::bill::DOLLAR;
use self::play::Played;
use self::rows::{Expected, Row};
use crate::page;

/// The page that has the table.
const PAGE: &str = "SECURITY.md";

/// Attacks that are known to break a limit, each with the reason. The command fails for them too, and says why; the test
/// fails where one of these holds, or another one breaks.
const KNOWN: &[(&str, &str)] = &[];

/// A row with its outcome.
#[derive(Debug)]
struct Finished {
    row: Row,
    played: Played,
}

/// How an attack ended, compared with what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgment {
    /// As it should.
    Holds,
    /// More is billed than the limit, as it may without this assumption.
    Assumed(&'static str),
    /// More is billed than the limit.
    AboveLimit,
    /// More is billed than the ledger has, so more of the same would pass any limit.
    AboveLedger,
    /// Calls were stopped that have to be let through.
    Stopped,
    /// Calls that have to be refused were let through, or were refused for another reason.
    NotRefused,
    /// It would not pass its limit without Endstop either.
    Harmless,
}

impl Finished {
    fn judgment(&self) -> Judgment {
        let Played { tries, unlimited, refused, calls, billed, .. } = self.played;
        let (is_refused, has_bill) = match self.row.expected {
            Expected::Refused(..) => (refused == tries && calls == 0, true),
            Expected::Bounded => (true, true),
            Expected::GoesOn | Expected::RestsOn(_) => (true, false),
        };
        let limit = self.row.limit.saturating_mul(DOLLAR) / 100;
        let found = if self.row.expected == Expected::GoesOn && calls < tries {
            Judgment::Stopped
        } else if billed > limit {
            Judgment::AboveLimit
        } else if billed > self.played.ledger() {
            Judgment::AboveLedger
        } else if !is_refused {
            Judgment::NotRefused
        } else if has_bill && unlimited <= limit {
            Judgment::Harmless
        } else {
            Judgment::Holds
        };
        match self.row.expected {
            Expected::RestsOn(assumption) if found != Judgment::Holds => {
                Judgment::Assumed(assumption.name())
            }
            _ => found,
        }
    }

    /// Why it is known to break, if it is.
    fn known(&self) -> Option<&'static str> {
        KNOWN.iter().find(|(name, _)| *name == self.row.name).map(|(_, why)| *why)
    }

    /// The promise that the attack broke, known or not.
    fn broken_promise(&self) -> Option<String> {
        let is_kept = matches!(self.judgment(), Judgment::Holds | Judgment::Assumed(_));
        let why = self.known().unwrap_or(self.row.what);
        (!is_kept).then(|| format!("{}: {}: {why}", self.row.name, self.result()))
    }

    /// The fault of a row, for the tests: an unknown broken promise, or a known one that is kept.
    #[cfg(test)]
    fn fault(&self) -> Option<String> {
        match (self.broken_promise(), self.known()) {
            (None, Some(_)) => Some(format!("{}: holds, but is listed as known", self.row.name)),
            (Some(promise), None) => Some(promise),
            _ => None,
        }
    }

    fn result(&self) -> String {
        let text = match self.judgment() {
            Judgment::Holds => match self.row.expected {
                Expected::Refused(status, _) => format!("holds: refused ({status})"),
                Expected::Bounded | Expected::GoesOn | Expected::RestsOn(_) => "holds".to_owned(),
            },
            Judgment::Assumed(name) => format!("assumes: {name}"),
            Judgment::AboveLimit => "ABOVE THE LIMIT".to_owned(),
            Judgment::AboveLedger => "ABOVE THE LEDGER".to_owned(),
            Judgment::Stopped => "STOPPED".to_owned(),
            Judgment::NotRefused => "NOT REFUSED".to_owned(),
            Judgment::Harmless => "NO ATTACK".to_owned(),
        };
        if self.known().is_some() { format!("{text} (known)") } else { text }
    }

    fn json(&self) -> Value {
        let Played { tries, unlimited, calls, billed, confirmed, unconfirmed, .. } = self.played;
        json!({
            "attack": self.row.name,
            "what": self.row.what,
            "limit_usd": dollars(self.row.limit.saturating_mul(DOLLAR) / 100),
            "tries": tries,
            "unlimited_usd": dollars(unlimited),
            "calls": calls,
            "billed_usd": dollars(billed),
            "confirmed_usd": dollars(confirmed),
            "unconfirmed_usd": dollars(unconfirmed),
            "result": self.result(),
            "known": self.known(),
        })
    }
}

/// Plays all attacks, or those of these names, and prints the outcomes: as a table, or with `--json` as JSON. With
/// `--write` puts the table into its page.
///
/// # Errors
/// If a limit breaks that should hold, or an attack cannot be played.
pub(super) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| word.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| !["--json", "--write"].contains(flag)) {
        return Err(format!("`{unknown}` is no option; there are --json and --write"));
    }
    if flags.contains(&"--write") && !names.is_empty() {
        return Err("`--write` takes no names: the page has all attacks".to_owned());
    }
    let finished = play_all(&chosen(&names)?)?;
    if flags.contains(&"--json") {
        let all: Vec<Value> = finished.iter().map(Finished::json).collect();
        println!("{:#}", Value::from(all));
    } else {
        println!("{}", table(&finished));
    }
    if flags.contains(&"--write") {
        page::write(root, PAGE, "attack", &table(&finished))?;
    }
    let faults: Vec<String> = finished.iter().filter_map(Finished::broken_promise).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn chosen(names: &[&str]) -> Result<Vec<Row>, String> {
    let all = rows::all();
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|row| row.name == **name)) {
        let known: Vec<&str> = all.iter().map(|row| row.name).collect();
        return Err(format!("`{unknown}` is no attack; there are {}", known.join(", ")));
    }
    Ok(all.into_iter().filter(|row| names.is_empty() || names.contains(&row.name)).collect())
}

fn play_all(rows: &[Row]) -> Result<Vec<Finished>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let play = |row: &Row| {
        let played = runtime.block_on(play::play(row));
        let played = played.map_err(|error| format!("{}: {error}", row.name))?;
        Ok(Finished { row: *row, played })
    };
    rows.iter().map(play).collect()
}

fn table(finished: &[Finished]) -> String {
    let mut text = "\
| attack | what is done | limit | tries | unlimited | calls | billed | confirmed | unconfirmed | result |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    for it in finished {
        let Played { tries, unlimited, calls, billed, confirmed, unconfirmed, .. } = it.played;
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "| {} | {} | ${} | {tries} | ${} | {calls} | ${} | ${} | ${} | {} |",
            it.row.name,
            it.row.what,
            dollars(it.row.limit.saturating_mul(DOLLAR) / 100),
            dollars(unlimited),
            dollars(billed),
            dollars(confirmed),
            dollars(unconfirmed),
            it.result(),
        );
    }
    let known = finished.iter().filter_map(|it| Some((it.row.name, it.known()?)));
    for (number, (name, why)) in known.enumerate() {
        let begin = if number == 0 { "\n" } else { "" };
        // As above.
        let _ = writeln!(text, "{begin}- `{name}` is known: {why}.");
    }
    text
}

/// Dollars with three places, rounded up.
fn dollars(picos: u64) -> String {
    let thousandths = picos.div_ceil(DOLLAR / 1_000);
    format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
}

#[cfg(test)]
mod tests;
