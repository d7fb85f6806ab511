//! Runs as OpenTelemetry spans and metrics, by the GenAI semantic conventions (feature `otel`).
//!
//! ```text
//! invoke_agent main
//!   chat gpt-5.2
//!   execute_tool worker
//!     invoke_agent worker
//!       chat gpt-5.2
//! ```
//!
//! Only the API is used: the user chooses the SDK and its exporters. The texts of people, models and tools are not
//! exported by default. Times are those of the events.

mod attributes;
mod metrics;
mod names;
mod spans;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use endstop_core::Run;
use endstop_core::event::{EventKind, Source};
use endstop_core::run::Notice;
use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::metrics::Meter;
use opentelemetry::{Context, InstrumentationScope};

use super::{Observation, Observer, RunInfo};
use crate::limits::MAX_OBSERVED_RUNS;
use attributes::counting;
use endstop_runtime::ledger::Budget;
use endstop_runtime::store::RunId;
use metrics::{Metrics, Used};
use spans::Live;

/// Exports the acts of runs to OpenTelemetry.
///
/// ```
/// use endstop::agent::AgentLoop;
/// use endstop::core::condition::named::max_steps;
/// use endstop::model::{ScriptedModel, ScriptedResponse};
/// use endstop::observe::OtelObserver;
/// use opentelemetry::global;
/// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The program installs its exporter, such as OTLP; this one keeps the spans.
/// let spans = InMemorySpanExporter::default();
/// let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
/// global::set_tracer_provider(provider);
/// let agent = AgentLoop::builder("answerer")
///     .model(ScriptedModel::new("scripted").reply(ScriptedResponse::text("Forty-two.")))
///     .stop_when(max_steps(5))
///     .observer(OtelObserver::global())
///     .build()?;
/// agent.run("What is the answer?").await?;
/// let names: Vec<_> = spans.get_finished_spans()?.into_iter().map(|span| span.name).collect();
/// assert!(names.iter().any(|name| name == "invoke_agent answerer"), "{names:?}");
/// # Ok(())
/// # }
/// ```
pub struct OtelObserver {
    tracer: BoxedTracer,
    metrics: Metrics,
    exports_content: bool,
    live: Mutex<BTreeMap<RunId, Live>>,
}

impl fmt::Debug for OtelObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtelObserver")
            .field("exports_content", &self.exports_content)
            .finish_non_exhaustive()
    }
}

impl OtelObserver {
    /// Creates an observer with the providers that are set globally when this is called.
    #[must_use]
    pub fn global() -> Self {
        let scope = InstrumentationScope::builder("endstop")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        Self::new(global::tracer_with_scope(scope.clone()), &global::meter_with_scope(scope))
    }

    /// Creates an observer with this tracer (`BoxedTracer::new(Box::new(tracer))`) and this meter.
    #[must_use]
    pub fn new(tracer: BoxedTracer, meter: &Meter) -> Self {
        let metrics = Metrics::new(meter);
        Self { tracer, metrics, exports_content: false, live: Mutex::default() }
    }

    /// Sets whether to export what the model said, and the arguments and results of tool calls. They may hold
    /// anything that a run has read.
    #[must_use]
    pub const fn export_content(mut self, yes: bool) -> Self {
        self.exports_content = yes;
        self
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the span of a run within that of the tool call that began it, or within the current one.
    fn begin(&self, all: &mut BTreeMap<RunId, Live>, observation: &Observation<'_>) {
        let info = observation.info;
        let parent = info.parent.as_ref().and_then(|parent| all.get_mut(parent));
        let context = parent.map_or_else(Context::current, |parent| parent.parent_of(&info.agent));
        // The earlier usage of a resumed run is counted already.
        let since = if info.is_resumed { Used::before(observation) } else { Used::default() };
        if all.len() >= MAX_OBSERVED_RUNS {
            all.pop_first();
        }
        let live = Live::begin(&self.tracer, &context, info, observation.event.wall, since);
        all.insert(info.id.clone(), live);
    }
}

impl Observer for OtelObserver {
    fn observe(&self, observation: &Observation<'_>) {
        // A descendant's event is exported as its own.
        if observation.event.source == Source::Descendant
            || matches!(observation.event.kind, EventKind::Piece { .. } | EventKind::Tick)
        {
            return;
        }
        let mut all = self.lock();
        if !all.contains_key(&observation.info.id) {
            self.begin(&mut all, observation);
        }
        let Some(live) = all.get_mut(&observation.info.id) else { return };
        let called = live.event(&self.tracer, observation, self.exports_content);
        drop(all);
        if let Some(called) = called {
            self.metrics.call(&called.attributes, called.usage, called.took, called.error);
        }
    }

    fn warned(&self, info: &RunInfo, notice: &Notice, _run: &Run) {
        if let Some(live) = self.lock().get(&info.id) {
            live.warned(&notice.rule, &notice.message);
        }
    }

    fn run_ended(&self, info: &RunInfo, run: &Run, budget: &Budget) {
        let live = self.lock().remove(&info.id);
        let Some(live) = live else { return };
        self.metrics.run(info, run, budget, &live.since, counting(live.is_estimate));
        live.finish(run, budget);
    }
}

#[cfg(test)]
mod tests;
