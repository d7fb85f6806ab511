//! Building an agent from its parts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::Program;
use endstop_core::condition::Condition;
use endstop_core::policy::{Action, Policy, PolicyError, Rule};
use endstop_core::probe::Probes;
use thiserror::Error;

use super::agent_run::Approver;
use super::hooks::{FunctionHook, Hook, HookContext, HookResult, Hooks, Trigger};
use super::retry::{CircuitBreaker, RetryPolicy};
use super::source::CancellationSource;
use super::{AgentLoop, AgentSettings, Inner};
use crate::model::Model;
use crate::observe::Observer;
use crate::tool::{Tool, ToolSet, ToolSetError};
use endstop_price::{PriceTable, TOOL_INSTRUCTION_TOKENS, UnknownPriceModel, with_unpriced_model};
use endstop_runtime::Pricing;
use endstop_runtime::account::RunAccounts;
use endstop_runtime::cancel::{CancelToken, KillSwitch};
use endstop_runtime::clock::WallClock;
use endstop_runtime::ledger::Budget;
use endstop_runtime::store::Store;

pub use crate::limits::{DEFAULT_KILL_INTERVAL, DEFAULT_PARALLEL_TOOLS};

/// The policy of an agent that was given none: an endstop far away, but there.
pub const DEFAULT_POLICY: &str = "steps >= 50 or active >= 1h";

/// Why an agent cannot be built.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no model.
    #[error("the agent `{0}` has no model")]
    NoModel(String),
    /// The tools cannot be offered to a model.
    #[error(transparent)]
    Tools(#[from] ToolSetError),
    /// The policy cannot be compiled.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The policy names a model for calls without a price, and the price table does not have it.
    #[error(transparent)]
    UnknownPriceModel(#[from] UnknownPriceModel),
    /// Nothing in the policy ends every run.
    #[error(
        "the policy of the agent `{0}` is unbounded: no stop rule limits steps, money, tokens or time; \
         add one, such as `steps >= 50`, or call `unbounded()`"
    )]
    Unbounded(String),
    /// An agent that may be handed to has a budget or accounts that the runs of this one do not draw on.
    #[error(
        "`{0}` can hand off to `{1}`, whose budget it does not share: give both the same budget"
    )]
    OtherBudget(String, String),
}

/// Collects the parts of an agent. See [`AgentLoop::builder`].
///
/// ```
/// use endstop::agent::{AgentLoop, BuildError};
/// use endstop::core::condition::named::{max_steps, text_mention};
/// use endstop::model::{ScriptedModel, ScriptedResponse};
///
/// let builder = || {
///     let model = ScriptedModel::new("scripted").reply(ScriptedResponse::text("Done."));
///     AgentLoop::builder("worker").instructions("Be brief.").model(model)
/// };
/// assert!(builder().stop_when(max_steps(25)).build().is_ok());
/// // A condition that need never be met bounds nothing.
/// let unbounded = builder().stop_when(text_mention("DONE")).build();
/// assert!(matches!(unbounded, Err(BuildError::Unbounded(_))));
/// ```
#[must_use]
pub struct AgentBuilder {
    settings: AgentSettings,
    model: Option<Arc<dyn Model>>,
    tools: Vec<Arc<dyn Tool>>,
    handoffs: Vec<AgentLoop>,
    policy: Option<Policy>,
    probes: Probes,
    is_unbounded: bool,
    prices: &'static PriceTable,
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("name", &self.settings.name).finish_non_exhaustive()
    }
}

impl AgentBuilder {
    pub(super) fn new(name: String) -> Self {
        Self {
            settings: AgentSettings {
                name,
                instructions: String::new(),
                retry_model: None,
                hooks: Hooks::default(),
                sources: Vec::new(),
                kill: None,
                kill_interval: DEFAULT_KILL_INTERVAL,
                token: None,
                budget: None,
                accounts: None,
                observers: Vec::new(),
                store: None,
                retry: RetryPolicy::default(),
                breaker: None,
                approver: None,
                parallel_tools: DEFAULT_PARALLEL_TOOLS,
                max_output_tokens: None,
                tells_model: false,
                fair_shares: true,
                wall: None,
            },
            model: None,
            tools: Vec::new(),
            handoffs: Vec::new(),
            policy: None,
            probes: Probes::default(),
            is_unbounded: false,
            prices: PriceTable::embedded(),
        }
    }

