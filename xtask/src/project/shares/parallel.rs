//! Eight agents side by side, each with an output cap that alone is half of the limit.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use endstop_core::Program;
use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use endstop_core::units::Cost;
use endstop_gateway::{Config, Gateway, Runs, Upstreams};
use endstop_runtime::store::RunId;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::project::attack::bill::{Arrival, DOLLAR, Work};
use crate::project::attack::play::{read_to_end, send, settled};
use crate::project::attack::reply;
use crate::project::attack::upstream::{Sent, Serving, Upstream};

const AGENTS: u64 = 8;
/// Calls of each agent, one after the other.
const CALLS: u64 = 6;
/// The output cap that each call asks for.
const CAP: u64 = 64_000;
/// Output tokens of an answer.
const ANSWER: u64 = 800;
/// One answer of this number is long.
const LONG_EVERY: u64 = 10;
/// Output tokens of a long one: more than the least share.
const LONG_ANSWER: u64 = 6_000;
/// How fast the upstream makes output: faster than a real one, so that the measurement ends soon.
const TOKENS_PER_SECOND: u64 = 4_000;
/// The limit, in dollars.
const LIMIT: u64 = 2;
/// How often each way is measured; the median counts.
const ROUNDS: usize = 1;

/// How the eight agents are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limited {
    No,
    ByShares,
    ByWaiting,
}

impl Limited {
    const ALL: [Self; 3] = [Self::No, Self::ByShares, Self::ByWaiting];

    const fn name(self) -> &'static str {
        match self {
            Self::No => "no limit on money",
            Self::ByShares => "`--usd 2`",
            Self::ByWaiting => "`--usd 2 --no-fair-shares`",
        }
    }
}

/// The answers of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// All of 800 tokens.
    Short,
    /// One of ten has 6,000.
    SomeLong,
}

impl Answers {
    const fn name(self) -> &'static str {
        match self {
            Self::Short => "800 tokens",
            Self::SomeLong => "800 tokens, each tenth 6,000",
        }
    }

    const fn length(self, number: u64) -> u64 {
        match self {
            Self::SomeLong if number % LONG_EVERY == LONG_EVERY.saturating_sub(1) => LONG_ANSWER,
            Self::Short | Self::SomeLong => ANSWER,
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Measured {
    took: Duration,
    /// Pico-dollars that the upstream bills.
    billed: u64,
    /// Pico-dollars of the ledger.
    ledger: u64,
    /// Calls that reached the upstream.
    calls: u64,
    /// Responses that the client got cut off.
    cut: u64,
}

/// Measures every way, and gives the table.
///
/// # Errors
/// If one cannot be measured, or spends more than the limit.
pub(super) async fn table() -> Result<String, String> {
    let mut text = "\
| answers | delivered | limit | time | of the time without limits | calls | billed | cut off |
| --- | --- | --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    for answers in [Answers::Short, Answers::SomeLong] {
        for is_streamed in [false, true] {
            let mut unlimited = None;
            for limited in Limited::ALL {
                let it = median(limited, answers, is_streamed).await?;
                let first = *unlimited.get_or_insert(it.took);
                let times = it.took.as_secs_f64() / first.as_secs_f64();
                // Writing to a text does not fail.
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {:.1} s | {times:.2} × | {} | ${:.2} | {} |",
                    answers.name(),
                    if is_streamed { "streamed" } else { "whole" },
                    limited.name(),
                    it.took.as_secs_f64(),
                    it.calls,
                    dollars(it.billed),
                    it.cut,
                );
            }
        }
    }
    Ok(text)
}

async fn median(limited: Limited, answers: Answers, is_streamed: bool) -> Result<Measured, String> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let it = measure(limited, answers, is_streamed).await?;
        if limited != Limited::No && it.billed.max(it.ledger) > LIMIT.saturating_mul(DOLLAR) {
            return Err(format!("{limited:?}, {answers:?}: more was spent than the limit: {it:?}"));
        }
        rounds.push(it);
    }
    rounds.sort_by_key(|it| it.took);
    rounds.get(ROUNDS / 2).copied().ok_or_else(|| "nothing was measured".to_owned())
}

