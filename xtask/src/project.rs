//! Tasks that read the project's own types: they are built with it, by the feature `project`.

mod detection;
mod docs;
mod tidy;
mod tree;

use crate::report;
use crate::root::root;

/// Runs one of these tasks and whether it passed. A task of another name does nothing and has not passed.
pub(crate) fn run(words: &[&str]) -> bool {
    match words {
        ["tidy"] => tidy_and_report(false),
        ["tidy", "--all"] => tidy_and_report(true),
        ["docs"] => write_docs_and_report(),
        ["detection", "--write"] => report(detection::write(&root())),
        ["detection", forms @ ..] => report(detection::print(&root(), forms)),
        _ => false,
    }
}

/// Prints what breaks the rules; those that the project does not keep yet are counted as well.
fn tidy_and_report(all: bool) -> bool {
    let reports = match tidy::run(&root(), all) {
        Ok(reports) => reports,
        Err(error) => {
            eprintln!("error: {error}");
            return false;
        }
    };
    let mut passed = true;
    for report in &reports {
        passed &= report.findings.is_empty() || !report.is_enforced;
        if all {
            let state = if report.is_enforced { "enforced" } else { "listed" };
            println!("== {} ({state}): {} found", report.rule, report.findings.len());
        }
        for finding in &report.findings {
            println!("{finding}");
        }
    }
    passed
}

fn write_docs_and_report() -> bool {
    match docs::write(&root()) {
        Ok(written) => {
            for path in written {
                println!("wrote {path}");
            }
            true
        }
        Err(error) => {
            eprintln!("error: {error}");
            false
        }
    }
}
