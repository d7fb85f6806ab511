//! The worst case of a model call before it is made: how much input it can be, how much output fits.

use endstop_core::event::EventKind;
use endstop_core::policy::OnUnpriced;
use endstop_core::units::{Cost, Money, TokenUsage, WallTime};

use super::input::InputBound;
use super::pricing::{Pricing, amount};
use crate::account::DrawnAccounts;
use crate::ledger::{Amounts, Budget, Dimension, Limits};
use crate::limits::{BYTES_PER_TOKEN, WRAP_UP_OUTPUT_TOKENS, WRAP_UP_RESULTS_TOKENS};

/// The note to the model in a wrap-up.
pub const WRAP_UP_NOTE: &str = "This is your last turn: a limit of this run is near, and no tools can be called \
    any more. Answer now, as well as you can, with what you have. Say what is missing.";

/// A model call that is about to be made, as its driver knows it.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # use endstop_runtime::RunEnvironment;
/// # let policy = Policy::from_toml("[stop]\nmoney = \"cost >= $0.05\"")?;
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// # let run = RunHandle::root(info, program, RunEnvironment::default());
/// use endstop_core::units::{Cost, TokenUsage};
/// use endstop_price::PriceTable;
/// use endstop_runtime::{CallPlan, InputBound, MIN_OUTPUT_TOKENS, Outcome, Pricing};
///
/// // `run` stops at $0.05.
/// # run.begin();
/// let pricing = Pricing::new("anthropic", "claude-sonnet-4-5", PriceTable::embedded());
/// let (max_output, min_output) = (8_000, MIN_OUTPUT_TOKENS);
/// let plan = CallPlan {
///     pricing: &pricing,
///     input: InputBound::of_bytes(2_000),
///     tool_input: 0,
///     max_output,
///     min_output,
///     is_wrap_up: false,
///     is_final: true,
///     takes_share: false,
///     accounts: None,
/// };
/// assert!(run.begin_step(&plan).admits());
/// let call = run.begin_call(&plan).unwrap();
/// assert!(call.output_cap() < Some(max_output), "so much output does not fit");
///
/// let usage = TokenUsage { input: 1_500, output: 200, ..TokenUsage::default() };
/// call.replied(&Outcome { usage, finish: Some("stop"), ..Outcome::default() });
/// assert_eq!(run.cost(), Cost::Known("0.0075".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CallPlan<'p> {
    /// The model's prices, and its name and provider.
    pub pricing: &'p Pricing,
    /// The upper bound of the input.
    pub input: InputBound,
    /// The input tokens that the provider can add on its own at most: by tools that run there, or by reading the input
    /// once more.
    pub tool_input: u64,
    /// The output tokens that are wanted.
    pub max_output: u64,
    /// The output tokens below which the call is not worth making:
    /// [`RunHandle::min_output_tokens`](crate::RunHandle::min_output_tokens) for one response.
    pub min_output: u64,
    /// Whether the step is the wrap-up: then no room is kept for one.
    pub is_wrap_up: bool,
    /// Whether exactly this call is sent, and can wait before. Then a step does not begin if a shared budget has no
    /// room for its call, and a call waits while others hold what it needs. Otherwise the call may still change after
    /// its step has begun.
    pub is_final: bool,
    /// Whether the call takes a share while other calls are in flight, instead of the whole remaining budget: then more
    /// of them fit in parallel. Only with [`is_final`](Self::is_final). A response can be cut off by it
    /// ([`OpenCall::is_cut_by_share`](super::OpenCall::is_cut_by_share)).
    pub takes_share: bool,
    /// The budgets over time as the driver saw them when it decided what the call may have
    /// ([`RunHandle::refresh_accounts`](crate::RunHandle::refresh_accounts)). With `None` the reservation reads them.
    pub accounts: Option<&'p DrawnAccounts>,
}

