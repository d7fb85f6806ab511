//! A model call of a run: reserved before it is sent, settled once, whatever happens.

use std::sync::Arc;
use std::time::Duration;

use endstop_core::event::EventKind;
use endstop_core::policy::{Action, OnUnpriced};
use endstop_core::run::{Directive, Status};
use endstop_core::signal::StopReason;
use endstop_core::units::{Cost, Money, TokenUsage, WallTime};
use endstop_price::ReportedUsage;
use tokio::time::Instant;

use super::admission::{Admitted, NotAdmitted};
use super::fit::CallRoom;
use super::input::InputBound;
use super::plan::{CallPlan, PlannedCall, settled};
use super::pricing::{Pricing, higher};
use super::step::is_cut_off;
use crate::account::{AccountBlock, AccountHold, AccountWait};
use crate::clock::millis;
use crate::ledger::{Amounts, Hold};
use crate::limits::{BYTES_PER_TOKEN, OUTPUT_AHEAD};
use crate::model_error::{ModelError, ModelErrorKind};
use crate::observe::{Detail, SettledCall, Spender};
use crate::provider_api::ProviderApi;
use crate::run::{RunHandle, RunNode, is_over};
use crate::tool_call::ToolCall;

/// The outcome of a call that was replied to.
///
/// See the example of [`CallPlan`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome<'o> {
    /// The model that answered.
    pub model: Option<&'o str>,
    /// Tokens used, as the provider counted them or as they are estimated.
    pub usage: TokenUsage,
    /// The cost; `None` to compute it from the usage.
    pub cost: Option<Cost>,
    /// Whether the usage is an estimate.
    pub is_estimate: bool,
    /// The part of the cost that no provider confirmed.
    pub unconfirmed: Money,
    /// The finish reason as the provider gave it.
    pub finish: Option<&'o str>,
    /// The tool calls that the response requests; none of a response that was cut.
    pub tool_calls: &'o [ToolCall],
    /// The model's text.
    pub text: &'o str,
    /// Output tokens that were reasoning.
    pub reasoning_tokens: Option<u64>,
    /// From the request to the first piece.
    pub first_piece_after: Option<Duration>,
}

/// The charge for a call whose provider did not report its whole usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Tokens.
    pub usage: TokenUsage,
    /// Their cost.
    pub cost: Cost,
    /// The part of the cost that no provider confirmed.
    pub unconfirmed: Money,
    /// Whether some of it is an estimate or a bound.
    pub is_estimate: bool,
}

impl Charge {
    /// The charge for a request that was not sent.
    pub const NONE: Self = Self {
        usage: TokenUsage { input: 0, cache_read: 0, cache_write: 0, cache_write_1h: 0, output: 0 },
        cost: Cost::Known(Money::ZERO),
        unconfirmed: Money::ZERO,
        is_estimate: false,
    };
}

/// The part of a response that was received.
///
/// Passed to [`OpenCall::failed`] and [`OpenCall::charge`]:
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(9));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// # use endstop_core::units::TokenUsage;
/// # use endstop_price::PriceTable;
/// # use endstop_runtime::{CallPlan, InputBound, Pricing, RunEnvironment};
/// use endstop_runtime::{ModelError, ModelErrorKind, Received};
///
/// # let run = RunHandle::root(info, program, RunEnvironment::default());
/// # let pricing = Pricing::new("anthropic", "claude-sonnet-4-5", PriceTable::embedded());
/// # let (max_output, min_output, is_wrap_up) = (10, 1, false);
/// # let (is_final, takes_share, input, tool_input, pricing) = (true, false, InputBound::of_bytes(10), 0, &pricing);
/// # let plan = CallPlan {
/// #     pricing, input, tool_input, max_output, min_output, is_wrap_up, is_final, takes_share,
/// #     accounts: None,
/// # };
/// # run.begin();
/// # run.begin_step(&plan);
/// # let call = run.begin_call(&plan).unwrap();
/// // A stream broke after the provider had reported its input, and 300 bytes of output.
/// let usage = TokenUsage { input: 2_000, ..TokenUsage::default() };
/// let received = Received { usage: Some(usage), output_bytes: 300, ..Received::default() };
/// let error = ModelError::new(ModelErrorKind::Truncated, "the connection broke");
/// let charge = call.failed(&error, &received).unwrap();
/// assert!(charge.is_estimate && charge.usage.input == 2_000 && charge.usage.output > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// The usage that the provider reported.
    pub usage: Option<TokenUsage>,
    /// Bytes of its output.
    pub output_bytes: u64,
    /// Whether the provider has stopped producing it because a stream was closed. Otherwise it is produced in full,
    /// even if the client does not read it.
    pub is_stream: bool,
    /// The number of responses that are made at the same time; 0 counts as 1.
    pub choices: u64,
}

