//! The goals of the gateway, and whether they were held. Nothing fails by them.

use std::fmt::Write;

use super::Measured;
use super::measure::{AT_ONCE, EVENTS, JSON, JSON_ALONE, PACED, PACED_ALONE};
use super::table::{cpu, named};

/// The time that the first byte may take longer than without a gateway: one or two wake-ups, and no timer, in
/// milliseconds.
const FIRST_BYTE_MS: f64 = 1.0;

/// A line for each goal, and how many times as much the peers cost.
pub(super) fn all(all: &[Measured]) -> String {
    let mut text = String::new();
    for name in ["endstop", "endstop-shared"] {
        let Some(measured) = named(all, name) else { continue };
        let _ = writeln!(text, "goals of {name}:");
        for (what, most, found) in goals(all, measured) {
            let _ = match found {
                Some(found) => {
                    let held = if found <= most { "held" } else { "MISSED" };
                    writeln!(text, "  {held:<6} {what}: {found:.2} (at most {most})")
                }
                None => writeln!(text, "  not measured: {what}"),
            };
        }
    }
    if let Some(ours) = named(all, "endstop") {
        for measured in all.iter().filter(|peer| !["direct", "endstop"].contains(&peer.name)) {
            text.push_str(&times(ours, measured));
        }
    }
    text
}

fn goals(all: &[Measured], ours: &Measured) -> Vec<(&'static str, f64, Option<f64>)> {
    let added = |case, what: fn(&super::measure::One) -> f64| {
        let direct = named(all, "direct")?.taken.median(case, what)?;
        Some(ours.taken.median(case, what)? - direct)
    };
    let most = |connections| {
        let (idle, streams): (Option<f64>, Option<f64>) =
            ours.memory.at.get(&connections).copied()?;
        Some(idle?.max(streams?))
    };
    vec![
        ("CPU µs per JSON request", 35.0, cpu(ours, JSON, 1.0)),
        ("CPU µs per stream of 53 events in one write", 40.0, cpu(ours, AT_ONCE, 1.0)),
        ("CPU µs per single chunk", 12.0, cpu(ours, PACED, EVENTS)),
        ("ms added, p50, c=1", 0.15, added(JSON_ALONE, |one| one.p50_ms)),
        ("ms added, p99, c=1", 1.0, added(JSON_ALONE, |one| one.p99_ms)),
        (
            "ms that the first byte comes later, c=1",
            FIRST_BYTE_MS,
            added(PACED_ALONE, |one| one.first_p50_ms),
        ),
        ("MiB at 64 connections", 20.0, most(64)),
        ("MiB at 1,000 connections", 60.0, most(1_000)),
    ]
}

fn times(ours: &Measured, peer: &Measured) -> String {
    let mut parts = Vec::new();
    for (what, case) in [("JSON", JSON), ("streams at once", AT_ONCE), ("single events", PACED)] {
        if let Some((ours, theirs)) = cpu(ours, case, 1.0).zip(cpu(peer, case, 1.0)) {
            parts.push(format!("{what} {:.2}", theirs / ours));
        }
    }
    format!("{}, CPU as multiples of endstop's: {}\n", peer.name, parts.join(", "))
}
