//! The rows: what the test command runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Depth;
use crate::redis_server;

/// A step of the test command.
#[derive(Debug)]
pub(super) struct Step {
    /// Name in the summary.
    pub(super) name: &'static str,
    /// From which depth on it runs.
    pub(super) depth: Depth,
    /// The commands that it runs in the checkout at the given root.
    pub(super) plan: fn(&Path) -> Plan,
}

/// The work of a step on this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Command lines, in order; the first that fails ends the step.
    Run(Vec<Vec<String>>),
    /// Nothing, for this reason.
    Skip(String),
}

/// Every step, in order: the quick answers first.
pub(super) const STEPS: &[Step] = &[
    Step { name: "format", depth: Depth::Push, plan: format },
    Step { name: "lints", depth: Depth::Push, plan: lints },
    Step { name: "redis", depth: Depth::Push, plan: redis },
    Step { name: "tests", depth: Depth::Push, plan: tests },
    Step { name: "doc tests", depth: Depth::Push, plan: doc_tests },
    Step { name: "examples", depth: Depth::Push, plan: examples },
    Step { name: "loom", depth: Depth::Push, plan: loom },
    Step { name: "shuttle", depth: Depth::Push, plan: shuttle },
    Step { name: "clients", depth: Depth::Push, plan: clients },
    Step { name: "licenses", depth: Depth::Push, plan: licenses },
    Step { name: "all clients", depth: Depth::Nightly, plan: all_clients },
    Step { name: "long shuttle", depth: Depth::Nightly, plan: long_shuttle },
    Step { name: "long gateways", depth: Depth::Nightly, plan: long_gateways },
    Step { name: "long models", depth: Depth::Nightly, plan: long_models },
    Step { name: "long kills", depth: Depth::Nightly, plan: long_kills },
    Step { name: "valkey", depth: Depth::Nightly, plan: valkey },
    Step { name: "budgets", depth: Depth::Nightly, plan: budgets },
    Step { name: "spend", depth: Depth::Nightly, plan: spend },
    Step { name: "fuzz", depth: Depth::Nightly, plan: fuzz },
    Step { name: "long fuzz", depth: Depth::Nightly, plan: long_fuzz },
    Step { name: "every byte", depth: Depth::Nightly, plan: every_byte },
    Step { name: "large files", depth: Depth::Nightly, plan: large_files },
    Step { name: "packages", depth: Depth::Nightly, plan: packages },
    Step { name: "channels", depth: Depth::Nightly, plan: channels },
    Step { name: "public API", depth: Depth::Nightly, plan: public_api },
    Step { name: "documentation", depth: Depth::Nightly, plan: documentation },
    Step { name: "mutants", depth: Depth::Nightly, plan: mutants },
];

/// Examples that end on their own.
const EXAMPLES: &[&str] = &["own_loop", "counter"];

/// Crates that other tests optimize, and that the feature `models` has built again: it makes `serde_json` keep the order
/// of keys, and the others depend on that. A crate that both share must not be here, or it would be built again, too.
const BUILT_AGAIN: [&str; 4] =
    ["endstop-core", "endstop-price", "endstop-transcript", "serde_json"];

/// Random schedules that each of the tests tries where a change is pushed.
const SHORT_SHUTTLE_SCHEDULES: u32 = 10_000;

/// Ten times as many, each night.
const LONG_SHUTTLE_SCHEDULES: u32 = 100_000;

/// Calls over gateways that are killed each night; a push makes 200.
const LONG_GATEWAY_CALLS: u32 = 2_000;

/// How many times the six kills of processes that write a history are repeated each night.
const LONG_HISTORY_ROUNDS: u32 = 20;

/// Sequences of calls that are compared with a model each night; a push tries the 256 that are usual.
const LONG_MODEL_CASES: u32 = 20_000;

/// Kills of a process that counts in budgets each night; a push tries 40.
const LONG_KILLS: u32 = 200;

/// The other server whose protocol and functions are the same.
const VALKEY: &str = "valkey-server";

/// For each target with the project's own toolchain. A push has mutated documents in place of it
/// (`crates/endstop-cli/tests/fuzzed.rs`), because the build for coverage takes four minutes.
const FUZZ_SECONDS: u32 = 60;

