//! Tests of `intercept`.

use super::*;
use crate::clients::run::ClientResult;

fn find(name: &str) -> &'static HttpClient {
    HTTP_CLIENTS.iter().find(|client| client.name == name).unwrap()
}

#[test]
fn each_fault_of_an_http_client_is_told() {
    let result =
        ClientResult { text: "Endstop stopped this run: x".to_owned(), ..ClientResult::default() };
    let right = || Ended {
        counts: Counts { calls: Some(3), stop_responses: Some(1) },
        connections: Connections { intercepted: 1, ..Connections::default() },
        code: Some(124),
        result: Some(result.clone()),
        ..Ended::default()
    };
    let requests = find("requests (Python)");
    assert_eq!(fault(requests, &right()), None);
    let unread = Ended { connections: Connections::default(), ..right() };
    assert!(fault(requests, &unread).is_some());
    let own = find("ureq (Rust), own roots");
    assert!(fault(own, &right()).is_some());
    let refused = || Ended {
        counts: Counts { calls: Some(0), stop_responses: Some(0) },
        connections: Connections { untrusted: 1, ..Connections::default() },
        code: Some(125),
        errors: format!("it {DISTRUST} of this run"),
        ..Ended::default()
    };
    assert_eq!(fault(own, &refused()), None);
    assert!(fault(requests, &refused()).is_some());
    assert!(fault(own, &Ended { code: Some(1), ..refused() }).is_some());
    assert!(fault(own, &Ended { errors: String::new(), ..refused() }).is_some());
    assert!(page(&[refused()]).contains("| 125 | refused: it does not trust"));
}

#[test]
fn each_http_client_is_there_and_has_a_pinned_version() {
    let root = crate::root::root();
    for client in HTTP_CLIENTS {
        let version = match client.language.group() {
            Some(group) => {
                assert!(root.join(DIRECTORY).join(client.program[0]).exists(), "{}", client.name);
                version(&root, group, client.package).unwrap()
            }
            None => version_of_crate(&root, client.package).unwrap(),
        };
        assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
    }
}