/// A plan in its run: at a time, and with what the policies around it say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedCall<'p> {
    plan: CallPlan<'p>,
    at: WallTime,
    /// Whether room is kept for a wrap-up after this call.
    keeps_wrap_up: bool,
    /// The amount of a call without a price, for the ledger.
    unpriced: OnUnpriced,
    /// Whether money is left out of account.
    is_free: bool,
    /// The tokens and the money that accounts hold for the call; unlimited if it draws on none.
    granted: Limits,
}

/// The worst case of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Worst {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cost: Cost,
}

impl<'p> PlannedCall<'p> {
    pub(crate) const fn new(
        plan: &CallPlan<'p>,
        at: WallTime,
        finishes: bool,
        unpriced: OnUnpriced,
    ) -> Self {
        let keeps_wrap_up = finishes && !plan.is_wrap_up;
        Self {
            plan: *plan,
            at,
            keeps_wrap_up,
            unpriced,
            is_free: false,
            granted: Limits::unlimited(),
        }
    }

    /// The same call if it cost nothing.
    pub(super) const fn free(self) -> Self {
        Self { is_free: true, ..self }
    }

    /// The same call within what accounts hold for it.
    pub(super) fn within(self, held: &Amounts) -> Self {
        let (tokens, cost) = (Some(held.tokens), Some(held.cost));
        Self { granted: Limits { tokens, cost, ..Limits::unlimited() }, ..self }
    }

    /// The same call if accounts held so much for it.
    pub(super) const fn with_granted(self, granted: Limits) -> Self {
        Self { granted, ..self }
    }

    /// The amounts that accounts hold for it.
    pub(super) const fn granted(&self) -> &Limits {
        &self.granted
    }

    /// Whether what accounts hold for it of one of these is why it has no more output than this.
    pub(super) fn is_capped_by_accounts(&self, output: u64, of: &[Dimension]) -> bool {
        let more = self.amounts(self.worst(output.saturating_add(1)));
        let is_above =
            |it: &Dimension| self.granted.get(*it).is_some_and(|held| more.get(*it) > held);
        self.can_wait() && output < self.max_output() && of.iter().any(is_above)
    }

    pub(super) const fn at(&self) -> WallTime {
        self.at
    }

    pub(super) const fn unpriced(&self) -> OnUnpriced {
        self.unpriced
    }

    pub(super) fn model(&self) -> &str {
        self.plan.pricing.model()
    }

    pub(super) fn provider(&self) -> &str {
        self.plan.pricing.provider()
    }

    pub(super) const fn max_output(&self) -> u64 {
        self.plan.max_output
    }

    pub(super) const fn min_output(&self) -> u64 {
        self.plan.min_output
    }

    /// The same call with this output cap.
    pub(super) const fn with_max_output(self, max_output: u64) -> Self {
        let plan = CallPlan { max_output, ..self.plan };
        Self { plan, ..self }
    }