/// The flags with which libFuzzer sees which branches an input takes.
const COVERAGE_FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cdebug-assertions",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Ten minutes a target, where a nightly toolchain is installed.
const LONG_FUZZ_SECONDS: u32 = 600;

fn format(_: &Path) -> Plan {
    one("cargo fmt --all --check")
}

fn lints(_: &Path) -> Plan {
    one("cargo clippy --workspace --all-targets --all-features -- -D warnings")
}

/// The server that some tests start, and the programs of a guide. Without them the tests skip themselves, and this step
/// reports it.
fn redis(root: &Path) -> Plan {
    match redis_server::provide(root) {
        Ok(program) => match redis_server::missing(root) {
            missing if missing.is_empty() => {
                Plan::Run(vec![vec![program.display().to_string(), "--version".to_owned()]])
            }
            missing => Plan::Skip(format!(
                "the trial of docs/guide/many-gateways.md is not run: `{}` is not installed",
                missing.join("` and `")
            )),
        },
        Err(why) => Plan::Skip(format!(
            "the tests of budgets in Redis test nothing: {why}; Debian has `redis-server`"
        )),
    }
}

/// The feature `models` apart: what it depends on changes how JSON objects are ordered and numbers read, for
/// every crate that is built with it. Its few tests take seconds, so the crates that are built again for them
/// ([`BUILT_AGAIN`]) are not optimized again.
///
/// Many tests wait for a process or a clock, so half as many again run at a time as there are cores: on two cores that took
/// 314 s in place of 456.
fn tests(root: &Path) -> Plan {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let at_a_time = format!("NEXTEST_TEST_THREADS={}", cores + cores.div_ceil(2));
    let lines = if cargo_has("nextest") {
        [
            "cargo nextest run --workspace --features endstop/otel --no-fail-fast --failure-output final",
            "cargo nextest run --workspace --exclude endstop-cli --features endstop/otel,endstop/models,endstop/sqlite,endstop/transcripts --no-fail-fast --failure-output final --test model_* --test agent -E package(endstop)&(binary(/^model/)+test(/^provider::/))",
        ]
    } else {
        [
            "cargo test --workspace --features endstop/otel --no-fail-fast --lib --bins --tests --examples",
            "cargo test -p endstop --features models,sqlite,transcripts --no-fail-fast --test model_* --test agent",
        ]
    };
    let mut lines = lines.map(|line| with_redis(root, &format!("env {at_a_time} {line}")));
    if let Some(of_models) = lines.last_mut() {
        of_models.extend(BUILT_AGAIN.iter().flat_map(|name| not_optimized(name)));
    }
    Plan::Run(lines.to_vec())
}

/// The flags with which cargo does not optimize a crate.
fn not_optimized(name: &str) -> [String; 2] {
    ["--config".to_owned(), format!("profile.dev.package.{name}.opt-level=0")]
}

/// Chosen by what their names contain: with `--doc`, cargo builds 36 crates again, without the features of what only tests
/// need. With the `PATH` of the tests, which build scripts read.
fn doc_tests(root: &Path) -> Plan {
    let names = "(line ";
    let line = "cargo test --workspace --features endstop/otel --no-fail-fast --quiet --";
    Plan::Run(vec![[with_redis(root, line), vec![names.to_owned()]].concat()])
}

/// The doc tests have built them. Built alone, without the features of what only tests need, they take 22 crates again.
fn examples(_: &Path) -> Plan {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let runs = EXAMPLES.iter().map(|name| vec![format!("{target}/debug/examples/{name}")]);
    Plan::Run(runs.collect())
}

/// Finds links that lead nowhere. It takes a minute, so not at each push.
fn documentation(_: &Path) -> Plan {
    one("env RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps")
}

/// Every interleaving of small models.
fn loom(_: &Path) -> Plan {
    one(
        "cargo test --manifest-path checks/Cargo.toml --target-dir target/checks --features loom --test loom_*",
    )
}

fn shuttle(_: &Path) -> Plan {
    shuttle_of(SHORT_SHUTTLE_SCHEDULES)
}

fn long_shuttle(_: &Path) -> Plan {
    shuttle_of(LONG_SHUTTLE_SCHEDULES)
}

fn shuttle_of(schedules: u32) -> Plan {
    one(&format!(
        "env ENDSTOP_SHUTTLE_SCHEDULES={schedules} cargo test --manifest-path checks/Cargo.toml --target-dir target/checks --features shuttle --test shuttle_*"
    ))
}