/// The part of a response that was received.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    received: Received,
    /// Whether the output that is reported is all of it: of a complete response.
    is_output_final: bool,
}

/// The report on a response that did not fail.
///
/// Passed to [`OpenCall::charge`]. The default is an incomplete response that reported nothing.
///
/// ```
/// use endstop_core::units::TokenUsage;
/// use endstop_price::ReportedUsage;
/// use endstop_runtime::ResponseReport;
///
/// let usage = ReportedUsage::from(TokenUsage { input: 30, output: 8, ..TokenUsage::default() });
/// let report = ResponseReport { usage: Some(&usage), model: None, is_complete: true };
/// # assert!(report.is_complete);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseReport<'r> {
    /// The usage, as far as the provider reported it.
    pub usage: Option<&'r ReportedUsage>,
    /// The model that responded, if the response names it.
    pub model: Option<&'r str>,
    /// Whether the response is complete.
    pub is_complete: bool,
}

/// Why a call does not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotBegun {
    /// The call would fit if other calls in flight were settled, of the run or of a run that shares its budget.
    /// Nothing was recorded: try again when one of them is settled. None blocks it forever, because each is settled
    /// once.
    OthersHold,
    /// The limits leave room for this call or for the wrap-up after it, not for both, because attempts of the step have
    /// failed and are charged. End the step: the next one begins as the wrap-up.
    WrapUpDue,
    /// An account has no room now, and will have, or its store fails: ask again after [`RunHandle::wait_for_account`],
    /// unless [`AccountWait::is_over`].
    AwaitsAccount(AccountWait),
    /// The run has stopped or is paused.
    Over(Status),
}

/// Counts of model calls. Two readings show whether a wait for calls in flight makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls that are reserved and not settled.
    pub in_flight: u64,
    /// Calls that are settled, failed ones included.
    pub settled: u64,
}

/// A call that has begun. It is settled exactly once. One that is dropped charges its worst case: its request may be on its way,
/// and no driver is left to read what it costs.
///
/// See the example of [`CallPlan`].
#[derive(Debug)]
#[must_use = "a call that is dropped charges its worst case"]
pub struct OpenCall {
    hold: Option<Hold>,
    accounts: Option<Box<AccountHold>>,
    /// The name of the client's key.
    key: Option<Arc<str>>,
    /// Whether the accounts count a step with it.
    counts_step: bool,
    node: Arc<RunNode>,
    pricing: Pricing,
    at: WallTime,
    input: u64,
    /// The part of it that the provider may add after it has reported the rest.
    added_input: u64,
    estimated_input: u64,
    output: u64,
    unpriced: OnUnpriced,
    holds_unknown: bool,
    frees_errors: bool,
    is_capped: bool,
    lowered_by: Option<StopReason>,
    is_by_others: bool,
    /// Whether what others hold on its accounts lowered the output cap.
    is_by_accounts: bool,
    is_shared: bool,
    ends_step: bool,
    begun: Instant,
}

