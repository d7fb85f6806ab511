//! `cargo xtask bench`: ratios to a peer in one run, and whether a late step costs what an early one did.

use std::path::Path;
use std::process::Command;

/// The steps between which the cost of one is measured, early and late.
const WINDOWS: [(u64, u64); 2] = [(10, 20), (10_000, 10_010)];
/// How far the two may differ, in per cent.
const TOLERANCE: u64 = 5;

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let folder = root.join("benches/peers");
    let built = Command::new("cargo").args(["build", "--release"]).current_dir(&folder).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("the benchmarks do not build".to_owned());
    }
    let ratios = Command::new("target/release/ratios").current_dir(&folder).status();
    if !ratios.is_ok_and(|status| status.success()) {
        return Err("the benchmark failed".to_owned());
    }
    let replay = Command::new("target/release/replay").current_dir(&folder).status();
    if !replay.is_ok_and(|status| status.success()) {
        return Err("the benchmark of replay failed".to_owned());
    }
    let ledger = Command::new("target/release/ledger").current_dir(&folder).status();
    if !ledger.is_ok_and(|status| status.success()) {
        return Err("the benchmark of the ledger failed".to_owned());
    }
    flat(&folder)
}

/// Instructions are counted by callgrind: the same on a busy machine.
fn flat(folder: &Path) -> Result<(), String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed, so instructions a step are not counted");
        return Ok(());
    }
    let mut costs = Vec::new();
    for (from, to) in WINDOWS {
        let whole = instructions(folder, to)?.saturating_sub(instructions(folder, from)?);
        let cost = whole / (to - from);
        println!("a step from {from} to {to}: {cost} instructions");
        costs.push(cost);
    }
    let (least, most) = (costs.iter().min().unwrap_or(&0), costs.iter().max().unwrap_or(&0));
    if most * 100 > least * (100 + TOLERANCE) {
        return Err(format!("a late step costs more than {TOLERANCE} % more than an early one"));
    }
    println!("flat within {TOLERANCE} %");
    Ok(())
}

fn instructions(folder: &Path, steps: u64) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "target/release/flat"])
        .arg(steps.to_string())
        .current_dir(folder)
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let counted =
        said.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, n)| n.trim());
    counted.and_then(|n| n.parse().ok()).ok_or_else(|| "callgrind counted nothing".to_owned())
}