    /// Sets the model.
    pub fn model(mut self, model: impl Model + 'static) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// Like [`AgentBuilder::model`], for a shared model.
    pub fn shared_model(mut self, model: Arc<dyn Model>) -> Self {
        self.model = Some(model);
        self
    }

    /// Sets the model that is called after a retry rule has dropped a response.
    pub fn retry_model(mut self, model: Arc<dyn Model>) -> Self {
        self.settings.retry_model = Some(model);
        self
    }

    /// Sets the instructions that go before every conversation.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.settings.instructions = text.into();
        self
    }

    /// Adds a tool that the model may call.
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds tools that the model may call.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Adds an agent that a tool may hand off to, by its name. The run keeps policy, store, observers and approver
    /// of the agent that began it, whose hooks run before those of the other.
    pub fn handoff(mut self, agent: AgentLoop) -> Self {
        self.handoffs.push(agent);
        self
    }

    /// Adds a hook that does not wait. Higher priorities run first, registration order among equals.
    pub fn hook<F>(self, trigger: Trigger, priority: i32, hook: F) -> Self
    where
        F: Fn(&mut HookContext<'_>) -> HookResult + Send + Sync + 'static,
    {
        self.hook_named(trigger, priority, trigger.name(), Arc::new(FunctionHook(hook)))
    }

    /// Adds a hook with a name, which may wait.
    pub fn hook_named(
        mut self,
        trigger: Trigger,
        priority: i32,
        name: impl Into<String>,
        hook: Arc<dyn Hook>,
    ) -> Self {
        self.settings.hooks.add(trigger, priority, name.into(), hook);
        self
    }

    /// Sets the policy. It replaces an earlier one.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Adds a stop rule. The first one replaces [`DEFAULT_POLICY`].
    pub fn stop_when(mut self, condition: Condition) -> Self {
        let mut policy = self.policy.unwrap_or_default();
        let id = match policy.rules.len() {
            0 => "stop".to_owned(),
            n => format!("stop_{}", n.saturating_add(1)),
        };
        policy.rules.push(Rule::new(id, Action::Stop, condition));
        self.policy = Some(policy);
        self
    }

    /// Sets the measurements that the policy names as `probe("..")`.
    pub fn probes(mut self, probes: Probes) -> Self {
        self.probes = probes;
        self
    }

    /// Takes a policy that ends not every run: an agent that only runs below others has their limits.
    pub const fn unbounded(mut self) -> Self {
        self.is_unbounded = true;
        self
    }

    /// Adds a source that is checked at every checkpoint and may end the run.
    pub fn cancellation(mut self, source: impl CancellationSource + 'static) -> Self {
        self.settings.sources.push(Arc::new(source));
        self
    }

    /// Sets a token that cancels every run of the agent.
    pub fn cancel_token(mut self, token: CancelToken) -> Self {
        self.settings.token = Some(token);
        self
    }

    /// Sets the kill switch. It refuses new runs and ends those that run, sub-agents included.
    pub fn kill_switch(mut self, switch: impl KillSwitch + 'static) -> Self {
        self.settings.kill = Some(Arc::new(switch));
        self
    }

    /// Sets how often the kill switch is checked while a run waits.
    pub const fn kill_interval(mut self, every: Duration) -> Self {
        self.settings.kill_interval = every;
        self
    }

    /// Sets a budget that the agent's runs share with every other holder of it. Its limits apply in addition to the
    /// policy's. It counts spend while it is shared: a resumed run brings its earlier spend into its own limits only.
    ///
    /// A budget of the ledger and one over time have separate methods, because they are separate types: this one lives as long as
    /// its process and needs no store. For `$5 per day` see [`AgentBuilder::accounts`].
    pub fn budget(mut self, budget: Budget) -> Self {
        self.settings.budget = Some(budget);
        self
    }

    /// Sets budgets over time that the agent's runs draw on, such as $5 per day: with other processes, if their store
    /// is a file or a server. Their limits come on top of the policy's.
    pub fn accounts(mut self, accounts: RunAccounts) -> Self {
        self.settings.accounts = Some(accounts);
        self
    }

    /// Watches every run of the agent and the runs below them.
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.settings.observers.push(Arc::new(observer));
        self
    }

