//! Printed forms that need no server, store or file, word for word: short help, errors, JSON, tables and summaries.
//! `golden_files.rs` has the JSON of `run`, `serve`, `demo`, `ps`, `budget`, `spend`, stored runs, formats, what drifted, charts, and
//! man pages, and the output of `tail`, `show`, `prune`, `key`, `config` and `convert`. The long help is `docs/cli.md`, which the house rules compare.
//!
//! `TRYCMD=overwrite` writes the current output; times and names of runs are then to be replaced by `[..]` again.

#[test]
fn what_is_printed_is_what_was_agreed() {
    // Paths in the cases are relative to the root of a checkout.
    std::env::set_current_dir("../..").expect("the root of the checkout");
    trycmd::TestCases::new()
        // A home without transcripts, so that no case reads the user's transcripts.
        .env("HOME", "/nonexistent")
        .env("COLUMNS", "100")
        .case("crates/endstop-cli/tests/golden/*.md");
}
