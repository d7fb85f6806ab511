//! `cargo xtask bench`: ratios to a peer in one run, and whether a late step costs what an early one did.

mod against;

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

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    match words {
        [] => beside_peers(root),
        ["--against", revision] => against::run(root, revision, &[]),
        ["--against", revision, "--only", only @ ..] if !only.is_empty() => {
            against::run(root, revision, only)
        }
        _ => {
            Err("`bench` takes --against REV [--only NAME..], or one of budgets, gateway and spend"
                .to_owned())
        }
    }
}

fn beside_peers(root: &Path) -> Result<(), String> {
    let directory = root.join("benches/peers");
    let target = Path::new("target");
    build(&directory, target, &[])?;
    build_agent(&directory, target)?;
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

/// Builds the benchmarks. A relative `target` is below their directory.
fn build(directory: &Path, target: &Path, more: &[&str]) -> Result<(), String> {
    let built = Command::new("cargo")
        .args(["build", "--release", "--target-dir"])
        .arg(target)
        .args(more)
        .current_dir(directory)
        .status();
    if built.is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        Err("the benchmarks do not build".to_owned())
    }
}

/// The benchmark of the loop is built apart: a peer turns on what would slow the other benchmarks down.
fn build_agent(directory: &Path, target: &Path) -> Result<(), String> {
    build(directory, target, &["--features", "rig", "--bin", "agent"])
}

fn has_valgrind() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok()
}

/// Instructions are counted by callgrind: the same on a busy machine.
fn flat(
    directory: &Path,
    what: &str,
    windows: &[(u64, u64); 2],
    words: &[&str],
) -> Result<(), String> {
    if !has_valgrind() {
        println!("skipped: valgrind is not installed, so instructions a step are not counted");
        return Ok(());
    }
    let mut costs = Vec::new();
    for &(from, to) in windows {
        let cost = per_step(directory, Path::new("target/release/flat"), (from, to), words)?;
        println!("{what}, a step from {from} to {to}: {cost} instructions");
        costs.push(cost);
    }
    let (early, late) = (costs.first().unwrap_or(&0), costs.last().unwrap_or(&0));
    if late * 100 > early * (100 + TOLERANCE) {
        return Err(format!(
            "{what}: a late step costs more than {TOLERANCE}% more than an early one"
        ));
    }
    println!("flat within {TOLERANCE}%");
    Ok(())
}

/// The instructions of a step between two of them.
fn per_step(
    directory: &Path,
    program: &Path,
    (from, to): (u64, u64),
    words: &[&str],
) -> Result<u64, String> {
    let [early, late] = [from, to].map(|steps| instructions(directory, program, steps, words));
    Ok(late?.saturating_sub(early?) / (to - from))
}

fn instructions(
    directory: &Path,
    program: &Path,
    steps: u64,
    words: &[&str],
) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
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
