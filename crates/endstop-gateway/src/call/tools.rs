//! How often tools may run at the provider, so that the call fits (`docs/semantics.md`, "Tools that run at the provider").

use endstop_llm::{CallSize, ProviderTools, ToolLimit};
use endstop_runtime::{CallPlan, CallRoom, RunHandle};

use crate::limits::LEAST_OUTPUT_WITH_TOOLS;

/// The warning to a client whose tools of the provider were removed.
pub(super) const TOOLS_REMOVED: &str = "tools that run at the provider were removed from this request: what they could \
    cost does not fit into the remaining budget";

/// How the tools of a call are limited, and what they can add to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ToolsFit {
    /// How they are changed in the request.
    pub(super) limit: ToolLimit,
    /// The most input tokens that they add.
    pub(super) input: u64,
    /// Most searches that are billed.
    pub(super) searches: u64,
}

/// The tools of one call.
pub(super) struct CallTools<'c> {
    pub(super) run: &'c RunHandle,
    /// All of them.
    pub(super) tools: &'c ProviderTools,
    /// The call without them.
    pub(super) plan: CallPlan<'c>,
    /// The most tokens that the model reads at once.
    pub(super) window: u64,
    /// How many responses are requested at once.
    pub(super) choices: u64,
}

impl CallTools<'_> {
    /// Finds how often the tools may run: as often as the request wants, or as often as fits. If not even one run does, they
    /// are removed if the request makes sense without them. A tool that is admitted by name is not bounded: it has
    /// as much room as the request.
    ///
    /// # Errors
    /// The name of a tool that does not fit.
    pub(super) fn fit(&self, is_admitted: impl Fn(&str) -> bool) -> Result<ToolsFit, &'static str> {
        let bounded = self.tools.without(is_admitted);
        let wanted = bounded.wanted_runs();
        let name = match bounded.name() {
            Some(name) if bounded.can_be_limited() => name,
            Some(name) => {
                return if self.room(&bounded, wanted) == CallRoom::Never && !self.is_over() {
                    Err(name)
                } else {
                    Ok(self.with(&bounded, wanted, ToolLimit::AsSent))
                };
            }
            // Nothing of them is bounded, or what they read is not billed.
            None => return Ok(self.with(&bounded, wanted, ToolLimit::AsSent)),
        };
        let least = wanted.min(1);
        let runs = match self.room(&bounded, least) {
            CallRoom::Now => self.most_runs(&bounded, least, wanted),
            CallRoom::OnceSettled => least,
            CallRoom::Never if self.is_over() => least,
            CallRoom::Never if self.tools.are_removable() => {
                return Ok(ToolsFit { limit: ToolLimit::Remove, ..ToolsFit::default() });
            }
            CallRoom::Never => return Err(name),
        };
        Ok(self.with(&bounded, runs, ToolLimit::Runs(runs)))
    }

    /// The most runs that fit now, of which the least do.
    fn most_runs(&self, bounded: &ProviderTools, least: u64, wanted: u64) -> u64 {
        let (mut low, mut above) = (least, wanted.saturating_add(1));
        while above.saturating_sub(low) > 1 {
            let middle = low.saturating_add(above.saturating_sub(low) / 2);
            if self.room(bounded, middle) == CallRoom::Now {
                low = middle;
            } else {
                above = middle;
            }
        }
        low
    }

    /// Whether the call does not fit without the tools either: then the limit is the reason, and not a tool.
    fn is_over(&self) -> bool {
        let plan = CallPlan { max_output: self.least_output(), ..self.plan };
        self.run.room_for(&plan) == CallRoom::Never
    }

    fn room(&self, bounded: &ProviderTools, runs: u64) -> CallRoom {
        let fit = self.with(bounded, runs, ToolLimit::AsSent);
        let pricing = self.plan.pricing.clone().with_searches(fit.searches);
        let output = self.least_output();
        self.run.room_for(&CallPlan {
            pricing: &pricing,
            tool_input: self.plan.tool_input.saturating_add(fit.input),
            max_output: output,
            ..self.plan
        })
    }

    /// The output that tools leave room for.
    fn least_output(&self) -> u64 {
        self.plan.max_output.min(LEAST_OUTPUT_WITH_TOOLS).max(self.plan.min_output)
    }

    fn with(&self, bounded: &ProviderTools, runs: u64, limit: ToolLimit) -> ToolsFit {
        let CallPlan { input, tool_input, max_output, .. } = self.plan;
        let input = input.tokens.saturating_add(tool_input);
        let size = CallSize { input, output: max_output, window: self.window };
        let added = bounded.added_input(runs, size);
        let admitted = if *bounded == *self.tools { 0 } else { input };
        ToolsFit {
            limit,
            input: added.saturating_mul(self.choices).saturating_add(admitted),
            searches: self
                .tools
                .searches(if admitted > 0 { self.tools.wanted_runs() } else { runs })
                .saturating_mul(self.choices),
        }
    }
}
