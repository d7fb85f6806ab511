//! The hold and the spend of each call of recorded conversations, by its number in the conversation.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use endstop_core::event::EventKind;
use endstop_core::units::Cost;
use endstop_gateway::Gateway;
use endstop_runtime::observe::{Observation, Observer};
use endstop_runtime::store::RunId;
use serde_json::{Value, json};

use super::conversation::{Call, Conversation, read};
use super::parallel::{config, dollars};
use crate::project::attack::bill::{Arrival, Work};
use crate::project::attack::play::{read_to_end, send, settled};
use crate::project::attack::reply;
use crate::project::attack::upstream::{Sent, Serving, Upstream};

/// The output cap of Claude Code.
const CAP: u64 = 32_000;
/// Calls up to this number are the beginning of a conversation.
const BEGINNING: usize = 10;
/// Calls of a conversation that are played at most.
const MAX_CALLS: usize = 60;

/// How the calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// All input is written to the cache, as it is reserved, and the output cap is what the answer has: only the
    /// number of input tokens can be held too high.
    EqualClasses,
    /// Nothing is cached.
    Uncached,
    /// As it was recorded, with the cache.
    Cached,
}

impl Way {
    const ALL: [Self; 3] = [Self::EqualClasses, Self::Uncached, Self::Cached];

    const fn name(self) -> &'static str {
        match self {
            Self::EqualClasses => {
                "equal price classes: all input written to the cache, the cap is the answer's length"
            }
            Self::Uncached => "nothing cached, a cap of 32,000",
            Self::Cached => "cached as recorded, a cap of 32,000",
        }
    }
}

/// A call: pico-dollars held and settled.
#[derive(Clone, Copy, Debug)]
struct Pair {
    number: usize,
    held: u64,
    settled: u64,
}

/// Pairs the hold at the begin of a call with the charge at its end.
#[derive(Debug, Default)]
struct Ledger(Mutex<Entries>);

/// Pico-dollars.
#[derive(Debug, Default)]
struct Entries {
    held: Option<u64>,
    /// Held and settled, of each call.
    calls: Vec<(u64, u64)>,
}

impl Observer for Ledger {
    fn observe(&self, seen: &Observation<'_>) {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Entries { held, calls } = &mut *guard;
        match seen.event.kind {
            EventKind::AttemptBegin { next_cost: Some(Cost::Known(cost)) } => {
                *held = Some(cost.picos());
            }
            EventKind::Reply { cost: Some(Cost::Known(cost)), .. } => {
                calls.extend(held.take().map(|held| (held, cost.picos())));
            }
            _ => {}
        }
    }
}