    pub(super) const fn accounts(&self) -> Option<&'p DrawnAccounts> {
        self.plan.accounts
    }

    pub(super) const fn takes_share(&self) -> bool {
        self.plan.takes_share && self.plan.is_final
    }

    /// The least output that is worth the call.
    pub(super) const fn least_output(&self) -> u64 {
        if self.plan.min_output < self.plan.max_output {
            self.plan.min_output
        } else {
            self.plan.max_output
        }
    }

    pub(super) const fn keeps_wrap_up(&self) -> bool {
        self.keeps_wrap_up
    }

    pub(super) const fn can_wait(&self) -> bool {
        self.plan.is_final
    }

    /// The most that so many tokens cost.
    fn cost(&self, input: u64, output: u64) -> Cost {
        if self.is_free {
            return Cost::Known(Money::ZERO);
        }
        self.plan.pricing.worst(input, output, self.at)
    }

    /// The most input, with what tools at the provider can add.
    pub(super) const fn most_input(&self) -> u64 {
        self.plan.input.tokens.saturating_add(self.plan.tool_input)
    }

    /// A guess of the input that was sent.
    pub(crate) const fn estimated_input(&self) -> u64 {
        let InputBound { tokens, counted } = self.plan.input;
        counted.saturating_add(estimate_tokens(tokens.saturating_sub(counted)))
    }

    /// The worst case with an output cap, without the reserve for a wrap-up.
    pub(crate) fn worst(&self, output: u64) -> Worst {
        let input = self.most_input();
        Worst { input, output, cost: self.cost(input, output) }
    }

    /// Like [`CallPlan::worst`], including the reserve for a wrap-up.
    pub(super) fn worst_with_wrap_up(&self, output: u64) -> Worst {
        self.with_wrap_up(self.worst(output))
    }

    /// A worst case plus the reserve for a wrap-up after it.
    pub(super) fn with_wrap_up(&self, worst: Worst) -> Worst {
        if !self.keeps_wrap_up {
            return worst;
        }
        let again = worst.input.saturating_add(worst.output).saturating_add(WRAP_UP_RESULTS_TOKENS);
        let wrap_up = self.cost(again, WRAP_UP_OUTPUT_TOKENS);
        Worst {
            input: worst.input.saturating_add(again),
            output: worst.output.saturating_add(WRAP_UP_OUTPUT_TOKENS),
            cost: plus(worst.cost, wrap_up),
        }
    }

    /// The amounts that the ledger holds for the call.
    pub(super) fn amounts(&self, worst: Worst) -> Amounts {
        let Worst { input, output, cost } = worst;
        settled(&TokenUsage { input, output, ..TokenUsage::default() }, cost, self.unpriced)
    }

    /// The most money that a million more output tokens cost.
    pub(super) fn output_rate(&self) -> Money {
        let with = self.cost(self.most_input(), 1_000_000);
        let without = self.cost(self.most_input(), 0);
        match (with, without) {
            (Cost::Known(with), Cost::Known(without)) => with.saturating_sub(without),
            _ => Money::ZERO,
        }
    }
}

/// The amounts of one attempt in the ledger.
pub(crate) fn settled(usage: &TokenUsage, cost: Cost, unpriced: OnUnpriced) -> Amounts {
    Amounts {
        attempts: 1,
        tokens: usage.total(),
        cost: amount(Some(cost), usage, unpriced),
        ..Amounts::default()
    }
}

/// Returns an estimate of tokens that were not counted: a bound by bytes is three to four times too high.
#[must_use]
pub const fn estimate_tokens(bound: u64) -> u64 {
    bound.div_ceil(BYTES_PER_TOKEN)
}

fn plus(a: Cost, b: Cost) -> Cost {
    match (a, b) {
        (Cost::Known(a), Cost::Known(b)) => {
            Cost::Known(Money::from_picos(a.picos().saturating_add(b.picos())))
        }
        _ => Cost::Unpriced,
    }
}

impl Worst {
    /// As an event for the run of a budget: the budget's holds for other calls in flight are added. A call without a
    /// price costs what the run's policy says.
    pub(crate) fn beside(&self, budget: &Budget, unpriced: OnUnpriced) -> EventKind<'static> {
        self.beside_held(budget.held(), unpriced)
    }

    /// Like [`Worst::beside`], with given amounts as the holds of other calls.
    pub(super) fn beside_held(&self, held: Amounts, unpriced: OnUnpriced) -> EventKind<'static> {
        let usage = TokenUsage { input: self.input, output: self.output, ..TokenUsage::default() };
        let cost = match (self.cost, unpriced) {
            (Cost::Unpriced, OnUnpriced::Stop) => Cost::Unpriced,
            (Cost::Unpriced, OnUnpriced::Ignore) if held.cost == Money::ZERO => Cost::Unpriced,
            _ => Cost::Known(amount(Some(self.cost), &usage, unpriced)),
        };
        EventKind::Reserve {
            input_tokens: self.input.saturating_add(held.tokens),
            output_tokens: self.output,
            cost: Some(plus(cost, Cost::Known(held.cost))),
        }
    }
}
