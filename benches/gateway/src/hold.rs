//! `hold`: opens connections, keeps them, and reads the gateway's memory: idle, then with a slow stream on each.

use std::cell::Cell;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::Semaphore;

use crate::bodies::Kind;
use crate::clients::{Client, control};
use crate::options::Options;
use crate::process;

/// Microseconds between the events of a stream that is held.
const SLOW_US: u64 = 1_000_000;
/// Calls in flight while the connections are opened.
const OPENING: usize = 16;
/// How long all connections may take to open, and all streams to begin.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between the last one and the reading.
const SETTLE: Duration = Duration::from_millis(700);

#[derive(Debug, Default)]
struct Held {
    opened: Cell<usize>,
    streaming: Cell<usize>,
    failure: RefCell<Option<String>>,
}

/// Opens connections and tells what memory they took, as JSON.
///
/// # Errors
/// Where the options are not enough, or the upstream does not answer.
pub async fn run(options: &Options) -> Result<String, String> {
    let (upstream, gateway) = (options.upstream()?, options.process()?);
    control(upstream, &format!("gap/{SLOW_US}")).await?;
    let held = Rc::new(Held::default());
    let before = process::resident_kib(gateway);
    let clients = open(options, &held).await?;
    tokio::time::sleep(SETTLE).await;
    let idle = process::resident_kib(gateway);
    let mut streaming = None;
    let mut tasks = Vec::new();
    if options.streams {
        for mut client in clients {
            let held = Rc::clone(&held);
            tasks.push(tokio::task::spawn_local(async move {
                let mut is_first = true;
                let answer = client.call(Kind::Stream, |_| {
                    if std::mem::take(&mut is_first) {
                        held.streaming.set(held.streaming.get() + 1);
                    }
                });
                if let Err(why) = answer.await {
                    held.failure.borrow_mut().get_or_insert(why);
                }
            }));
        }
        wait(|| held.streaming.get() == options.connections).await;
        tokio::time::sleep(SETTLE).await;
        streaming = Some(process::resident_kib(gateway));
    }
    for task in tasks {
        task.abort();
    }
    Ok(json!({
        "connections": options.connections,
        "opened": held.opened.get(),
        "streaming": held.streaming.get(),
        "before_kib": before,
        "idle_kib": idle,
        "streaming_kib": streaming,
        "failure": *held.failure.borrow(),
    })
    .to_string())
}

/// Connections on each of which one call was answered.
async fn open(options: &Options, held: &Rc<Held>) -> Result<Vec<Client>, String> {
    let slots = Rc::new(Semaphore::new(OPENING));
    let clients = Rc::new(RefCell::new(Vec::new()));
    let done = Rc::new(Cell::new(0));
    let mut tasks = Vec::new();
    for number in 0..options.connections {
        let mut client = Client::new(options, number)?;
        let (held, slots, clients, done) =
            (Rc::clone(held), Rc::clone(&slots), Rc::clone(&clients), Rc::clone(&done));
        tasks.push(tokio::task::spawn_local(async move {
            let _slot = slots.acquire().await;
            match client.call(Kind::Json, |_| {}).await {
                Ok(_) => {
                    held.opened.set(held.opened.get() + 1);
                    clients.borrow_mut().push(client);
                }
                Err(why) => {
                    held.failure.borrow_mut().get_or_insert(why);
                }
            }
            done.set(done.get() + 1);
        }));
    }
    wait(|| done.get() == options.connections).await;
    for task in tasks {
        task.abort();
    }
    Ok(clients.take())
}

/// Until it holds, or patience ends.
async fn wait(mut holds: impl FnMut() -> bool) {
    let last = Instant::now() + PATIENCE;
    while !holds() && Instant::now() < last {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
