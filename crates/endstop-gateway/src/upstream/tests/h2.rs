//! Shared connections: how many there are, which are dead, and which requests are repeated.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};

use super::h2_upstream::{Act, Frames};
use super::*;
use crate::upstream::h2_pool::Pings;

const NET: Duration = Duration::from_secs(30);
const REFUSED_STREAM: u32 = 7;

fn client(upstream: &Frames) -> HttpClient {
    HttpClient::trusting(upstream.authority.as_bytes()).unwrap()
}

fn client_that_pings(upstream: &Frames, every: u64) -> HttpClient {
    let mut client = client(upstream);
    let (after, within) = (Duration::from_millis(every), Duration::from_millis(4 * every));
    client.pools.pings = Pings { after, within };
    client
}

async fn call(client: &HttpClient, upstream: &Frames) -> Result<String, UpstreamError> {
    let request = Request::post("/chat").body(Bytes::from_static(b"body")).unwrap();
    let sent = tokio::time::timeout(NET, client.send(&upstream.base(), request)).await.unwrap();
    let mut body: UpstreamBody = sent.map(Response::into_body)?;
    let mut all = Vec::new();
    while let Some(part) = tokio::time::timeout(NET, body.data()).await.unwrap() {
        all.extend(part?);
    }
    Ok(String::from_utf8(all).unwrap())
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not so: {what}");
}

#[tokio::test]
async fn calls_beyond_what_a_connection_takes_get_another_one() {
    let upstream = Frames::start(2, |_, _| Act::Hold).await;
    let client = client(&upstream);
    let calls = join_all((0..5).map(|_| call(&client, &upstream)));
    let test = async {
        until("all have arrived", || upstream.calls().len() == 5).await;
        let on = |n| upstream.calls().iter().filter(|(connection, _)| *connection == n).count();
        assert_eq!((upstream.connections(), [on(0), on(1), on(2)]), (3, [2, 2, 1]));
        upstream.go_on();
    };
    let (answers, ()) = tokio::join!(calls, test);
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap() == "ok"), "{answers:?}");

    assert_eq!(call(&client, &upstream).await.unwrap(), "ok");
    assert_eq!((upstream.connections(), upstream.calls()[5].0), (3, 0), "the oldest has room");
}

#[tokio::test]
async fn calls_beyond_all_connections_wait_for_room() {
    let upstream = Frames::start(1, |_, _| Act::Hold).await;
    let client = client(&upstream);
    let calls = join_all((0..70).map(|_| call(&client, &upstream)));
    let test = async {
        until("there are as many as there may be", || upstream.calls().len() == 64).await;
        upstream.go_on();
    };
    let (answers, ()) = tokio::join!(calls, test);
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap() == "ok"), "{answers:?}");
    assert_eq!((upstream.connections(), upstream.calls().len()), (64, 70));
}

#[tokio::test]
async fn a_call_that_waits_for_room_may_go_away() {
    let upstream = Frames::start(1, |_, _| Act::Hold).await;
    let client = client(&upstream);
    let calls = join_all((0..64).map(|_| call(&client, &upstream)));
    let test = async {
        until("there are as many as there may be", || upstream.calls().len() == 64).await;
        let waiting = call(&client, &upstream);
        assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
        let (next, ()) = tokio::join!(call(&client, &upstream), async { upstream.go_on() });
        assert_eq!(next.unwrap(), "ok");
    };
    tokio::join!(calls, test);
    assert_eq!(upstream.calls().len(), 65);
}

#[tokio::test]
async fn a_call_that_is_refused_unread_is_sent_once_more_over_a_new_connection() {
    let upstream = Frames::start(100, |_, before| match before {
        0 => Act::Reset(REFUSED_STREAM),
        _ => Act::Answer,
    })
    .await;
    assert_eq!(call(&client(&upstream), &upstream).await.unwrap(), "ok");
    assert_eq!(upstream.calls(), [(0, 1), (1, 1)]);

    let upstream = Frames::start(100, |_, _| Act::Reset(REFUSED_STREAM)).await;
    let error = call(&client(&upstream), &upstream).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Refused(_)), "{error}");
    assert!(!error.may_have_arrived());
    assert_eq!(upstream.calls().len(), 2);
}

