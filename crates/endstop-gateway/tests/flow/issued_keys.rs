//! Keys that change while calls with them wait.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use endstop_core::run::Status;
use endstop_gateway::{
    Gateway, IssuedKey, IssuedKeys, Key, KeyChange, KeyHash, KeySource, Runs, Unnamed,
};
use endstop_runtime::store::RunId;
use futures_util::future::join;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::fake::{Fake, json as answer};
use crate::kit::*;

const POLICY: &str = "[stop]\nlimit = \"steps >= 9\"\n";
const CHAT: &str = "/v1/chat/completions";
const KEY: &str = "authorization: Bearer issued-1\r\n";

/// Keys that a test changes, and a source that may be as slow as it likes.
#[derive(Debug, Default)]
struct Keys {
    new: Mutex<Option<Vec<IssuedKey>>>,
    is_closed: AtomicBool,
    looks: AtomicUsize,
}

impl Keys {
    fn set(&self, keys: Vec<IssuedKey>) {
        *self.new.lock().unwrap_or_else(PoisonError::into_inner) = Some(keys);
    }
}

#[derive(Clone, Debug)]
struct Source(Arc<Keys>);

impl KeySource for Source {
    fn look(&self) -> KeyChange {
        self.0.looks.fetch_add(1, Ordering::SeqCst);
        // Not forever: a gateway that waits for it in its only thread would let no test end.
        for _ in 0..20_000 {
            if !self.0.is_closed.load(Ordering::SeqCst) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let new = self.0.new.lock().unwrap_or_else(PoisonError::into_inner).take();
        new.map_or(KeyChange::Same, KeyChange::Keys)
    }
}

/// The key of the run.
fn issued() -> IssuedKey {
    IssuedKey::new("team", KeyHash::of(&Key::new("issued-1")), id().into())
}

async fn keyed(upstream: &Fake) -> (Gateway, Arc<Keys>) {
    let keys = Arc::new(Keys::default());
    keys.set(vec![issued()]);
    let mut config = config(POLICY, upstream.addr);
    let source = IssuedKeys::from_source(Source(Arc::clone(&keys)));
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: source };
    (Gateway::start(config).await.unwrap(), keys)
}

async fn repeating() -> Fake {
    Fake::start(|_, n| answer("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))).await
}

async fn call(gateway: &Gateway, headers: &str, path: &str, agent: &Agent) -> Got {
    receive(send(gateway.addr(), path, headers, &agent.request().to_string()).await).await
}

/// A call that waits in a paused run until the keys are these, and the run is resumed.
async fn called_before(change: impl FnOnce(&Keys)) -> (Got, usize) {
    let upstream = repeating().await;
    let (gateway, keys) = keyed(&upstream).await;
    let mut agent = Agent::new("Look.");
    assert!(agent.take(&call(&gateway, KEY, CHAT, &agent).await, "nothing"));
    assert!(gateway.pause(&id(), "ann", "lunch"));
    let changing = async {
        assert_eq!(gateway.stopped_or_paused(&id()).await, Status::Paused);
        all_that_is_on_its_way().await;
        change(&keys);
        assert!(gateway.resume(&id(), "ann", ""));
    };
    let (got, ()) = join(call(&gateway, KEY, CHAT, &agent), changing).await;
    (got, upstream.calls())
}

#[tokio::test]
async fn a_call_that_waits_while_its_key_is_revoked_is_refused_and_not_sent() {
    let revoked = IssuedKey { is_revoked: true, ..issued() };
    let (got, sent) = called_before(|keys| keys.set(vec![revoked])).await;
    assert_eq!((got.status, sent), (401, 1), "{got:?}");
    assert!(got.text().contains("the key `team` is revoked"), "{got:?}");
}

#[tokio::test]
async fn a_call_that_waits_has_what_its_key_may_do_when_it_is_sent() {
    let other = IssuedKey { models: vec!["other-*".to_owned()], ..issued() };
    let (got, sent) = called_before(|keys| keys.set(vec![other])).await;
    assert_eq!((got.status, sent), (403, 1), "{got:?}");
    let replaced = IssuedKey { hash: KeyHash::of(&Key::new("issued-2")), ..issued() };
    let (got, sent) = called_before(|keys| keys.set(vec![replaced])).await;
    assert_eq!((got.status, sent), (401, 1), "{got:?}");
    let (got, sent) = called_before(|keys| keys.set(vec![issued()])).await;
    assert_eq!((got.status, sent), (200, 2), "{got:?}");
}

#[tokio::test]
async fn a_call_whose_body_comes_after_its_key_was_revoked_is_refused() {
    let upstream = repeating().await;
    for path in [CHAT, "/v1/messages/count_tokens"] {
        let (gateway, keys) = keyed(&upstream).await;
        let body = Agent::new("Look.").request().to_string();
        let looks = keys.looks.load(Ordering::SeqCst);
        let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{KEY}content-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        until("it has looked", || keys.looks.load(Ordering::SeqCst) > looks).await;
        all_that_is_on_its_way().await;
        keys.set(vec![IssuedKey { is_revoked: true, ..issued() }]);
        stream.write_all(body.as_bytes()).await.unwrap();
        let got = receive(stream).await;
        assert_eq!((got.status, upstream.calls()), (401, 0), "{path}: {got:?}");
    }
}

#[tokio::test]
async fn a_run_that_gets_a_key_while_a_call_without_one_waits_takes_only_calls_with_it() {
    let upstream = repeating().await;
    let (gateway, keys) = keyed(&upstream).await;
    let (free, path) = (RunId::parse("free").unwrap(), format!("/r/free{CHAT}"));
    let mut agent = Agent::new("Look.");
    assert!(agent.take(&call(&gateway, "", &path, &agent).await, "nothing"));
    assert!(gateway.pause(&free, "ann", "lunch"));
    let changing = async {
        assert_eq!(gateway.stopped_or_paused(&free).await, Status::Paused);
        all_that_is_on_its_way().await;
        let hash = KeyHash::of(&Key::new("issued-2"));
        keys.set(vec![issued(), IssuedKey::new("free", hash, free.clone().into())]);
        assert!(gateway.resume(&free, "ann", ""));
    };
    let (got, ()) = join(call(&gateway, "", &path, &agent), changing).await;
    assert_eq!((got.status, upstream.calls()), (401, 1), "{got:?}");
}

#[tokio::test]
async fn while_the_source_of_the_keys_does_not_answer_other_work_of_the_gateway_goes_on() {
    let upstream = repeating().await;
    let (gateway, keys) = keyed(&upstream).await;
    keys.is_closed.store(true, Ordering::SeqCst);
    let looks = keys.looks.load(Ordering::SeqCst);
    let body = Agent::new("Look.").request().to_string();
    let waiting = send(gateway.addr(), CHAT, KEY, &body).await;
    until("it looks", || keys.looks.load(Ordering::SeqCst) > looks).await;
    let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let health = "GET /endstop/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(health.as_bytes()).await.unwrap();
    assert_eq!(receive(stream).await.status, 200);
    assert!(keys.is_closed.load(Ordering::SeqCst) && upstream.calls() == 0);
    keys.is_closed.store(false, Ordering::SeqCst);
    assert_eq!(receive(waiting).await.status, 200);
}
