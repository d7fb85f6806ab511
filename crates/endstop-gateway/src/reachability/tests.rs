//! An upstream is reported once for each outage.

use super::*;

#[derive(Debug, Default)]
struct Seen(Mutex<Vec<UnreachableUpstream>>);

impl UpstreamObserver for Seen {
    fn unreachable(&self, upstream: &UnreachableUpstream) {
        self.0.lock().unwrap().push(upstream.clone());
    }
}

#[test]
fn an_upstream_is_reported_again_only_after_it_was_reached() {
    let (seen, reachability) = (Seen::default(), Reachability::default());
    let upstream = Uri::from_static("http://me:secret@127.0.0.1:9/v1");
    let other = Uri::from_static("https://models.example/v1");
    let failed = "cannot connect to 127.0.0.1:9: connection refused";
    let failed: Option<&dyn Display> = Some(&failed);
    for (upstream, no_connection, reports) in [
        (&upstream, failed, 1),
        (&upstream, failed, 1),
        (&other, failed, 2),
        (&other, None, 2),
        (&upstream, failed, 2),
        (&upstream, None, 2),
        (&upstream, failed, 3),
    ] {
        reachability.note(upstream, no_connection, &seen);
        assert_eq!(seen.0.lock().unwrap().len(), reports);
    }
    let reports = seen.0.lock().unwrap();
    assert_eq!(reports[0].host, "127.0.0.1:9");
    assert!(reports[0].error.starts_with("cannot connect to 127.0.0.1:9: "), "{reports:?}");
    assert!(!format!("{reports:?}").contains("secret"), "{reports:?}");
}
