//! Metrics of model calls and of whole runs.

use std::time::Duration;

use endstop_core::Run;
use endstop_core::event::EventKind;
use endstop_core::units::{PICOS_PER_DOLLAR, TokenUsage};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};

use super::super::{Observation, RunInfo, StatusView};
use super::names;
use endstop_runtime::ledger::Budget;

/// Bounds of the buckets that the conventions ask for.
const TOKEN_BUCKETS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
const SECOND_BUCKETS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The budgeted dimensions, by the names of their gauges.
const DIMENSIONS: [&str; 5] = ["steps", "attempts", "tool_calls", "tokens", "cost"];

pub(super) struct Metrics {
    tokens: Histogram<u64>,
    duration: Histogram<f64>,
    consumed: Counter<f64>,
    limit: Gauge<f64>,
    runs: Counter<u64>,
}

/// The usage of a run when it was first seen: a resumed run was counted up to there before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used([[Option<u64>; DIMENSIONS.len()]; 2]);

impl Used {
    /// Direct and subtree.
    pub(super) fn of(run: &Run) -> Self {
        let direct = DIMENSIONS.map(|name| run.gauge(&format!("own.{name}")));
        Self([direct, DIMENSIONS.map(|name| run.gauge(name))])
    }

    /// As it was before the first event that is seen of a run: of what such an event can be, only a step that
    /// begins has been counted.
    pub(super) fn before(observation: &Observation<'_>) -> Self {
        let mut used = Self::of(observation.run);
        let is_step = matches!(observation.event.kind, EventKind::StepBegin);
        if is_step && observation.directive.admits() {
            for [steps, ..] in &mut used.0 {
                *steps = steps.map(|steps| steps.saturating_sub(1));
            }
        }
        used
    }
}

/// An amount in the unit of its metric: dollars, or a count.
fn amount(dimension: &str, number: u64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a metric is a float; the ledger counts in integers"
    )]
    let number = number as f64;
    #[expect(clippy::cast_precision_loss, reason = "a power of ten below 2^53 is exact")]
    let dollar = PICOS_PER_DOLLAR as f64;
    if dimension == "cost" { number / dollar } else { number }
}

/// Dollars as a float, for attributes.
pub(super) fn dollars(picos: u64) -> f64 {
    amount("cost", picos)
}

impl Metrics {
    pub(super) fn new(meter: &Meter) -> Self {
        Self {
            tokens: meter
                .u64_histogram(names::METRIC_TOKENS)
                .with_unit("{token}")
                .with_description("Tokens of model calls")
                .with_boundaries(TOKEN_BUCKETS.to_vec())
                .build(),
            duration: meter
                .f64_histogram(names::METRIC_DURATION)
                .with_unit("s")
                .with_description("Duration of model calls")
                .with_boundaries(SECOND_BUCKETS.to_vec())
                .build(),
            consumed: meter
                .f64_counter(names::METRIC_CONSUMED)
                .with_description("What runs used, by dimension; dollars for cost")
                .build(),
            limit: meter
                .f64_gauge(names::METRIC_LIMIT)
                .with_description("Where the next rule stops or holds the run, by dimension")
                .build(),
            runs: meter
                .u64_counter(names::METRIC_RUNS)
                .with_unit("{run}")
                .with_description("Runs that ended, by reason")
                .build(),
        }
    }

    /// A model call that was answered, or failed with `error`.
    pub(super) fn call(
        &self,
        attributes: &[KeyValue],
        usage: Option<TokenUsage>,
        took: Option<Duration>,
        error: Option<&'static str>,
    ) {
        let with = |further: KeyValue| [attributes, &[further]].concat();
        if let Some(usage) = usage {
            for (kind, number) in [("input", usage.total_input()), ("output", usage.output)] {
                self.tokens.record(number, &with(KeyValue::new(names::TOKEN_TYPE, kind)));
            }
        }
        let Some(took) = took else { return };
        match error {
            Some(error) => {
                let attributes = with(KeyValue::new(names::ERROR_TYPE, error));
                self.duration.record(took.as_secs_f64(), &attributes);
            }
            None => self.duration.record(took.as_secs_f64(), attributes),
        }
    }

    /// A run that ended or paused; `since` is the part that was already counted.
    pub(super) fn run(
        &self,
        info: &RunInfo,
        run: &Run,
        budget: &Budget,
        since: &Used,
        counting: &'static str,
    ) {
        let about = |dimension: &'static str, scope: &'static str| {
            [
                KeyValue::new(names::AGENT, info.agent.clone()),
                KeyValue::new(names::DIMENSION, dimension),
                KeyValue::new(names::SCOPE, scope),
                KeyValue::new(names::COUNTING, counting),
            ]
        };
        let now = Used::of(run);
        let scopes = [names::DIRECT, names::SUBTREE];
        for (scope, (now, since)) in scopes.into_iter().zip(now.0.iter().zip(&since.0)) {
            for (dimension, (now, since)) in DIMENSIONS.into_iter().zip(now.iter().zip(since)) {
                // An unknown amount is not zero, and is not added.
                let Some(now) = now else { continue };
                let used = now.saturating_sub(since.unwrap_or_default());
                self.consumed.add(amount(dimension, used), &about(dimension, scope));
            }
        }
        let view = StatusView::of(run, budget);
        let limits = [
            ("steps", view.steps_limit),
            ("tokens", view.tokens_limit),
            ("cost", view.cost_limit.map(endstop_core::units::Money::picos)),
        ];
        for (dimension, limit) in limits {
            let Some(limit) = limit else { continue };
            self.limit.record(amount(dimension, limit), &about(dimension, names::SUBTREE));
        }
        let Some(reason) = run.stop_reason() else { return };
        let attributes = [
            KeyValue::new(names::AGENT, info.agent.clone()),
            KeyValue::new(names::STOP_REASON, reason.value()),
            KeyValue::new(names::STATUS, run.status().name()),
        ];
        self.runs.add(1, &attributes);
    }
}
