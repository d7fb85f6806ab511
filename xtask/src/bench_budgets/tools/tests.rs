//! Tests of `tools`.

use super::*;

fn tools(command: &'static str, stores: &'static str) -> Tools {
    Tools {
        place: Place::new(PathBuf::from("endstop")).unwrap(),
        example: PathBuf::new(),
        server: Some("redis-server 7.0.15".to_owned()),
        peers: Peers::default(),
        command,
        stores,
        is_quick: false,
    }
}

#[test]
fn each_row_says_how_it_was_measured() {
    let machine = "2 cores, X, load average 0.10\n";
    let both = tools(RELEASE, RELEASE);
    let of = |part: &str| both.how(part, machine);
    assert_eq!(of("kill"), "2 cores, X, load average 0.10, a release build, redis-server 7.0.15");
    assert_eq!(of("cost"), of("kill"));
    assert_eq!(of("processes"), "2 cores, X, load average 0.10, a release build");
    assert!(of("contract").contains("not optimized"), "{}", of("contract"));
    let given = tools("an `endstop` of `--binary`", RELEASE);
    let said = given.how("cost", machine);
    assert!(said.contains("`--binary`; the stores: a release build"), "{said}");
    let quick = Tools { is_quick: true, ..tools(RELEASE, RELEASE) };
    assert!(quick.how("burst", machine).ends_with("`--quick`"));
}

#[test]
fn the_version_of_a_server_is_read() {
    let said = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64";
    assert_eq!(version_in(said), Some("7.0.15"));
    assert_eq!(version_in("something else"), None);
}

#[test]
fn a_binary_that_is_missing_is_known_before_anything_is_measured() {
    let missing = PathBuf::from("/no/such/endstop");
    let options =
        Options { binary: Some(missing), only: vec!["cost".to_owned()], ..Options::default() };
    let refused = Tools::prepare(Path::new("/no/such/root"), &options).unwrap_err();
    assert!(refused.contains("/no/such/endstop"), "{refused}");
}
