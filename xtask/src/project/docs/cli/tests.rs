//! Tests of `cli`.

use super::*;

#[test]
fn every_subcommand_has_a_section() {
    let page = page();
    for subcommand in endstop_cli::command().get_subcommands() {
        let heading = format!("\n## `endstop {}`\n", subcommand.get_name());
        assert!(page.contains(&heading), "{heading} is missing");
    }
    assert!(!page.contains('\u{1b}'), "color codes on the page");
}