impl RunHandle {
    pub(crate) fn planned<'p>(&self, plan: &CallPlan<'p>) -> PlannedCall<'p> {
        let finishes = self.look(|run| run.program().has_action(Action::Finish));
        PlannedCall::new(plan, self.node().wall(), finishes, self.unpriced())
    }

    /// Returns whether money or tokens are limited for the run: then a call has to have an output cap, and a call whose
    /// usage cannot be read cannot be admitted.
    #[must_use]
    pub fn is_metered(&self) -> bool {
        let has_accounts =
            self.node().accounts().is_some_and(|accounts| accounts.current().is_metered());
        has_accounts || self.budget().limits_usage() || self.needs_reserve()
    }

    /// Returns whether the step of a call is better begun once other calls in flight are settled, as
    /// [`NotBegun::OthersHold`] says: for the call, or because their holds alone would make it the wrap-up. Nothing
    /// begins.
    #[must_use]
    pub fn waits_for_others(&self, plan: &CallPlan<'_>) -> bool {
        // If no run holds anything there is nothing to wait for; so it is of most calls.
        if !self.budget().is_anything_held() || !self.is_metered() {
            return false;
        }
        let planned = self.planned(plan);
        let finishes = self.look(|run| run.program().has_action(Action::Finish));
        self.node().chain().step_waits(&planned, finishes)
    }

    /// Returns the model calls of all runs that share the outermost budget.
    #[must_use]
    pub fn calls_at_root(&self) -> CallCounts {
        let (in_flight, settled) = self.budget().attempts_at_root();
        CallCounts { in_flight, settled }
    }

    /// Reserves the worst case of a call, its output cap lowered to fit, and starts the attempt.
    ///
    /// # Errors
    ///
    /// Returns the reason why the call does not begin. The run has stopped by then, unless others hold what the call needs.
    pub fn begin_call(&self, plan: &CallPlan<'_>) -> Result<OpenCall, NotBegun> {
        let mut planned = self.planned(plan);
        let (model, provider) = (plan.pricing.model(), plan.pricing.provider());
        let counts_step = self.node().set_owes_step(false);
        let accounts = match self.reserve_on_accounts(&planned, counts_step) {
            Ok(accounts) => accounts,
            Err(block) => {
                self.node().set_owes_step(counts_step);
                return Err(self.not_begun(&block, model));
            }
        };
        // Asked after the reservation, which may have been the first under other definitions of the accounts.
        let is_capped =
            self.is_metered() || accounts.as_ref().is_some_and(|held| held.is_metered());
        if let Some(held) = &accounts {
            planned = planned.within(&held.amounts());
        }
        let (begun, holds_unknown, frees_errors) = {
            let mut chain = self.node().chain();
            let begun = chain.begin_call(&planned, model, provider);
            (begun, chain.holds_unknown_usage(), chain.frees_server_errors())
        };
        match begun {
            Ok(Admitted { hold, output, lowered_by, is_by_others, is_shared }) => Ok(OpenCall {
                hold: Some(hold),
                is_by_accounts: accounts
                    .as_ref()
                    .is_some_and(|held| planned.is_capped_by_accounts(output, held.by_others())),
                accounts,
                key: self.node().key(),
                counts_step,
                node: Arc::clone(self.node()),
                pricing: plan.pricing.clone(),
                at: planned.at(),
                input: planned.most_input(),
                added_input: plan.tool_input,
                estimated_input: planned.estimated_input(),
                output,
                unpriced: planned.unpriced(),
                holds_unknown,
                frees_errors,
                is_capped,
                lowered_by,
                is_by_others,
                is_shared,
                ends_step: false,
                begun: Instant::now(),
            }),
            Err(why) => {
                self.node().set_owes_step(counts_step);
                accounts.into_iter().for_each(|held| held.settle(Amounts::ZERO));
                Err(self.not_begun(&why, model))
            }
        }
    }

    fn not_begun(&self, why: &NotAdmitted, model: &str) -> NotBegun {
        match why {
            NotAdmitted::OthersHold => NotBegun::OthersHold,
            NotAdmitted::WrapUpDue => NotBegun::WrapUpDue,
            NotAdmitted::Account(AccountBlock::Wait(wait)) => NotBegun::AwaitsAccount(wait.clone()),
            why => {
                self.not_admitted(why, model);
                NotBegun::Over(self.status())
            }
        }
    }
}

impl OpenCall {
    /// Returns the output cap that the call has to be sent with; `None` if nothing limits tokens or money.
    #[must_use]
    pub fn output_cap(&self) -> Option<u64> {
        self.is_capped.then_some(self.output)
    }

    /// Returns the limit that lowered the output cap below what was wanted, without what other calls in flight hold.
    #[must_use]
    pub const fn lowered_by(&self) -> Option<StopReason> {
        if self.is_by_others || self.is_by_accounts { None } else { self.lowered_by }
    }

    /// Returns whether the output cap cut a response off, by its finish reason as the provider gave it, and is a share
    /// that is lower than what the limits leave. The run should not stop for that: the call can be repeated without a
    /// share ([`CallPlan::takes_share`]).
    #[must_use]
    pub fn is_cut_by_share(&self, finish: Option<&str>) -> bool {
        self.is_shared && is_cut_off(finish)
    }

    /// Returns whether the output cap cut a response off, and is lower than wanted only together with what other calls
    /// in flight hold, by a share or without.
    #[must_use]
    pub fn is_cut_by_others(&self, finish: Option<&str>) -> bool {
        (self.is_by_others || self.is_by_accounts) && is_cut_off(finish)
    }