#[tokio::test]
async fn a_connection_that_goes_away_ends_its_calls_and_gets_no_new_ones() {
    // The second call learns that nothing after the first was processed.
    let upstream = Frames::start(100, |call, before| match (call, before) {
        (_, 0) => Act::Hold,
        (_, 1) => Act::Away(1),
        _ => Act::Answer,
    })
    .await;
    let client = client(&upstream);
    let first = call(&client, &upstream);
    let rest = async {
        until("the first has arrived", || upstream.calls().len() == 1).await;
        assert_eq!(call(&client, &upstream).await.unwrap(), "ok");
        assert_eq!(call(&client, &upstream).await.unwrap(), "ok");
        upstream.go_on();
    };
    let (first, ()) = tokio::join!(first, rest);
    assert_eq!(first.unwrap(), "ok");
    assert_eq!(upstream.calls(), [(0, 1), (0, 3), (1, 1), (1, 3)]);
}

#[tokio::test]
async fn a_call_that_may_have_been_processed_is_never_sent_again() {
    let (internal, cancel, calm) = (2, 8, 11);
    for act in [
        Act::Close,
        // It says that it took the call, and closes.
        Act::AwayAndClose(1),
        Act::AwayAndClose(u32::MAX >> 1),
        Act::Reset(internal),
        Act::Reset(cancel),
        Act::Reset(calm),
    ] {
        let upstream = Frames::start(100, move |_, _| act).await;
        let error = call(&client(&upstream), &upstream).await.unwrap_err();
        assert!(error.may_have_arrived(), "{act:?}: {error}");
        assert_eq!(upstream.calls().len(), 1, "{act:?}");
    }
}

#[tokio::test]
async fn a_call_without_an_answer_is_given_up_and_leaves_the_connection() {
    let upstream = Frames::start(100, |_, before| match before {
        0 => Act::Hold,
        _ => Act::Answer,
    })
    .await;
    let client = client(&upstream).answering_within(Duration::from_secs(1));
    let error = call(&client, &upstream).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Silent { .. }), "{error}");
    assert!(error.may_have_arrived());
    assert_eq!(call(&client, &upstream).await.unwrap(), "ok");
    assert_eq!(upstream.calls(), [(0, 1), (0, 3)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_that_is_dead_is_noticed_before_and_within_an_answer() {
    for act in [Act::Deaf, Act::BeginAndDeaf] {
        let upstream = Frames::start(100, move |(connection, _), _| match connection {
            0 => act,
            _ => Act::Answer,
        })
        .await;
        let client = client_that_pings(&upstream, 250);
        let error = call(&client, &upstream).await.unwrap_err();
        assert!(error.may_have_arrived(), "{act:?}: {error}");
        assert_eq!(call(&client, &upstream).await.unwrap(), "ok");
        assert_eq!(upstream.calls(), [(0, 1), (1, 1)], "{act:?}");
    }
}

#[tokio::test]
async fn a_connection_is_pinged_while_calls_are_in_flight_and_not_when_it_is_idle() {
    let upstream = Frames::start(100, |_, _| Act::Hold).await;
    let mut client = client_that_pings(&upstream, 20);
    client.pools.pings.within = NET;
    let (answer, ()) = tokio::join!(call(&client, &upstream), async {
        until("it is pinged again and again", || upstream.pings() >= 3).await;
        upstream.go_on();
    });
    assert_eq!(answer.unwrap(), "ok");
    let before = upstream.pings();
    tokio::time::sleep(Duration::from_millis(400)).await;
    // One may have been on its way.
    assert!(upstream.pings() <= before + 1, "{before} and then {}", upstream.pings());
    assert_eq!(call(&client, &upstream).await.unwrap(), "ok");
    assert_eq!(upstream.connections(), 1);
}
