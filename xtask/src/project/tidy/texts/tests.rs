//! Tests of `texts`.

use super::*;

#[test]
fn machine_paths_and_registry_hosts_are_found() {
    for start in MACHINE_PATHS {
        assert_eq!(check_file("a.md", &format!("\nsee {start}x")).len(), 1, "{start}");
        assert!(check_file("a.md", &format!("see docs{start}x")).is_empty(), "{start}");
    }
    for host in REGISTRY_HOSTS {
        let findings = check_file("a.md", &format!("\nhttps://{host}/x"));
        assert_eq!(findings.first().map(|finding| finding.line), Some(2), "{host}");
    }
}