async fn measure(
    limited: Limited,
    answers: Answers,
    is_streamed: bool,
) -> Result<Measured, String> {
    let made = AtomicU64::new(0);
    let upstream = Upstream::start(move |arrival: &Arrival, _| {
        serve(arrival, answers.length(made.fetch_add(1, Ordering::SeqCst)))
    });
    let upstream = upstream.await.map_err(|error| error.to_string())?;
    let rule = match limited {
        Limited::No => "steps >= 100000".to_owned(),
        Limited::ByShares | Limited::ByWaiting => format!("cost >= ${LIMIT}"),
    };
    let id = RunId::parse("parallel").map_err(|error| error.to_string())?;
    let mut config = config(&rule, &upstream, &id)?;
    config.fair_shares = limited != Limited::ByWaiting;
    let gateway = Gateway::start(config).await.map_err(|error| error.to_string())?;
    let run = gateway.open(&id).ok_or("the gateway has no run")?;
    let began = Instant::now();
    let (addr, mut agents) = (gateway.addr(), JoinSet::new());
    for agent in 0..AGENTS {
        agents.spawn(async move {
            let mut cut = 0u64;
            for call in 0..CALLS {
                let body = request(agent, call, is_streamed);
                if let Ok(stream) = send(addr, "/v1/messages", &body).await {
                    let answer = read_to_end(stream).await;
                    cut = cut.saturating_add(u64::from(answer.contains("\"max_tokens\"")));
                }
            }
            cut
        });
    }
    let cut = agents.join_all().await.into_iter().fold(0, u64::saturating_add);
    let took = began.elapsed();
    settled(&run).await?;
    let Cost::Known(cost) = run.cost() else {
        return Err("what it cost is not known".to_owned());
    };
    let (billed, calls) = (upstream.billed(), upstream.calls());
    gateway.shut_down().await;
    Ok(Measured { took, billed, ledger: cost.picos(), calls, cut })
}

/// A gateway for one run under one rule.
///
/// # Errors
/// If the rule cannot be compiled.
pub(super) fn config(rule: &str, upstream: &Upstream, id: &RunId) -> Result<Config, String> {
    let policy = Policy::from_toml(&format!("[stop]\nlimit = \"{rule}\"\n"));
    let policy = policy.map_err(|error| error.to_string())?;
    let program = Program::new(&policy, &Probes::new()).map_err(|error| error.to_string())?;
    let upstreams = Upstreams::all(&format!("http://{}", upstream.addr));
    let upstreams = upstreams.map_err(|error| error.to_string())?;
    Ok(Config::new(upstreams, Arc::new(program), Runs::One(id.clone())))
}

/// The request of an agent: its conversation so far.
fn request(agent: u64, call: u64, is_streamed: bool) -> String {
    let mut messages =
        vec![json!({ "role": "user", "content": format!("You are agent {agent}.") })];
    for number in 0..call {
        messages.push(json!({ "role": "assistant", "content": "Done." }));
        messages
            .push(json!({ "role": "user", "content": format!("Continue with part {number}.") }));
    }
    json!({ "model": "claude-sonnet-4-5", "max_tokens": CAP, "stream": is_streamed, "messages": messages })
        .to_string()
}

/// An answer of that many tokens, or as many as the output cap lets through.
fn serve(arrival: &Arrival, length: u64) -> Serving {
    let (input, output) = (arrival.tokens(), length.min(arrival.cap()));
    let work = Work { input, output, ..Work::default() };
    let pause = Duration::from_millis(output.saturating_mul(1_000) / TOKENS_PER_SECOND);
    let stop = if output < length { "max_tokens" } else { "end_turn" };
    let sent = if arrival.body.contains("\"stream\":true") {
        let first = reply::stream(&[reply::message_start(input)]);
        Sent::Slowly(first, pause, reply::end_of_stream(&rest_of_stream(stop, output)))
    } else {
        let mut body = reply::messages(input, output);
        reply::put(&mut body, &["stop_reason"], json!(stop));
        Sent::Slowly(Vec::new(), pause, reply::ok(&body))
    };
    Serving { work, sent }
}

fn rest_of_stream(stop: &str, output: u64) -> [Value; 5] {
    [
        json!({ "type": "content_block_start", "index": 0,
            "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0,
            "delta": { "type": "text_delta", "text": "Done." } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null },
            "usage": { "output_tokens": output } }),
        json!({ "type": "message_stop" }),
    ]
}

/// Dollars, for people.
#[expect(clippy::cast_precision_loss, reason = "an amount that is printed with a few digits")]
pub(super) fn dollars(picos: u64) -> f64 {
    picos as f64 / DOLLAR as f64
}

#[cfg(test)]
mod tests;
