//! A tool call that can cost money: reserved before it begins, settled exactly once.
//!
//! It is handled like a model call: the ledger holds the most that it can cost, and the cores of the run and its
//! ancestors compare money with that added.

use std::sync::{Arc, Mutex, PoisonError};

use endstop_core::event::EventKind;
use endstop_core::policy::OnUnpriced;
use endstop_core::run::Directive;
use endstop_core::units::Money;

use super::admission::NotAdmitted;
use super::fit::Others;
use crate::account::{AccountBlock, AccountHold, AccountWait};
use crate::ledger::{Amounts, Budget, Hold};
use crate::observe::{Detail, SettledCall, Spender};
use crate::run::{LockedChain, RunHandle, RunNode, is_over};

/// The report of a tool about the cost of its call. Clones share one report.
///
/// See the example of [`OpenToolCall`].
#[derive(Clone, Debug, Default)]
pub struct CostReport(Arc<Mutex<Option<Money>>>);

impl CostReport {
    /// Reports the cost of the whole call so far, in place of what was reported before.
    pub fn set(&self, cost: Money) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(cost);
    }

    /// Returns the cost that was reported last.
    #[must_use]
    pub fn get(&self) -> Option<Money> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a tool call does not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolNotBegun {
    /// The cost would fit if calls in flight of the run or of its descendants were settled. Nothing was recorded: ask
    /// again once one of them is.
    OthersHold,
    /// An account has no room now, and will have, or its store fails: ask again after [`RunHandle::wait_for_account`],
    /// unless [`AccountWait::is_over`].
    AwaitsAccount(AccountWait),
    /// It is refused, or a person is asked first. If a limit refused it, the run has stopped.
    Refused(Directive),
}

/// A tool call that has begun. It is settled exactly once; one that is dropped is charged like one that failed.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_usd, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::{Detail, RunInfo}, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// use endstop_core::EventKind;
/// use endstop_core::units::{Cost, Money};
/// use endstop_runtime::{RunEnvironment, ToolNotBegun};
///
/// let cents = |n: u64| Money::from_picos(n * 10_000_000_000);
/// let policy = Policy::from(max_usd("0.50")?);
/// let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// let run = RunHandle::root(info, program, RunEnvironment::default());
/// run.begin();
/// run.try_begin(&EventKind::StepBegin, Detail::None);
///
/// // At most 30 cents a call: two do not fit side by side.
/// let begin = || run.begin_tool_call_at_most("search", Some(cents(30)), Detail::None);
/// let first = begin().unwrap();
/// assert!(matches!(begin(), Err(ToolNotBegun::OthersHold)));
/// first.succeeded(Some(cents(12)));
/// begin().unwrap().failed(None);
/// assert_eq!(run.cost(), Cost::Known(cents(42)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a tool call that is dropped is charged the most that it can cost"]
pub struct OpenToolCall {
    node: Arc<RunNode>,
    tool: String,
    /// The hold for it; `None` for a tool that declares no cost, or once it is settled.
    hold: Option<Hold>,
    accounts: Option<Box<AccountHold>>,
    report: CostReport,
    is_settled: bool,
}

impl RunHandle {
    /// Admits a tool call for the run and its ancestors that costs at most `most`: that amount is reserved, and money
    /// is compared. `None` and zero are for calls without a cost that is known in advance.
    ///
    /// # Errors
    ///
    /// Returns the reason why the call does not begin.
    pub fn begin_tool_call_at_most(
        &self,
        tool: &str,
        most: Option<Money>,
        detail: Detail<'_>,
    ) -> Result<OpenToolCall, ToolNotBegun> {
        let Some(most) = most.filter(|most| !most.is_zero()) else {
            let directive = self.begin_tool_call(tool, detail);
            let begun = directive.admits().then(|| self.open_tool_call(tool, None, None));
            return begun.ok_or(ToolNotBegun::Refused(directive));
        };
        if self.pause_request().is_some() {
            return Err(ToolNotBegun::Refused(Directive::Pause));
        }
        let accounts = match self.reserve_tool_on_accounts(most) {
            Ok(accounts) => accounts,
            Err(why) => return Err(self.tool_not_begun(&why, tool)),
        };
        let begun = self.node().chain().begin_tool_call(tool, most, detail);
        match begun {
            Ok(hold) => Ok(self.open_tool_call(tool, Some(hold), accounts)),
            Err(why) => {
                accounts.into_iter().for_each(|held| held.settle(Amounts::ZERO));
                Err(self.tool_not_begun(&why, tool))
            }
        }
    }

    fn tool_not_begun(&self, why: &NotAdmitted, tool: &str) -> ToolNotBegun {
        match why {
            NotAdmitted::OthersHold => ToolNotBegun::OthersHold,
            NotAdmitted::Account(AccountBlock::Wait(wait)) => {
                ToolNotBegun::AwaitsAccount(wait.clone())
            }
            NotAdmitted::Core(directive) => ToolNotBegun::Refused(*directive),
            why => {
                self.not_admitted(why, tool);
                ToolNotBegun::Refused(Directive::Stop)
            }
        }
    }

    fn open_tool_call(
        &self,
        tool: &str,
        hold: Option<Hold>,
        accounts: Option<Box<AccountHold>>,
    ) -> OpenToolCall {
        OpenToolCall {
            node: Arc::clone(self.node()),
            tool: tool.to_owned(),
            hold,
            accounts,
            report: CostReport::default(),
            is_settled: false,
        }
    }
}

