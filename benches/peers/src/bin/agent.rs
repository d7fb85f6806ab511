//! The cost per step of the agent loop itself, with a model and a tool that answer immediately, compared with a loop
//! written by hand and with rig, in one process. The machine is noisy; read the ratios. With `ours`, rig is left out.

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use endstop_bench::agents::{self, PROMPT, agent_at, by_hand};
use rig_agent::AgentBuilder;
use rig_agent::completion::{CompletionRequest, CompletionResponse, Usage};
use rig_agent::tool::{Tool, ToolContext};
use rig_core::driver::{Exchange, Model, Opened, Opening, Transport};
use rig_core::error::ProviderError;
use rig_core::message::{AssistantContent, Origin, ToolCall, ToolFunction, ToolName};
use rig_core::test_utils::{MockFrame, MockScript};

/// Numbers of steps of a run.
const LENGTHS: [u64; 3] = [10, 200, 10_000];
/// Steps of a round, in as many runs as that makes.
const PER_ROUND: u64 = 20_000;
const ROUNDS: usize = 15;
/// How long a peer may take, so that the benchmark ends.
const PATIENCE: Duration = Duration::from_secs(20);
/// The goal, in microseconds a step.
const GOAL: f64 = 2.0;

/// Best and median microseconds a step.
#[derive(Clone, Copy)]
struct Cost {
    best: f64,
    median: f64,
}

/// Measures runs of this many steps.
fn measure(steps: u64, mut run: impl FnMut()) -> (Cost, usize) {
    run();
    let warm = Instant::now();
    run();
    let round = warm.elapsed() * u32::try_from(PER_ROUND / steps).unwrap_or(u32::MAX);
    let (runs, rounds) =
        if round > PATIENCE / 10 { (1, 3) } else { (PER_ROUND.div_ceil(steps), ROUNDS) };
    let mut costs: Vec<f64> = (0..rounds)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..runs {
                run();
            }
            started.elapsed().as_secs_f64() * 1e6 / (runs * steps) as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    (Cost { best: costs[0], median: costs[rounds / 2] }, rounds)
}

/// rig's model: answers immediately and stores nothing; it fails when the patience is over.
#[derive(Clone)]
struct Instantly {
    steps: u64,
    calls: Arc<AtomicU64>,
    until: Instant,
    /// It is known to be fast enough.
    is_in_time: Arc<AtomicBool>,
}

impl Transport<MockScript> for Instantly {
    fn send(&self, _: CompletionRequest, _: Exchange) -> Opening<MockFrame> {
        if !self.is_in_time.load(Ordering::Relaxed) && Instant::now() > self.until {
            return Opening::failed(ProviderError::Provider("too slow".to_owned()));
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let content = if call.is_multiple_of(self.steps) {
            AssistantContent::text("done")
        } else {
            let name = ToolName::new("work").expect("a name");
            let function = ToolFunction::new(name, serde_json::json!({}));
            AssistantContent::ToolCall(ToolCall::from_wire("call_1", function))
        };
        let origin = Origin::new("instant", "instant", "");
        let usage = Usage::new().total_tokens(1_000);
        let response =
            CompletionResponse::new(vec![content], usage, origin, serde_json::Value::Null);
        let frame = MockFrame::Response(Box::new(response));
        Opening::ready(Opened::new(futures_util::stream::iter([Ok(frame)])))
    }
}

#[derive(rig_core::serde::Deserialize)]
#[serde(crate = "rig_core::serde")]
struct Nothing {}

#[derive(Clone)]
struct Work;

impl Tool for Work {
    const NAME: &'static str = "work";
    type Args = Nothing;
    type Output = String;
    type Error = Infallible;

    fn description(&self) -> String {
        "Works.".to_owned()
    }

    fn parameters(&self) -> serde_json::Value {
        serde_json::json!({ "type": "object", "properties": {} })
    }

