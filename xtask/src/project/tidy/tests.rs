//! Runs the house rules over the project itself.

use super::*;
use crate::root::root;

#[test]
fn the_project_is_tidy() {
    let list: Vec<String> = run(&root()).unwrap().iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "\n{}\n", list.join("\n"));
}