impl LockedChain<'_> {
    /// Whether every core and every budget has room for the most that a tool call can cost.
    fn has_room_for_tool(&mut self, tool: &str, most: Money, others: Others) -> bool {
        let is_in_budget = others.room(self.own_budget()).cost.is_none_or(|left| most <= left);
        is_in_budget && self.would_admit(|budget, _| reserve(tool, most, others.held(budget).cost))
    }

    fn begin_tool_call(
        &mut self,
        tool: &str,
        most: Money,
        detail: Detail<'_>,
    ) -> Result<Hold, NotAdmitted> {
        // Only for what this run and its descendants hold: who holds for others may wait for this call.
        if self.own_budget().held().cost > Money::ZERO
            && !self.has_room_for_tool(tool, most, Others::Count)
            && self.has_room_for_tool(tool, most, Others::Ignore)
        {
            return Err(NotAdmitted::OthersHold);
        }
        let one = Amounts { tool_calls: 1, ..Amounts::ZERO };
        let cost = Amounts { cost: most, ..Amounts::ZERO };
        let budget = self.own_budget().clone();
        let held = budget.reserve_asked(one).and_then(|one| match budget.reserve_asked(cost) {
            Ok(hold) => Ok((one, hold)),
            Err(refused) => {
                one.release();
                Err(refused)
            }
        });
        let begin = EventKind::ToolBegin { tool };
        let (count, hold) = match held {
            Ok(both) => both,
            Err(refused) => {
                // The cores know the limit of a rule more exactly, and the run whose limit it is stops.
                let beside = |budget: &Budget, _| reserve(tool, most, budget.held().cost);
                if self.would_admit(beside) && self.would_admit(|_, _| begin.clone()) {
                    return Err(NotAdmitted::Ledger(refused));
                }
                let directive = match self.try_begin_each(beside, detail) {
                    directive if directive.admits() => self.try_begin(&begin, detail),
                    directive => directive,
                };
                let is_over = directive.stops();
                return Err(if is_over { NotAdmitted::Both } else { NotAdmitted::Core(directive) });
            }
        };
        // The call's own hold is not counted twice.
        let beside = |budget: &Budget, _: OnUnpriced| {
            reserve(tool, most, budget.held().cost.saturating_sub(most))
        };
        let directive = match self.try_begin_each(beside, Detail::None) {
            directive if directive.admits() => self.try_begin(&begin, detail),
            directive => directive,
        };
        if !directive.admits() {
            count.release();
            hold.release();
            return Err(NotAdmitted::Core(directive));
        }
        count.settle(one);
        Ok(hold)
    }
}

const fn reserve(tool: &str, cost: Money, held: Money) -> EventKind<'_> {
    EventKind::ToolReserve { tool, cost, held }
}

impl OpenToolCall {
    /// Returns the handle by which the tool can report its cost before its end.
    #[must_use]
    pub fn report(&self) -> CostReport {
        self.report.clone()
    }

    /// Settles a call that succeeded: at the cost that its result reports, that [`CostReport`] has, or else at the
    /// declared one. More than was declared is settled in full.
    pub fn succeeded(mut self, cost: Option<Money>) {
        self.settle(cost, true);
    }

    /// Settles a call that failed or was aborted. Without a report its declared cost is charged, as unconfirmed.
    pub fn failed(mut self, cost: Option<Money>) {
        self.settle(cost, false);
    }

    /// Settles a call that was not made after all, at nothing.
    pub fn not_made(mut self) {
        let cost = self.hold.as_ref().map(|_| Money::ZERO);
        self.settle(cost, true);
    }

    /// Ends the hold and records the cost, under the locks of the run and its ancestors: no other call sees the money
    /// twice or not at all. Accounts are settled afterwards, without the locks.
    fn settle(&mut self, cost: Option<Money>, is_confirmed: bool) {
        if std::mem::replace(&mut self.is_settled, true) {
            return;
        }
        let hold = self.hold.take();
        let declared = hold.as_ref().map(|hold| hold.amounts().cost);
        let reported = cost.or_else(|| self.report.get());
        let Some(cost) = reported.or(declared) else { return };
        let accounts = self.accounts.take();
        let is_known = is_confirmed || reported.is_some();
        let unconfirmed = if is_known { Money::ZERO } else { cost };
        let amounts = Amounts { cost, ..Amounts::ZERO };
        let (is_run_over, number) = {
            let mut chain = self.node.chain();
            match hold {
                Some(hold) => hold.settle(amounts),
                None => self.node.budget.charge(amounts),
            }
            let kind = EventKind::ToolCost { tool: &self.tool, cost };
            chain.record(&kind, Detail::ToolCost { unconfirmed });
            let number = chain.count_charge(&amounts);
            (is_over(chain.own_core().run.status()), number)
        };
        let charged = match accounts {
            Some(_) => None,
            None => self.node.accounts().map(|accounts| accounts.current()),
        };
        let unheld = charged.as_ref().map(|all| all.counting_names("", "")).unwrap_or_default();
        self.node.tell_settled(&SettledCall {
            root: self.node.root_info(),
            wall: self.node.wall(),
            spender: Spender::Tool { tool: &self.tool },
            usage: None,
            cost,
            is_priced: true,
            unconfirmed,
            is_estimate: false,
            is_run_over,
            budgets: accounts.as_ref().map_or(unheld.as_slice(), |held| held.names()),
            key: self.node.key().as_deref(),
            number,
        });
        match (accounts, charged) {
            (Some(held), _) => held.settle(amounts),
            (None, Some(accounts)) => accounts.charge(amounts),
            (None, None) => {}
        }
    }
}

impl Drop for OpenToolCall {
    fn drop(&mut self) {
        self.settle(None, false);
    }
}
