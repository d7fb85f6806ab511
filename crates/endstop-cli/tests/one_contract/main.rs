//! One contract: the same policy on the same run gives the same stop, step, reason and leaves in the agent loop, in the
//! gateway, in a dry run and in replay (docs/semantics.md, section 2).
//!
//! Policies are generated from the published list, `endstop::core::condition::contract`, and runs are scripted: the
//! same model responses and tool results reach every driver. Each test has its seed, so a failure comes again.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong should panic"
)]

mod agent_loop;
mod case;
mod generate;
mod live_gateway;
mod outcome;
mod provider;

use std::fmt::Write as _;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use case::Case;
use endstop::core::signal::StopReason;
use generate::{Gauges, case};
use outcome::{Live, Outcome};

/// The cases of one test. All tests together run 500.
const CASES: u32 = 125;

/// Runs the cases of a seed, and shrinks a case that fails.
fn check(seed: u8, gauges: Gauges, test: fn(&Case) -> Result<(), String>) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let tried = runner.run(&case(gauges), |case| {
        test(&case).map_err(|why| TestCaseError::fail(format!("{why}\n{case}")))
    });
    if let Err(error) = tried {
        panic!("seed {seed}: {error}");
    }
}

/// The four live runs of a case.
struct Drivers {
    agent: Live,
    gateway: Live,
    agent_freely: Live,
    gateway_freely: Live,
}

impl Drivers {
    fn run(case: &Case) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let free = case.without_rules();
        runtime.block_on(async {
            Self {
                agent: agent_loop::run(case, None).await,
                gateway: live_gateway::run(case, None).await,
                agent_freely: agent_loop::run(&free, Some(case)).await,
                gateway_freely: live_gateway::run(&free, Some(case)).await,
            }
        })
    }

    /// Each driver's outcome, by name.
    fn outcomes(&self, case: &Case) -> Vec<(&'static str, Outcome)> {
        let replayed = |live: &Live, as_live| outcome::replayed(case, &live.trace, as_live);
        vec![
            ("agent loop", self.agent.outcome.clone()),
            ("gateway", self.gateway.outcome.clone()),
            ("dry run of the agent loop", self.agent_freely.dry_run.clone().unwrap()),
            ("dry run of the gateway", self.gateway_freely.dry_run.clone().unwrap()),
            ("replay of the agent loop's free run", replayed(&self.agent_freely, false)),
            ("replay of the gateway's free run", replayed(&self.gateway_freely, false)),
            ("replay of the trace of the agent loop", replayed(&self.agent, false)),
            ("replay of the trace of the gateway", replayed(&self.gateway, false)),
            ("replay --as-live of the trace of the agent loop", replayed(&self.agent, true)),
            ("replay --as-live of the trace of the gateway", replayed(&self.gateway, true)),
        ]
    }
}

fn listed(outcomes: &[(&'static str, Outcome)]) -> String {
    let mut text = String::new();
    for (driver, outcome) in outcomes {
        let _ = writeln!(text, "  {driver}: {outcome}");
    }
    text
}

/// Every driver has the same outcome.
fn all_alike(case: &Case) -> Result<(), String> {
    let outcomes = Drivers::run(case).outcomes(case);
    let (_, first) = &outcomes[0];
    match outcomes.iter().all(|(_, outcome)| outcome == first) {
        true => Ok(()),
        false => Err(format!("the drivers differ:\n{}", listed(&outcomes))),
    }
}

/// A live run also refuses by worst cases: it stops where a dry run and replay do, or earlier, and its own trace
/// replayed `--as-live` stops as it did.
fn live_no_later(case: &Case) -> Result<(), String> {
    let drivers = Drivers::run(case);
    let outcomes = drivers.outcomes(case);
    let of = |name: &str| &outcomes.iter().find(|(driver, _)| *driver == name).unwrap().1;
    let mut wrong = Vec::new();
    for driver in ["agent loop", "gateway"] {
        let live = of(driver);
        let as_live = of(&format!("replay --as-live of the trace of the {driver}"));
        if as_live != live {
            wrong.push(format!("replay --as-live of the {driver} differs"));
        }
        let dry = of(&format!("dry run of the {driver}"));
        if dry != of(&format!("replay of the {driver}'s free run")) {
            wrong.push(format!("the dry run of the {driver} and replay of its trace differ"));
        }
        let ends = |outcome: &Outcome| (outcome.steps, outcome.reason == StopReason::Completed);
        if ends(live) > ends(dry) {
            wrong.push(format!("the {driver} stops later than its dry run"));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("{}:\n{}", wrong.join("; "), listed(&outcomes))),
    }
}

#[test]
fn drivers_stop_alike_by_everything_that_all_of_them_read_first_seed() {
    check(1, Gauges::Same, all_alike);
}

#[test]
fn drivers_stop_alike_by_everything_that_all_of_them_read_second_seed() {
    check(2, Gauges::Same, all_alike);
}

#[test]
fn drivers_stop_alike_by_everything_that_all_of_them_read_third_seed() {
    check(3, Gauges::Same, all_alike);
}

#[test]
fn under_token_and_cost_rules_a_live_run_stops_no_later_than_replay() {
    check(4, Gauges::WithSpend, live_no_later);
}