    /// Returns whether the same call fits a second time now with a larger output cap, next to all holds of this one and
    /// of others. `false` if calls in flight on its accounts lowered it, because that is not yet known.
    #[must_use]
    pub fn can_be_repeated(&self) -> bool {
        if self.is_by_accounts {
            return false;
        }
        let output = self.output.saturating_add(1);
        let run = RunHandle::of_node(Arc::clone(&self.node));
        run.room_for(&CallPlan {
            pricing: &self.pricing,
            input: InputBound::of_bytes(self.input),
            tool_input: 0,
            max_output: output,
            min_output: output,
            is_wrap_up: false,
            is_final: true,
            takes_share: false,
            accounts: None,
        }) == CallRoom::Now
    }

    /// Returns when it began, or was sent ([`OpenCall::sent`]).
    #[must_use]
    pub const fn begun(&self) -> Instant {
        self.begun
    }

    /// Returns an estimate of the input that was sent, for providers that do not count it.
    #[must_use]
    pub const fn estimated_input(&self) -> u64 {
        self.estimated_input
    }

    /// Returns the cost of `usage`.
    #[must_use]
    pub fn cost(&self, usage: &TokenUsage) -> Cost {
        self.pricing.cost(usage, self.at)
    }

    /// Returns the call's wall time, for exact prices.
    #[must_use]
    pub const fn at(&self) -> WallTime {
        self.at
    }

    /// Returns the charge for a response that did not fail: by the usage that the provider reported, if that is
    /// complete. Otherwise the most that is possible (`docs/semantics.md`, "Charging when usage is missing"), or an
    /// estimate if the policies say so ([`Accounting`](endstop_core::policy::Accounting)), and at least the fees and
    /// the cost that the provider reported.
    ///
    /// The higher price counts if another model responded. A cost that the provider reports for a complete response counts
    /// as `docs/semantics.md`, section 1, says.
    #[must_use]
    pub fn charge(&self, received: &Received, report: &ResponseReport<'_>) -> Charge {
        let ResponseReport { usage, model, is_complete } = *report;
        // A report without output for a response with text is incomplete.
        let counted = usage.filter(|usage| is_complete && usage.is_whole(received.output_bytes));
        if let Some(counted) = counted {
            return Charge {
                usage: counted.tokens,
                cost: self.pricing.cost_of_report(counted, model, self.at),
                unconfirmed: Money::ZERO,
                is_estimate: false,
            };
        }
        let is_output_final = is_complete && usage.is_some_and(ReportedUsage::is_output_final);
        let tokens = usage.map(|usage| usage.tokens);
        let arrived =
            Arrived { received: Received { usage: tokens, ..*received }, is_output_final };
        let charge = match is_complete && !self.holds_unknown {
            true => self.estimated(&arrived),
            false => self.most(&arrived),
        };
        let by_table = if usage.is_some() || model.is_some() {
            let half = match usage {
                Some(usage) => usage.with_tokens(&charge.usage),
                None => ReportedUsage::from(charge.usage),
            };
            higher(charge.cost, self.pricing.cost_of_half(&half, model, self.at))
        } else {
            charge.cost
        };
        let billed = usage.and_then(|usage| usage.billed);
        let cost = if is_complete {
            self.pricing.with_report(billed, by_table)
        } else {
            // More may follow.
            let billed = billed.filter(|billed| *billed > Money::ZERO);
            higher(by_table, billed.map_or(Cost::Unpriced, Cost::Known))
        };
        let unconfirmed = match cost {
            Cost::Known(cost) => charge.unconfirmed.min(cost),
            Cost::Unpriced => charge.unconfirmed,
        };
        Charge { cost, unconfirmed, ..charge }
    }

    /// The most that a call can have used: the input that was reported, or all that was reserved for it, and all output
    /// that can have been made until now. An estimate if nothing limits tokens or money.
    fn most(&self, arrived: &Arrived) -> Charge {
        let (usage, cost) = self.most_of(arrived);
        let confirmed = match (arrived.received.usage, arrived.received.output_bytes) {
            (None, 0) => Cost::Known(Money::ZERO),
            _ => self.cost(&self.estimate(arrived)),
        };
        let unconfirmed = match (cost, confirmed) {
            (Cost::Known(cost), Cost::Known(confirmed)) => cost.saturating_sub(confirmed),
            _ => Money::ZERO,
        };
        Charge { usage, cost, unconfirmed, is_estimate: true }
    }