    async fn call(&self, _: &mut ToolContext, _: Nothing) -> Result<String, Infallible> {
        Ok("worked".to_owned())
    }
}

/// The cost of rig, or the number of its steps within the patience.
enum Peer {
    Measured(Cost, usize),
    TooSlow { steps: u64, each: f64 },
}

fn rig(steps: u64) -> Peer {
    let calls = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let is_in_time = Arc::new(AtomicBool::new(false));
    let instantly = Instantly {
        steps,
        calls: Arc::clone(&calls),
        until: started + PATIENCE,
        is_in_time: Arc::clone(&is_in_time),
    };
    let model = Model::new(MockScript::new("instant"), instantly);
    let agent = AgentBuilder::new(model).tool(Work).build();
    let turns = usize::try_from(steps).expect("few steps") + 1;
    let runtime = runtime();
    let run = || runtime.block_on(async { agent.prompt(PROMPT).max_turns(turns).await });
    let Ok(first) = run() else {
        let steps = calls.load(Ordering::Relaxed);
        return Peer::TooSlow { steps, each: started.elapsed().as_secs_f64() * 1e6 / steps as f64 };
    };
    assert_eq!((first.to_string().as_str(), calls.load(Ordering::Relaxed)), ("done", steps));
    is_in_time.store(true, Ordering::Relaxed);
    let (cost, rounds) = measure(steps, || drop(black_box(run().expect("an answer"))));
    assert!(calls.load(Ordering::Relaxed).is_multiple_of(steps), "one request per step");
    Peer::Measured(cost, rounds)
}

fn endstop_at(depth: u32, steps: u64) -> Cost {
    let agent = agent_at(depth, steps);
    let runtime = runtime();
    let measured = measure(steps, || {
        let state = runtime.block_on(agents::run(&agent));
        assert_eq!(state.step_count(), steps + 2 * u64::from(depth));
        black_box(state);
    });
    measured.0
}

fn floor(steps: u64) -> Cost {
    let (model, tool) = (agents::model(steps), Arc::new(agents::tool()));
    let runtime = runtime();
    let measured = measure(steps, || {
        let messages = runtime.block_on(by_hand(&model, &tool, steps + 1));
        assert_eq!(messages.len() as u64, 2 * steps);
        black_box(messages);
    });
    measured.0
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn row(name: &str, cost: Cost, more: &str) {
    println!("  {name:<34} {:9.2} {:9.2}   {more}", cost.best, cost.median);
}

fn main() {
    let is_ours_alone = std::env::args().skip(1).any(|word| word == "ours");
    println!(
        "the agent loop with an instant model, one tool call per step, four limits: us a step, best and \
         median of {ROUNDS} rounds; goal {GOAL} us, and flat"
    );
    println!("  {:<34} {:>9} {:>9}", "", "best", "median");
    for steps in LENGTHS {
        let hand = floor(steps);
        let ours = endstop_at(0, steps);
        row(&format!("{steps:>6} steps, a loop by hand"), hand, "");
        row(
            &format!("{steps:>6} steps, endstop"),
            ours,
            &format!("{:.1} times the loop by hand", ours.median / hand.median),
        );
        if is_ours_alone {
            continue;
        }
        let name = format!("{steps:>6} steps, rig-agent 0.44");
        match rig(steps) {
            Peer::Measured(rig, rounds) => {
                let ratio = rig.median / ours.median;
                row(&name, rig, &format!("ratio {ratio:.1}; {rounds} rounds"));
            }
            Peer::TooSlow { steps, each } => println!(
                "  {name:<34} not finished in {} s: {each:.0} us a step in the first {steps}",
                PATIENCE.as_secs()
            ),
        }
    }
    println!("the same loop in a sub-agent; a step counts for each of its ancestors too");
    for depth in [1, 4] {
        for steps in LENGTHS {
            row(&format!("{steps:>6} steps, depth {depth}"), endstop_at(depth, steps), "");
        }
    }
}
