//! `load`: so many connections call without a pause; what a window of it cost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::bodies::Kind;
use crate::clients::{Client, control};
use crate::numbers::quantile;
use crate::options::Options;
use crate::process;

/// How long calls in flight may take once the window is over.
const LAST_CALLS: Duration = Duration::from_secs(3);
/// After a call that failed.
const BREATH: Duration = Duration::from_millis(20);

/// The results of the clients in the window.
#[derive(Debug, Default)]
struct Found {
    is_open: Cell<bool>,
    is_over: Cell<bool>,
    whole_ns: RefCell<Vec<u64>>,
    first_ns: RefCell<Vec<u64>>,
    bytes: Cell<u64>,
    reads: Cell<u64>,
    size: Cell<usize>,
    failed: Cell<u64>,
    failure: RefCell<Option<String>>,
}

/// Runs the clients and returns the measurements, as JSON.
///
/// # Errors
/// Where the options are not enough, or the upstream does not answer.
pub async fn run(options: &Options) -> Result<String, String> {
    let (upstream, gateway) = (options.upstream()?, options.process()?);
    control(upstream, &format!("gap/{}", options.gap_us)).await?;
    let found = Rc::new(Found::default());
    let mut clients = Vec::new();
    for number in 0..options.connections {
        let client = Client::new(options, number)?;
        // Streams with gaps do not all begin in the same moment.
        let after = Duration::from_micros(options.gap_us * number as u64 * 3);
        clients.push(tokio::task::spawn_local(calls(
            client,
            options.kind,
            after,
            Rc::clone(&found),
        )));
    }
    tokio::time::sleep(options.warmup).await;
    let served = control(upstream, "served").await?;
    let cpu = process::processor_time(gateway);
    found.is_open.set(true);
    let begun = Instant::now();
    tokio::time::sleep(options.window).await;
    found.is_open.set(false);
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = process::processor_time(gateway).saturating_sub(cpu);
    let served = control(upstream, "served").await?.saturating_sub(served);
    found.is_over.set(true);
    let last = Instant::now() + LAST_CALLS;
    for client in clients {
        let left = last.saturating_duration_since(Instant::now());
        let abort = client.abort_handle();
        if tokio::time::timeout(left, client).await.is_err() {
            abort.abort();
        }
    }
    Ok(report(&found, seconds, cpu, served))
}

async fn calls(mut client: Client, kind: Kind, after: Duration, found: Rc<Found>) {
    tokio::time::sleep(after).await;
    while !found.is_over.get() {
        let answer = client
            .call(kind, |bytes| {
                if found.is_open.get() {
                    found.bytes.set(found.bytes.get() + bytes as u64);
                    found.reads.set(found.reads.get() + 1);
                }
            })
            .await;
        match answer {
            Ok(call) if found.is_open.get() => {
                found.size.set(call.size);
                found.whole_ns.borrow_mut().push(call.whole_ns);
                found.first_ns.borrow_mut().push(call.first_ns);
            }
            Ok(_) => {}
            Err(why) => {
                found.failed.set(found.failed.get() + 1);
                found.failure.borrow_mut().get_or_insert(why);
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}

fn report(found: &Found, seconds: f64, cpu: Duration, served: u64) -> String {
    let mut whole = found.whole_ns.borrow_mut();
    let mut first = found.first_ns.borrow_mut();
    let answers = whole.len();
    json!({
        "answers": answers,
        "bytes": found.bytes.get(),
        "size": found.size.get(),
        "reads": found.reads.get(),
        "seconds": seconds,
        "cpu_us": u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX),
        "served": served,
        "failed": found.failed.get(),
        "failure": *found.failure.borrow(),
        "whole_p50_ns": quantile(&mut whole, 0.5),
        "whole_p99_ns": quantile(&mut whole, 0.99),
        "first_p50_ns": quantile(&mut first, 0.5),
        "first_p99_ns": quantile(&mut first, 0.99),
    })
    .to_string()
}