    fn estimated(&self, arrived: &Arrived) -> Charge {
        let usage = self.estimate(arrived);
        Charge { usage, cost: self.cost(&usage), unconfirmed: Money::ZERO, is_estimate: true }
    }

    /// The reported usage, and at least the output that arrived.
    fn estimate(&self, arrived: &Arrived) -> TokenUsage {
        let Arrived { received, is_output_final } = arrived;
        let told = received.usage.unwrap_or_default();
        let by_bytes = received.output_bytes.div_ceil(BYTES_PER_TOKEN);
        let by_bytes = if self.is_capped { by_bytes.min(self.output) } else { by_bytes };
        let output = if *is_output_final { told.output } else { told.output.max(by_bytes) };
        if told.total_input() > 0 {
            return TokenUsage { output, ..told };
        }
        TokenUsage { input: self.estimated_input, output, ..TokenUsage::default() }
    }

    fn most_of(&self, arrived: &Arrived) -> (TokenUsage, Cost) {
        let Arrived { received, is_output_final } = arrived;
        let told = received.usage.unwrap_or_default();
        let is_input_told = told.total_input() > 0;
        let output = if self.is_capped {
            let made = self.made_until_now().saturating_mul(received.choices.max(1));
            let made = if received.is_stream { made } else { self.output };
            // A token has at least one byte.
            made.max(received.output_bytes).min(self.output)
        } else {
            received.output_bytes.div_ceil(BYTES_PER_TOKEN)
        };
        let output = if *is_output_final { told.output } else { told.output.max(output) };
        if is_input_told {
            return self.most_beyond(told, output);
        }
        let input = if self.is_capped { self.input } else { self.estimated_input };
        let usage = TokenUsage { input, output, ..TokenUsage::default() };
        let cost = if self.is_capped {
            self.pricing.worst(input, output, self.at)
        } else {
            self.cost(&usage)
        };
        (usage, cost)
    }

    /// The most usage if the input was reported: what else was reserved stays held.
    fn most_beyond(&self, told: TokenUsage, output: u64) -> (TokenUsage, Cost) {
        let usage = TokenUsage { output, ..told };
        if !self.is_capped || self.added_input == 0 && !self.pricing.has_more_than_text() {
            return (usage, self.cost(&usage));
        }
        let input = told.input.saturating_add(self.added_input);
        let cost = self.pricing.worst_beyond(&told, self.added_input, output, self.at);
        (TokenUsage { input, ..usage }, cost)
    }

    /// Output tokens that a model can have made since the request was sent.
    fn made_until_now(&self) -> u64 {
        let millis = millis(self.begun.elapsed());
        let rate = ProviderApi::fastest_output_of(self.pricing.provider());
        (millis.saturating_mul(rate) / 1_000).saturating_add(OUTPUT_AHEAD)
    }

    /// Records that the request is sent now: its time counts from here.
    pub fn sent(&mut self) {
        self.begun = Instant::now();
    }

    /// Closes the step too if the call is dropped: no driver is left to do so.
    pub const fn end_step_on_drop(&mut self) {
        self.ends_step = true;
    }

    /// Settles a response, or the part of one that came before it was cut. Returns the run's directive.
    pub fn replied(mut self, outcome: &Outcome<'_>) -> Directive {
        let holds = self.take_holds();
        let cost = outcome.cost.unwrap_or_else(|| self.cost(&outcome.usage));
        let kind = EventKind::Reply {
            model: outcome.model.or(Some(self.pricing.model())),
            usage: Some(outcome.usage),
            cost: Some(cost),
            finish: outcome.finish,
            tool_calls: u32::try_from(outcome.tool_calls.len()).unwrap_or(u32::MAX),
        };
        let detail = Detail::Reply {
            text: outcome.text,
            tool_calls: outcome.tool_calls,
            is_estimate: outcome.is_estimate,
            unconfirmed: outcome.unconfirmed,
            reasoning_tokens: outcome.reasoning_tokens,
            first_piece_after: outcome.first_piece_after,
            took: self.begun.elapsed(),
        };
        self.settle(holds, (Some(outcome.usage), cost), outcome.is_estimate, &kind, detail)
    }

