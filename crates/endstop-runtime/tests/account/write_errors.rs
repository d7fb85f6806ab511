//! Writes that the system refuses, at every size that the files can reach: an operation that failed has not happened, and
//! none that was acknowledged is lost.
//!
//! A disk that fails to synchronize or to read is not tested for any SQLite file: that needs a test file system (VFS) inside
//! SQLite, which is unsafe code, and this project has none.

use std::env;
use std::path::Path;
use std::process::Command;

use endstop_runtime::account::{Account, BudgetStore as _, SqliteBudgetStore};
use endstop_runtime::store::RunId;

use super::kill::{TOLD, is_long, tell};
use super::stores::{account, cents, committed, terms};

const STORE: &str = "ENDSTOP_LIMITED_BUDGETS";
/// More calls than the largest limit has room for.
const CALLS: u64 = 30;
/// The limits in blocks of 512 bytes: from one page of the database to about fifty of its log.
const BLOCKS: std::ops::Range<u64> = 8..400;

fn me() -> Account {
    account("me", &["$1000 per month", "$1000 per rolling 5h"])
}

#[test]
fn an_operation_whose_write_fails_has_not_happened() {
    if let Ok(path) = env::var(STORE) {
        return work(&path);
    }
    let directory = env::temp_dir().join(format!("endstop-limited-{}", RunId::new()));
    // Some of the limits, or each of them.
    let step = if is_long() { 1 } else { 13 };
    let mut acknowledged = 0;
    for blocks in BLOCKS.step_by(step) {
        let file = directory.join(format!("{blocks}/budgets.sqlite"));
        let (held, settled, failed) = run_limited(&file, blocks);
        assert!(failed > 0, "{blocks} blocks are enough for all: nothing was tested");
        let store = SqliteBudgetStore::open(&file).unwrap();
        let expected = (3 * settled, 10 * (held - settled));
        assert_eq!(committed(&store, &me()), expected, "{blocks} blocks");
        // It continues without the limit.
        store.reserve(&[&me()], cents(10), &terms("next")).unwrap();
        acknowledged += held;
    }
    assert!(acknowledged > 0, "no limit had room for a call: nothing was tested");
    std::fs::remove_dir_all(&directory).unwrap();
}

/// The child: calls that are reserved and settled, with each result.
fn work(path: &str) {
    let Ok(store) = SqliteBudgetStore::open(path) else { return tell("failed") };
    let me = me();
    for call in 0..CALLS {
        let id = call.to_string();
        let held = store.reserve(&[&me], cents(10), &terms(&id)).is_ok();
        tell(if held { "held" } else { "failed" });
        if held {
            let settled = store.settle(&id, cents(3)).is_ok();
            tell(if settled { "settled" } else { "failed" });
        }
    }
}

/// How many calls a child held and settled, and how many operations failed, while no file could be larger than so many blocks.
fn run_limited(file: &Path, blocks: u64) -> (u64, u64, u64) {
    let test = "write_errors::an_operation_whose_write_fails_has_not_happened";
    // The signal would end the process: then nothing would be refused.
    let limited = r#"trap '' XFSZ; ulimit -f "$1" || exit 9; shift; exec "$@""#;
    let output = Command::new("sh")
        .args(["-c", limited, "sh", &blocks.to_string()])
        .arg(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(STORE, file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let count = |what: &str| {
        let line = format!("{TOLD} {what}.");
        u64::try_from(text.lines().filter(|it| *it == line).count()).unwrap()
    };
    (count("held"), count("settled"), count("failed"))
}