/// Gateways on one Redis: killed under more load, and a call that waits for the end of a window.
fn long_gateways(root: &Path) -> Plan {
    let line = format!(
        "env ENDSTOP_GATEWAY_CALLS={LONG_GATEWAY_CALLS} ENDSTOP_LONG_WAITS=1 cargo test -p endstop-cli --test many_gateways -- load:: pauses::"
    );
    Plan::Run(vec![with_redis(root, &line)])
}

fn long_models(_: &Path) -> Plan {
    one(&format!(
        "env PROPTEST_CASES={LONG_MODEL_CASES} cargo test --release -p endstop-runtime --test ledger_model"
    ))
}

/// Budgets in a file under kills, and under writes that fail at each size of the file. And the history under kills.
fn long_kills(_: &Path) -> Plan {
    let budgets = format!(
        "env ENDSTOP_KILLS={LONG_KILLS} cargo test -p endstop-runtime --features sqlite --test account -- kill:: write_errors::"
    );
    let history = format!(
        "env ENDSTOP_HISTORY_ROUNDS={LONG_HISTORY_ROUNDS} cargo test -p endstop-runtime --features sqlite --test history -- kill::"
    );
    Plan::Run(vec![words(&budgets), words(&history)])
}

/// The tests of shared budgets, keys and runs on Valkey; the other steps start the first server that they find, usually Redis.
fn valkey(_: &Path) -> Plan {
    if !answers(VALKEY, &["--version"]) {
        return Plan::Skip(format!("`{VALKEY}` is not installed, so only Redis is tested"));
    }
    // Of the same packages and features as the other tests, which have built them.
    one(&format!(
        "env ENDSTOP_REDIS_SERVER={VALKEY} cargo test --workspace --features endstop/otel --test account --test many_gateways"
    ))
}

/// Budgets over processes, gateways and kills. It reports what it skips.
fn budgets(root: &Path) -> Plan {
    Plan::Run(vec![with_redis(root, "cargo xtask bench budgets")])
}

/// How quickly `endstop spend` reads a gigabyte of sessions: it prints that, and fails if calls are missing.
fn spend(_: &Path) -> Plan {
    one("cargo xtask bench spend")
}

/// It reports what it skips.
fn clients(_: &Path) -> Plan {
    one("cargo xtask clients")
}

fn all_clients(_: &Path) -> Plan {
    one("cargo xtask clients --all")
}

fn licenses(_: &Path) -> Plan {
    if !cargo_has("deny") {
        return Plan::Skip("cargo-deny is not installed".to_owned());
    }
    one("cargo deny check bans licenses sources")
}

/// Every target for a minute, built at once by the toolchain of the project: no other is needed, and no
/// address sanitizer, because the fuzzed code has no `unsafe`. Optimized little: full optimization takes minutes, which
/// a minute of fuzzing does not repay.
fn fuzz(root: &Path) -> Plan {
    let targets = fuzz_targets(root);
    if targets.is_empty() {
        return Plan::Skip("there is no fuzz target".to_owned());
    }
    let flags = format!("CARGO_ENCODED_RUSTFLAGS={}", COVERAGE_FLAGS.join("\u{1f}"));
    let cargo = |verb: &str| {
        let level = "CARGO_PROFILE_RELEASE_OPT_LEVEL=1";
        let words = ["env", &flags, level, "cargo", verb, "--quiet", "--release"];
        let places = "--manifest-path fuzz/Cargo.toml --target-dir target/fuzz --target host-tuple";
        words.into_iter().chain(places.split(' ')).map(str::to_owned).collect::<Vec<_>>()
    };
    let runs = targets.iter().map(|target| {
        let limits = format!(
            "--bin {target} -- -verbosity=0 -print_final_stats=1 -max_total_time={FUZZ_SECONDS} -artifact_prefix=target/fuzz/{target}-"
        );
        [cargo("run"), words(&limits)].concat()
    });
    Plan::Run([cargo("build")].into_iter().chain(runs).collect())
}

