//! `cargo xtask shares`: what reservations cost those who use them. How long parallel calls take under a small limit,
//! with fair shares and without, and how much more a call holds than it spends.
//!
//! Both are measured with the real gateway on loopback. The first one needs nothing; the second one replays the
//! requests of recorded runs, which lie outside the project.

mod conversation;
mod holds;
mod parallel;

use std::path::Path;

use crate::page;

/// The page that has the tables.
const PAGE: &str = "docs/reservations.md";

/// Measures, and prints the tables; with `--write` puts them into their page.
///
/// # Errors
/// If something cannot be measured, more is spent than the limit, or the page cannot be written.
pub(super) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let is_written = match words {
        [] => false,
        ["--write"] => true,
        [unknown, ..] => return Err(format!("`{unknown}` is no option; there is --write")),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let parallel = runtime.block_on(parallel::table())?;
    println!("{parallel}");
    let Some(files) = conversation::files(root)? else {
        let why =
            format!("the recorded runs are not next to the project, in `{}`", conversation::PLACE);
        // The page has both tables between its marks.
        if is_written {
            return Err(format!("nothing was written: {why}"));
        }
        println!("skipped: {why}");
        return Ok(());
    };
    let holds = runtime.block_on(holds::table(&files))?;
    println!("{holds}");
    if is_written {
        page::write(root, PAGE, "shares", &format!("{parallel}\n{holds}"))?;
    }
    Ok(())
}
