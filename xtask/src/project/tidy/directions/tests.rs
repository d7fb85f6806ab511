//! Tests of `directions`.

use super::super::modules::samples::tree;
use super::*;

#[test]
fn a_dependency_against_the_arrows_is_found() {
    let check = |name: &str, text: &str| {
        let path = format!("crates/{name}/Cargo.toml");
        check_directions(&tree(&[(&path, text)])).len()
    };
    assert_eq!(check("endstop-core", "[dev-dependencies]\nendstop.workspace = true"), 0);
    assert_eq!(check("endstop-core", "[dependencies]\nendstop-price.workspace = true"), 1);
    assert_eq!(check("endstop-sim", "[target.'cfg(unix)'.dependencies]\nendstop-llm = \"1\""), 1);
    assert_eq!(check("endstop", "[dependencies]\nendstop-replay = { optional = true }"), 0);
    assert_eq!(check("endstop", "[dependencies]\nendstop-replay.workspace = true"), 1);
    assert_eq!(check("endstop-cli", "[dependencies]\nendstop.workspace = true"), 0);
    assert_eq!(check("endstop-new", ""), 1);
}

#[test]
fn a_crate_of_two_versions_counts_twice() {
    let listing = "endstop v0.1.0 (/a)\nsyn v2.0.0\nsyn v3.0.0\nsyn v2.0.0 (*)\n\n";
    assert_eq!(count(listing), 3);
}
