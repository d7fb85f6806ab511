//! Runs the house rules over the project itself.

use super::*;
use crate::root::root;

#[test]
fn the_project_is_tidy() {
    let reports = run(&root(), false).unwrap();
    let findings = reports.iter().flat_map(|report| &report.findings);
    let list: Vec<String> = findings.map(ToString::to_string).collect();
    assert!(list.is_empty(), "\n{}\n", list.join("\n"));
}