/// With the address sanitizer and a corpus that is kept, by `cargo fuzz` on a nightly toolchain.
fn long_fuzz(root: &Path) -> Plan {
    if !answers("cargo", &["+nightly", "--version"]) {
        return Plan::Skip("no nightly toolchain is installed".to_owned());
    }
    // Kept below `target`, so that a second run finds it.
    let mut lines =
        vec![words("cargo install --quiet --locked --root target/tools cargo-fuzz@0.13.2")];
    lines.extend(fuzz_targets(root).iter().map(|target| {
        words(&format!(
            "rustup run nightly target/tools/bin/cargo-fuzz fuzz run {target} -- -max_total_time={LONG_FUZZ_SECONDS}"
        ))
    }));
    Plan::Run(lines)
}

/// Each example of a transcript, cut and damaged at each of its bytes; a push tries some of them. Of the same packages and
/// features as the other tests, which have built them.
fn every_byte(_: &Path) -> Plan {
    one(
        "env ENDSTOP_EVERY_BYTE=1 cargo test --workspace --features endstop/otel --test readers -- contract::",
    )
}

/// Reads a gibibyte of each format, and checks the memory that this takes.
fn large_files(_: &Path) -> Plan {
    one(
        "cargo test --release -p endstop-transcript --test memory --config env.ENDSTOP_MEMORY_MIB=\"1024\" -- --nocapture",
    )
}

/// Everything that would be published, built from its package alone.
fn packages(_: &Path) -> Plan {
    one(
        "cargo package --workspace --exclude xtask --allow-dirty --quiet --target-dir target/package-build",
    )
}

/// Everything that people install, with the debug binary. The task reports what it skips.
fn channels(_: &Path) -> Plan {
    one("cargo xtask dist --check --debug")
}

/// Compares what each crate exports with the newest version that has a tag.
fn public_api(root: &Path) -> Plan {
    if !cargo_has("semver-checks") {
        return Plan::Skip("cargo-semver-checks is not installed".to_owned());
    }
    match newest_tag(root) {
        Some(tag) => {
            one(&format!("cargo semver-checks --workspace --exclude xtask --baseline-rev {tag}"))
        }
        None => {
            Plan::Skip("no version has a tag yet, so there is nothing to compare with".to_owned())
        }
    }
}

/// The newest tag of a version that this commit comes after.
fn newest_tag(root: &Path) -> Option<String> {
    let mut git = Command::new("git");
    let output = git
        .arg("-C")
        .arg(root)
        .args(["describe", "--tags", "--abbrev=0", "--match=v*"])
        .output()
        .ok()?;
    let tag = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !tag.is_empty()).then_some(tag)
}

/// The names of the files in `fuzz/fuzz_targets`, sorted.
fn fuzz_targets(root: &Path) -> Vec<String> {
    let Ok(directory) = fs::read_dir(root.join("fuzz/fuzz_targets")) else { return Vec::new() };
    let mut targets: Vec<String> = directory
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| path.file_stem()?.to_str().map(str::to_owned))
        .collect();
    targets.sort();
    targets
}

/// Mutants of what differs from the branch `main`, or in the last commit on it.
fn mutants(root: &Path) -> Plan {
    if !cargo_has("mutants") {
        return Plan::Skip("cargo-mutants is not installed".to_owned());
    }
    let mut diff = git_diff(root, "main...HEAD");
    if diff.is_empty() {
        diff = git_diff(root, "HEAD~1");
    }
    if diff.is_empty() {
        return Plan::Skip("there is no difference to mutate".to_owned());
    }
    let file = root.join("target/mutants.diff");
    if let Err(error) = fs::write(&file, diff) {
        return Plan::Skip(format!("cannot write `target/mutants.diff`: {error}"));
    }
    one("cargo mutants --workspace --in-diff target/mutants.diff")
}

/// The difference to `base`; empty where git does not know it.
fn git_diff(root: &Path, base: &str) -> Vec<u8> {
    let output = Command::new("git").arg("-C").arg(root).args(["diff", base]).output();
    output.map(|output| output.stdout).unwrap_or_default()
}

/// The words of a line that finds the server of [`redis`] on its `PATH`.
fn with_redis(root: &Path, line: &str) -> Vec<String> {
    let path = redis_server::path_variable(root);
    let environment = path.map_or_else(Vec::new, |path| vec!["env".to_owned(), path]);
    [environment, words(line)].concat()
}

fn one(line: &str) -> Plan {
    Plan::Run(vec![words(line)])
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Whether `cargo <subcommand>` is installed.
fn cargo_has(subcommand: &str) -> bool {
    answers("cargo", &[subcommand, "--version"])
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests;
