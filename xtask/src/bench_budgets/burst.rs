//! A burst of calls at once on one dollar through many gateways.
//!
//! A separate file because each row of the table has one.

use std::thread;

use super::http::{Api, Call};
use super::place::{Place, Prices, dollars};
use super::redis::RedisServer;
use super::{BURST, Found, Row};

pub(super) const CALLS: usize = 100;
pub(super) const MODEL: &str = "gpt-4o";
/// The most that a call may answer: about ten cents.
pub(super) const CAP: u64 = 8_000;
pub(super) const CHOICES: u64 = 2;
pub(super) const DOLLAR: u64 = 1_000_000_000_000;
const GATEWAYS: usize = 8;

/// The same call of another run.
pub(super) const fn call<'c>(run: &'c str, key: &'c str) -> Call<'c> {
    let (api, model, cap, choices) = (Api::Chat, MODEL, CAP, CHOICES);
    Call { run, api, model, cap, choices, is_stream: false, key }
}

pub(super) fn measure(place: &Place, server: &RedisServer) -> Result<Found, String> {
    let store = format!("{}?namespace=burst", server.url());
    let mut homes = Vec::new();
    for number in 0..GATEWAYS {
        homes.push(
            place.home(
                &format!("burst-{number}"),
                "[budget.me]\nlimit = [\"$1 per day\", \"$1\"]\n",
            )?,
        );
    }
    let first = homes.first().ok_or("no gateway")?;
    let sim = first.sim("long")?;
    let upstream = sim.upstream();
    let words = ["--upstream", &upstream, "--usd", "100", "--stop-with", "error"];
    let gateways: Result<Vec<_>, String> =
        homes.iter().map(|home| home.serve(&store, &words)).collect();
    let gateways = gateways?;
    thread::scope(|scope| {
        for (number, gateway) in (0..CALLS).zip(gateways.iter().cycle()) {
            scope.spawn(move || call(&format!("burst-{number}"), "x").make(&gateway.address));
        }
    });
    let (served, limit) = (sim.served()?, first.budget(Some(&store), &[])?);
    let billed = served.cost(Prices::of(first, MODEL)?);
    let over = billed.max(limit.spent).saturating_sub(DOLLAR);
    let mut found = Found::row(Row {
        what: BURST,
        tried: format!(
            "{CALLS} calls at once, of about $0.10 each, on `$1 per day` through {GATEWAYS} gateways on one Redis"
        ),
        found: format!(
            "{} served for {}; overshoot {}",
            served.calls,
            dollars(billed),
            dollars(over)
        ),
    });
    found.must(over == 0, "a burst over gateways passed its budget");
    found.must(limit.spent >= billed, "the budget counts less than was served");
    Ok(found)
}
