//! Tasks that read the project's own types: they are built with it, by the feature `project`.

mod attack;
mod book;
mod detection;
mod docs;
mod picture;
mod shares;
mod tidy;
mod tree;

use crate::report;
use crate::root::root;

/// Runs one of these tasks and whether it passed. A task of another name does nothing and has not passed.
pub(crate) fn run(words: &[&str]) -> bool {
    match words {
        ["tidy"] => tidy_and_report(),
        ["docs"] => write_docs_and_report(),
        ["book", words @ ..] => report(book::run(&root(), words)),
        ["picture"] => report(picture::run(&root())),
        ["attack", words @ ..] => report(attack::run(&root(), words)),
        ["shares", words @ ..] => report(shares::run(&root(), words)),
        ["detection", "--write"] => report(detection::write(&root())),
        ["detection", forms @ ..] => report(detection::print(&root(), forms)),
        [task, unknown, ..] => report(Err(format!("`{unknown}` is no option of `{task}`"))),
        _ => false,
    }
}

/// Prints what breaks the rules.
fn tidy_and_report() -> bool {
    match tidy::run(&root()) {
        Ok(findings) => {
            for finding in &findings {
                println!("{finding}");
            }
            findings.is_empty()
        }
        Err(error) => {
            eprintln!("error: {error}");
            false
        }
    }
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
