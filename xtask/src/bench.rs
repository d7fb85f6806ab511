//! `cargo xtask bench`: ratios to a peer in one run, and whether a late step costs what an early one did.

use std::path::Path;
use std::process::Command;

/// The steps between which the cost of one of the core is measured, early and late.
const OF_CORE: [(u64, u64); 2] = [(10, 20), (10_000, 10_010)];
/// The same for the agent loop: lists of messages grow now and then, which a few steps do not even out.
const OF_AGENT: [(u64, u64); 2] = [(10, 1_010), (10_000, 11_000)];
/// How much more a late one may cost, in per cent.
const TOLERANCE: u64 = 5;

/// The measurements, in this order: the binary, and its name in errors.
const BINARIES: [(&str, &str); 5] = [
    ("ratios", "conditions"),
    ("replay", "replay"),
    ("ledger", "the ledger"),
    ("agent", "the agent loop"),
    ("agent_bytes", "what the agent loop keeps"),
];

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let directory = root.join("benches/peers");
    build(&directory, &[])?;
    // A peer of the loop turns on what would slow the other benchmarks down.
    build(&directory, &["--features", "rig", "--bin", "agent"])?;
    for (binary, what) in BINARIES {
        let program = Path::new("target/release").join(binary);
        let status = Command::new(program).current_dir(&directory).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("the benchmark of {what} failed"));
        }
    }
    flat(&directory, "the core", &OF_CORE, &[])?;
    flat(&directory, "the agent loop", &OF_AGENT, &["agent"])
}

fn build(directory: &Path, more: &[&str]) -> Result<(), String> {
    let built = Command::new("cargo")
        .args(["build", "--release", "--target-dir", "target"])
        .args(more)
        .current_dir(directory)
        .status();
    if built.is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        Err("the benchmarks do not build".to_owned())
    }
}

/// Instructions are counted by callgrind: the same on a busy machine.
fn flat(
    directory: &Path,
    what: &str,
    windows: &[(u64, u64); 2],
    words: &[&str],
) -> Result<(), String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed, so instructions a step are not counted");
        return Ok(());
    }
    let mut costs = Vec::new();
    for &(from, to) in windows {
        let [early, late] = [from, to].map(|steps| instructions(directory, steps, words));
        let whole = late?.saturating_sub(early?);
        let cost = whole / (to - from);
        println!("{what}, a step from {from} to {to}: {cost} instructions");
        costs.push(cost);
    }
    let (early, late) = (costs.first().unwrap_or(&0), costs.last().unwrap_or(&0));
    if late * 100 > early * (100 + TOLERANCE) {
        return Err(format!(
            "{what}: a late step costs more than {TOLERANCE} % more than an early one"
        ));
    }
    println!("flat within {TOLERANCE} %");
    Ok(())
}

fn instructions(directory: &Path, steps: u64, words: &[&str]) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "target/release/flat"])
        .arg(steps.to_string())
        .args(words)
        .current_dir(directory)
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let counted =
        said.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, n)| n.trim());
    counted.and_then(|n| n.parse().ok()).ok_or_else(|| "callgrind counted nothing".to_owned())
}
