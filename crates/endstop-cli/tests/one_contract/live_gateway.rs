//! The gateway between the provider and a client.

use std::sync::Arc;

use endstop::observe::{DryRunObserver, TraceRecorder};
use endstop::runtime::RunEnvironment;
use endstop::store::RunId;
use endstop_gateway::{Config, Gateway, Runs, Upstreams};

use crate::case::Case;
use crate::outcome::{Live, Outcome, Shared};
use crate::provider::{Client, Provider};

/// Runs a case, and with it a dry run of another policy.
pub(crate) async fn run(case: &Case, dry: Option<&Case>) -> Live {
    let provider = Provider::start(case).await;
    let (trace, id) = (Shared::default(), RunId::parse("run-1").unwrap());
    let mut environment = RunEnvironment::default();
    let recorder = TraceRecorder::one_file(trace.clone()).continues(true);
    environment.observers.push(Arc::new(recorder));
    let dry_run = dry.map(|case| Arc::new(DryRunObserver::new(case.program())));
    if let Some(dry_run) = &dry_run {
        environment.observers.push(Arc::<DryRunObserver>::clone(dry_run));
    }
    let upstreams = Upstreams::all(&format!("http://{}", provider.addr)).unwrap();
    // Notes to the model change no decision.
    let (program, tell_model) = (case.program(), vec![50, 80]);
    let config = Config {
        environment,
        tell_model,
        ..Config::new(upstreams, program, Runs::One(id.clone()))
    };
    let gateway = Gateway::start(config).await.unwrap();
    Client::connect(gateway.addr(), case.is_streaming).await.run().await;
    let run = gateway.run(&id).unwrap();
    let outcome = Outcome::of(&run.look(|run| run.trip_record()));
    gateway.shut_down().await;
    let dry_run = dry_run.map(|dry_run| Outcome::of_dry_run(&dry_run, &outcome));
    Live { outcome, dry_run, trace: trace.bytes() }
}