    /// Settles a failed call, of which `received` arrived. Returns its charge: the usage that the provider reports with the
    /// error. Otherwise the most that is possible, if [it may have been charged](ModelError::may_be_charged) or something
    /// arrived. `None` if it costs nothing.
    pub fn failed(mut self, error: &ModelError, received: &Received) -> Option<Charge> {
        let has_come = received.usage.is_some() || received.output_bytes > 0;
        // An error response arrived instead of a stream, so nothing was closed: behind a proxy, the provider may
        // continue.
        let is_stream = received.is_stream && (has_come || error.status.is_none());
        let arrived =
            Arrived { received: Received { is_stream, ..*received }, is_output_final: false };
        let charge = match error.usage {
            Some(usage) => Some(Charge {
                usage,
                cost: self.cost(&usage),
                unconfirmed: Money::ZERO,
                is_estimate: false,
            }),
            None => {
                (has_come || error.may_be_charged(self.frees_errors)).then(|| self.most(&arrived))
            }
        };
        self.fail(error, charge);
        charge
    }

    /// Settles a failed call at a charge that is known, such as that of a complete response without a client.
    pub fn failed_at(mut self, error: &ModelError, charge: Charge) {
        self.fail(error, Some(charge));
    }

    fn fail(&mut self, error: &ModelError, charge: Option<Charge>) {
        let (is_estimate, unconfirmed) =
            charge.map_or((false, Money::ZERO), |charge| (charge.is_estimate, charge.unconfirmed));
        let took = self.begun.elapsed();
        let detail = Detail::Failure { error, is_estimate, unconfirmed, took };
        let (usage, cost) = (charge.map(|charge| charge.usage), charge.map(|charge| charge.cost));
        let spent = (usage, cost.unwrap_or(Cost::Known(Money::ZERO)));
        let holds = self.take_holds();
        self.settle(holds, spent, is_estimate, &EventKind::AttemptFailed { usage, cost }, detail);
    }

    fn take_holds(&mut self) -> (Option<Hold>, Option<Box<AccountHold>>) {
        (self.hold.take(), self.accounts.take())
    }

    /// Ends the hold and records it, under the locks of the run and its ancestors: no other call sees the money twice
    /// or not at all.
    fn settle(
        &self,
        (hold, accounts): (Option<Hold>, Option<Box<AccountHold>>),
        (usage, cost): (Option<TokenUsage>, Cost),
        is_estimate: bool,
        kind: &EventKind<'_>,
        detail: Detail<'_>,
    ) -> Directive {
        let spent = settled(&usage.unwrap_or_default(), cost, self.unpriced);
        let (directive, is_run_over, number) = {
            let mut chain = self.node.chain();
            if let Some(hold) = hold {
                hold.settle(spent);
            }
            chain.add_usage(usage, is_estimate);
            let directive = chain.record(kind, detail);
            let number = chain.count_charge(&spent);
            (directive, is_over(chain.own_core().run.status()), number)
        };
        let model = match kind {
            EventKind::Reply { model: Some(model), .. } => *model,
            _ => self.pricing.model(),
        };
        // Before the accounts: an observer that stores it misses nothing that they have, whenever the process dies.
        self.node.tell_settled(&SettledCall {
            root: self.node.root_info(),
            wall: self.node.wall(),
            spender: Spender::Model { model, provider: self.pricing.provider() },
            usage,
            cost: spent.cost,
            is_priced: cost != Cost::Unpriced,
            unconfirmed: detail.unconfirmed(),
            is_estimate,
            is_run_over,
            budgets: accounts.as_ref().map_or(&[][..], |held| held.names()),
            key: self.key.as_deref(),
            number,
        });
        // Accounts are settled without the locks: their store may wait for other processes.
        if let Some(accounts) = accounts {
            accounts.settle(Amounts { steps: u64::from(self.counts_step), ..spent });
        }
        directive
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.hold.is_none() {
            return;
        }
        let worst = TokenUsage { input: self.input, output: self.output, ..TokenUsage::default() };
        let error = ModelError::new(ModelErrorKind::Truncated, "dropped before its end");
        let cost = self.pricing.worst(self.input, self.output, self.at);
        let unconfirmed = match cost {
            Cost::Known(cost) => cost,
            Cost::Unpriced => Money::ZERO,
        };
        self.fail(&error, Some(Charge { usage: worst, cost, unconfirmed, is_estimate: true }));
        if self.ends_step {
            let detail = Detail::Step { took: self.begun.elapsed() };
            self.node.chain().record(&EventKind::StepEnd, detail);
        }
    }
}