/// Plays all conversations in each way, and gives the table.
///
/// # Errors
/// If one cannot be played.
pub(super) async fn table(files: &[PathBuf]) -> Result<String, String> {
    let mut text = "\
| calls | number in the conversation | how many | held | settled | held / settled: median | nine of ten |
| --- | --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    for way in Way::ALL {
        let mut pairs = Vec::new();
        for (at, file) in files.iter().enumerate() {
            eprintln!("{}: conversation {} of {}", way.name(), at.saturating_add(1), files.len());
            pairs.append(&mut play(Arc::new(read(file)?), way).await?);
        }
        let (begun, later): (Vec<Pair>, Vec<Pair>) =
            pairs.into_iter().filter(|pair| pair.number > 1).partition(|it| it.number <= BEGINNING);
        for (numbers, pairs) in [("2 to 10", begun), ("11 and later", later)] {
            let ratios = sorted(pairs.iter().map(|it| dollars(it.held) / dollars(it.settled)));
            let held = sorted(pairs.iter().map(|it| dollars(it.held)));
            let settled = sorted(pairs.iter().map(|it| dollars(it.settled)));
            // Writing to a text does not fail.
            let _ = writeln!(
                text,
                "| {} | {numbers} | {} | ${:.3} | ${:.3} | {:.2} | {:.2} |",
                way.name(),
                pairs.len(),
                part(&held, 50),
                part(&settled, 50),
                part(&ratios, 50),
                part(&ratios, 90),
            );
        }
    }
    Ok(text)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The value that so many per cent of them do not pass.
fn part(sorted: &[f64], percent: usize) -> f64 {
    let at = sorted.len().saturating_sub(1).saturating_mul(percent) / 100;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

async fn play(conversation: Arc<Conversation>, way: Way) -> Result<Vec<Pair>, String> {
    let count = conversation.calls.len().min(MAX_CALLS);
    let upstream = Upstream::start({
        let conversation = Arc::clone(&conversation);
        move |_: &Arrival, number| {
            let call = usize::try_from(number).ok().and_then(|at| conversation.calls.get(at));
            call.map_or_else(nothing, |call| serve(call, &conversation, way))
        }
    });
    let upstream = upstream.await.map_err(|error| error.to_string())?;
    let id = RunId::parse("recorded").map_err(|error| error.to_string())?;
    let mut config = config("cost >= $1000000", &upstream, &id)?;
    let ledger = Arc::new(Ledger::default());
    config.environment.observers.push(Arc::clone(&ledger) as Arc<dyn Observer>);
    let gateway = Gateway::start(config).await.map_err(|error| error.to_string())?;
    let run = gateway.open(&id).ok_or("the gateway has no run")?;
    let mut pairs = Vec::with_capacity(count);
    for (at, call) in conversation.calls.iter().take(count).enumerate() {
        let body = request(call, &conversation, way).to_string();
        let stream = send(gateway.addr(), "/v1/messages", &body).await;
        let answer = read_to_end(stream.map_err(|error| error.to_string())?).await;
        settled(&run).await?;
        let seen =
            std::mem::take(&mut ledger.0.lock().unwrap_or_else(PoisonError::into_inner).calls);
        match seen.as_slice() {
            [(held, settled)] => {
                pairs.push(Pair { number: at.saturating_add(1), held: *held, settled: *settled });
            }
            // A kind of content that is not sent under a limit ends the run.
            _ if !answer.starts_with("HTTP/1.1 200") => break,
            _ => return Err(format!("call {at} was not settled once: {answer:.300}")),
        }
    }
    gateway.shut_down().await;
    Ok(pairs)
}

fn request(call: &Call, conversation: &Conversation, way: Way) -> Value {
    let mut messages: Vec<Value> =
        conversation.messages.iter().take(call.messages).cloned().collect();
    if way != Way::Uncached
        && let Some(block) =
            messages.last_mut().and_then(|last| last["content"].as_array_mut()?.last_mut())
    {
        block["cache_control"] = json!({ "type": "ephemeral" });
    }
    let cap = if way == Way::EqualClasses { call.output.max(1) } else { CAP };
    let system = &conversation.system;
    json!({ "model": call.model, "max_tokens": cap, "system": system, "messages": messages })
}

fn serve(call: &Call, conversation: &Conversation, way: Way) -> Serving {
    let (plain, written, read) = match way {
        Way::EqualClasses => (0, call.input(), 0),
        Way::Uncached => (call.input(), 0, 0),
        Way::Cached => (call.plain, call.written, call.read),
    };
    let mut body = reply::messages(plain, call.output.max(1));
    reply::put(&mut body, &["model"], json!(call.model));
    reply::put(&mut body, &["usage", "cache_creation_input_tokens"], json!(written));
    reply::put(&mut body, &["usage", "cache_read_input_tokens"], json!(read));
    if let Some(answer) = conversation.messages.get(call.messages) {
        reply::put(&mut body, &["content"], answer["content"].clone());
    }
    Serving { work: Work::default(), sent: Sent::Whole(reply::ok(&body)) }
}

fn nothing() -> Serving {
    Serving { work: Work::default(), sent: Sent::Broken(Vec::new()) }
}
