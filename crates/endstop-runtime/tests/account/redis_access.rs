//! Access to a store in Redis: addresses, the rights of users, and TLS.

use endstop_runtime::account::{
    Adjustment, BudgetStore as _, BudgetStoreError, KillTarget, RedisBudgetStore, StoreKeyChange,
    StoreKill, StorePersistence,
};
use endstop_runtime::store::RunId;

use super::server::RedisServer;
use super::stores::*;

/// The line of the guide that creates a user, with a password and for a namespace.
fn acl(password: &str, namespace: &str) -> String {
    let guide = include_str!("../../../../docs/guide/many-gateways.md");
    let line = guide.lines().find(|line| line.starts_with("ACL SETUSER ")).unwrap();
    line.replace("PASSWORD", password).replace("prod", namespace)
}

/// All that gateways and commands do with a store that nothing has used.
fn use_all_of(store: &RedisBudgetStore) {
    let me = account("me", &["$1 per day", "$1 per rolling 5h"]);
    store.admit().unwrap();
    store.reserve(&[&me], cents(1), &terms("a")).unwrap();
    store.grow(&[&me], "a", cents(1), TTL).unwrap();
    store.settle("a", cents(1)).unwrap();
    assert_eq!(committed(store, &me), (1, 0));
    let adjustment = Adjustment {
        id: "b",
        account: &me,
        parents: &[],
        spent: cents(1),
        returned: cents(0),
        who: "ann",
        why: "test",
    };
    store.adjust(&adjustment).unwrap();
    assert_eq!(committed(store, &me), (2, 0));
    assert_eq!(store.adjustments("me", 9).unwrap().len(), 1);
    super::run_logs::contract(&store.run_log("one"));
    let change = |before: Option<&str>, after: &str| StoreKeyChange {
        name: "alice".to_owned(),
        before: before.map(str::to_owned),
        after: after.to_owned(),
    };
    assert!(store.change_keys(&[change(None, "1")]).unwrap());
    assert!(store.change_keys(&[change(Some("1"), "2")]).unwrap());
    let keys = store.keys(None).unwrap().unwrap().keys;
    assert_eq!(keys, [("alice".to_owned(), "2".to_owned())]);
    // The thread of the store learns of it and confirms it.
    let kill = StoreKill { target: KillTarget::Run("r".to_owned()), why: "test".to_owned() };
    let receipt = store.kill(&kill).unwrap();
    assert_eq!((receipt.confirmed, receipt.silent), (1, 0));
    assert_eq!(store.kills().unwrap().len(), 1);
    store.admit().unwrap();
    store.leave();
}

#[test]
fn a_user_needs_the_rights_of_the_guide_and_no_error_shows_a_password() {
    let Some(server) = RedisServer::start() else { return };
    let added = server.send(&[&acl("s3cret", "team")]);
    assert!(added.starts_with("+OK"), "{added}");
    let url = |user: &str, namespace: &str| {
        format!("redis://{user}@127.0.0.1:{}?namespace={namespace}", server.port())
    };
    let store = RedisBudgetStore::open(&url("endstop:s3cret", "team")).unwrap();
    use_all_of(&store);
    assert_eq!((store.persistence(), store.replicas()), (StorePersistence::Always, Some(0)));
    // The two rights that only say what a restart can lose.
    let fewer = server.send(&["ACL SETUSER endstop -config|get -info"]);
    assert!(fewer.starts_with("+OK"), "{fewer}");
    assert_eq!((store.persistence(), store.replicas()), (StorePersistence::Unknown, None));
    assert!(!format!("{store:?} {}", store.server()).contains("s3cret"));
    for (user, namespace) in [("endstop:s3cret-wrong", "team"), ("endstop:s3cret", "other")] {
        let error = RedisBudgetStore::open(&url(user, namespace)).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cret"), "{text}");
        assert!(matches!(error, BudgetStoreError::Failed { .. }), "{text}");
    }
}

#[test]
fn an_address_that_cannot_be_used_is_not_shown() {
    for address in [
        "s3cret",
        "http://u:s3cret@127.0.0.1",
        "redis://u:s3cret@127.0.0.1?namespace=a b",
        "redis://u:s3cret@127.0.0.1?namespace=",
        "redis://u:s3cret@127.0.0.1?other=1",
        "rediss://u:s3cret@127.0.0.1#insecure",
        "redis://u:s3cret@127.0.0.1/x",
        "redis://u:s3cret@127.0.0.1?ca=/nowhere",
        "rediss://u:s3cret@127.0.0.1?ca=/nowhere",
        "rediss://u:s3cret@127.0.0.1?ca=/dev/zero",
    ] {
        let error = RedisBudgetStore::open(address).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(matches!(error, BudgetStoreError::Address(_)), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_certificate_is_checked_by_the_file_that_is_named_and_for_its_host() {
    let directory = std::env::temp_dir().join(format!("endstop-tls-{}", RunId::new()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    for (name, hosts) in [
        ("own", &["127.0.0.1", "localhost"][..]),
        ("other", &["127.0.0.1"][..]),
        ("elsewhere", &["redis.example"][..]),
    ] {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let certified = rcgen::generate_simple_self_signed(hosts).unwrap();
        std::fs::write(file(&format!("{name}.pem")), certified.cert.pem()).unwrap();
        let key = certified.signing_key.serialize_pem();
        std::fs::write(file(&format!("{name}.key")), key).unwrap();
    }
    let Some((_server, tls)) = RedisServer::start_tls(&file("own.pem"), &file("own.key")) else {
        return;
    };
    let url = |port: u16, ca: &str| format!("rediss://127.0.0.1:{port}?ca={}", file(ca));
    use_all_of(&RedisBudgetStore::open(&url(tls, "own.pem")).unwrap());
    let refuses = |bad: &str| {
        let error = RedisBudgetStore::open(bad).unwrap_err();
        assert!(
            matches!(error, BudgetStoreError::Away { .. } | BudgetStoreError::Failed { .. }),
            "{error:?}"
        );
    };
    refuses(&url(tls, "other.pem"));
    refuses(&format!("rediss://127.0.0.1:{tls}"));
    // The file is right, and the certificate is that of another host.
    let (_elsewhere, port) =
        RedisServer::start_tls(&file("elsewhere.pem"), &file("elsewhere.key")).unwrap();
    refuses(&url(port, "elsewhere.pem"));
    std::fs::remove_dir_all(&directory).unwrap();
}