    /// Like [`AgentBuilder::observer`], for a shared observer.
    pub fn shared_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.settings.observers.push(observer);
        self
    }

    /// Keeps every run: its trace as it goes, its state after each step and when it pauses.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.settings.store = Some(store);
        self
    }

    /// Sets how failed requests are repeated.
    pub const fn retry(mut self, retry: RetryPolicy) -> Self {
        self.settings.retry = retry;
        self
    }

    /// Keeps requests from a model that fails.
    pub fn circuit_breaker(mut self, breaker: CircuitBreaker) -> Self {
        self.settings.breaker = Some(breaker);
        self
    }

    /// Decides on runs that a pause rule pauses.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.settings.approver = Some(Arc::new(approver));
        self
    }

    /// Sets the number of tool calls of one response that run at the same time; at least 1.
    pub fn parallel_tools(mut self, count: usize) -> Self {
        self.settings.parallel_tools = count.max(1);
        self
    }

    /// Sets the most output tokens of a response, reasoning included.
    pub const fn max_output_tokens(mut self, tokens: u64) -> Self {
        self.settings.max_output_tokens = Some(tokens);
        self
    }

    /// Reports warnings to the model, with the remaining amounts.
    pub const fn tell_model_of_warnings(mut self) -> Self {
        self.settings.tells_model = true;
        self
    }

    /// Sets whether a call gets a lower output cap while other calls of the same budget are in flight, so that more of them fit in
    /// parallel; they do unless this says otherwise. A response that such a cap cuts off is requested once more, with
    /// the whole remaining budget.
    pub const fn fair_shares(mut self, are_taken: bool) -> Self {
        self.settings.fair_shares = are_taken;
        self
    }

    /// Sets the wall clock, for `now` and `deadline`.
    pub fn wall_clock(mut self, wall: WallClock) -> Self {
        self.settings.wall = Some(wall);
        self
    }

    /// Sets the price table, instead of the one that ships.
    pub const fn prices(mut self, table: &'static PriceTable) -> Self {
        self.prices = table;
        self
    }

    /// Checks the parts and puts them together.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`]: no model, tools that cannot be offered, a policy that cannot be compiled, or one
    /// that does not bound the run.
    pub fn build(self) -> Result<AgentLoop, BuildError> {
        let model = self.model.ok_or_else(|| BuildError::NoModel(self.settings.name.clone()))?;
        let policy = match self.policy {
            Some(policy) => policy,
            None => default_policy(),
        };
        let policy = with_unpriced_model(policy, self.prices)?;
        if !self.is_unbounded && !policy.unbounded && !policy.bounds().is_bounded() {
            return Err(BuildError::Unbounded(self.settings.name));
        }
        let program = Arc::new(Program::new(&policy, &self.probes)?);
        let tools = ToolSet::new(self.tools)?;
        let retry_pricing =
            self.settings.retry_model.as_deref().map(|model| pricing_of(model, self.prices));
        let within = |own: &Budget| {
            self.settings.budget.as_ref().is_some_and(|budget| budget.is_within(own))
        };
        let covers =
            |own: &RunAccounts| self.settings.accounts.as_ref().is_some_and(|it| it.covers(own));
        let is_other = |to: &&AgentLoop| {
            to.0.budget.as_ref().is_some_and(|own| !within(own))
                || to.0.accounts.as_ref().is_some_and(|own| !covers(own))
        };
        if let Some(to) = self.handoffs.iter().find(is_other) {
            return Err(BuildError::OtherBudget(self.settings.name, to.name().to_owned()));
        }
        let by_name = |agent: AgentLoop| (agent.name().to_owned(), agent);
        Ok(AgentLoop(Arc::new(Inner {
            fixed_tokens: fixed_tokens(model.provider(), &self.settings.instructions, &tools),
            pricing: pricing_of(&*model, self.prices),
            retry_pricing,
            model,
            tools,
            handoffs: self.handoffs.into_iter().map(by_name).collect::<BTreeMap<_, _>>(),
            program,
            settings: self.settings,
        })))
    }
}

fn pricing_of(model: &dyn Model, table: &'static PriceTable) -> Pricing {
    Pricing::new(model.provider(), model.name(), table)
}

/// A bound of the tokens of instructions and tools, which go with every request. Providers add their own instructions
/// for tools.
fn fixed_tokens(provider: &str, instructions: &str, tools: &ToolSet) -> u64 {
    /// The weight of a tool without its text.
    const PER_TOOL: usize = 64;
    let of_tools = tools.specs().iter().map(|spec| {
        spec.name.len() + spec.description.len() + spec.parameters.to_string().len() + PER_TOOL
    });
    let bytes = instructions.len() + PER_TOOL + of_tools.sum::<usize>();
    let has_instructions = !provider.is_empty() && !tools.specs().is_empty();
    let added = if has_instructions { TOOL_INSTRUCTION_TOKENS } else { 0 };
    u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(added)
}

/// [`DEFAULT_POLICY`] as a value.
fn default_policy() -> Policy {
    match endstop_core::expr::parse(DEFAULT_POLICY) {
        Ok(condition) => Policy::stop(condition),
        Err(error) => unreachable!("the default policy is a condition: {error:?}"),
    }
}
