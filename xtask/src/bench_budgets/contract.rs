//! The contract of the stores and their generated schedules: the tests of the project, with more schedules than in a push.
//!
//! A separate file because each row of the table has one.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{CONTRACT, Found, Row};

/// How many times the usual number of schedules.
const LONG: u64 = 10;

/// The tests, built as the test command builds them.
const WORDS: [&str; 7] =
    ["test", "--quiet", "--workspace", "--features", "endstop/otel", "--test", "account"];

/// Builds the tests, so that no other row waits for that.
pub(super) fn build(root: &Path) -> Result<(), String> {
    let status = Command::new("cargo").args(WORDS).arg("--no-run").current_dir(root).status();
    if status.is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        Err("the tests of the stores do not build".to_owned())
    }
}

pub(super) fn measure(root: &Path, is_quick: bool) -> Result<Found, String> {
    let times = if is_quick { 1 } else { LONG };
    let output = Command::new("cargo")
        .args(WORDS)
        .args(["--", "--nocapture"])
        .env("ENDSTOP_SCHEDULES", times.to_string())
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run `cargo`: {error}"))?;
    let text =
        [&*String::from_utf8_lossy(&output.stdout), &*String::from_utf8_lossy(&output.stderr)]
            .join("\n");
    let after = |line: &str, word: &str| line.split_once(word).map(|(_, rest)| rest.to_owned());
    let schedules: Vec<String> =
        text.lines().filter_map(|line| after(line, "schedules: ")).collect();
    let passed = text.lines().find_map(|line| after(line, "test result: ok. "));
    let tests = passed.and_then(|rest| rest.split(' ').next().map(str::to_owned));
    let Some(tests) = tests.filter(|_| output.status.success()) else {
        let last: Vec<&str> = text.lines().rev().take(20).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        return Ok(Found::broken("the tests of the stores fail", &last.join("\n")));
    };
    Ok(Found::row(Row {
        what: CONTRACT,
        tried: format!(
            "`crates/endstop-runtime/tests/account.rs`; generated schedules of up to 80 acts of 8 owners on 2 handles: \
             reserve, grow, settle (up to three times the hold), repeat, correct, crash, reopen, expire, kill (in Redis), the \
             clock jumps by up to 50 h ({})",
            schedules.join(", ")
        ),
        found: format!(
            "{tests} tests passed; no window of any schedule passed its limit at any moment"
        ),
    }))
}
