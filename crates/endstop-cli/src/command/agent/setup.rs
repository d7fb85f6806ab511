//! The settings of a run. They are stored with the run, so that `--resume` needs no other flag.

use std::path::PathBuf;
use std::sync::Arc;

use endstop::agent::AgentState;
use endstop::core::policy::{OnUnpriced, Policy, Rule};
use endstop::core::run::Status;
use endstop::core::units::Money;
use endstop::model::Model;
use endstop::tool::builtin::{Builtin, Workspace};
use endstop_price::PriceTable;
use serde_json::{Value, json};

use super::super::limits::{OF_AGENT, SET_OTHERS, in_words, names_money, names_only_money};
use super::super::replay::input::prices as load_prices;

use super::{AgentArgs, model};
use crate::budgets::Budgets;
use crate::error::{CliError, causes};
use crate::output;

/// Where a run's metadata has it.
const KEY: &str = "endstop_agent";
/// How deep sub-agents nest by default.
const DEFAULT_DEPTH: u8 = 2;
const DEFAULT_SYSTEM: &str = "Do what the user asks, with the tools that there are. Be brief.";

/// The hint for a model without a price.
pub(super) const PRICE_HINT: &str =
    "--prices FILE names a table that has one, --unpriced IN,OUT gives rates for it";

/// The parts of a run.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) model: String,
    pub(super) policy: Policy,
    /// The budgets over time that its calls draw on.
    pub(super) budgets: Arc<Budgets>,
    /// The user gave no limits.
    is_default_policy: bool,
    /// The stored limits no longer hold.
    is_policy_replaced: bool,
    /// The file of the price table, if it is not the embedded one.
    pub(super) prices: Option<PathBuf>,
    pub(super) table: &'static PriceTable,
    /// Whether the table has the model.
    is_priced: bool,
    /// Whether some call counted nothing, because it has no price.
    is_cost_unknown: bool,
    pub(super) tools: Vec<Builtin>,
    pub(super) directory: PathBuf,
    pub(super) system: String,
    /// 0 without sub-agents.
    pub(super) depth: u8,
    /// Whether parallel sub-agents share the remaining budget instead of waiting for each other.
    pub(super) fair_shares: bool,
}

impl Setup {
    /// The values of the flags, or those of the stored run, or the defaults.
    pub(super) fn of(args: &AgentArgs, stored: Option<&AgentState>) -> Result<Self, CliError> {
        let kept = stored.and_then(|state| state.metadata.get(KEY)).unwrap_or(&Value::Null);
        let text = |key: &str| kept.get(key).and_then(Value::as_str).map(str::to_owned);
        let model = args.model.clone().or_else(|| text("model")).ok_or_else(model::none_named)?;
        let kept_policy = text("policy").map(|toml| Policy::from_toml(&toml)).transpose();
        let kept_policy = kept_policy
            .map_err(|error| CliError::new(format!("the stored policy: {}", error.message)))?;
        let mut chosen = args.limits.choose(kept_policy, OF_AGENT)?;
        let budgets = args.limits.budgets(&mut chosen)?;
        let prices = args.prices.clone().or_else(|| text("prices").map(PathBuf::from));
        let table = match load_prices(prices.as_deref())? {
            // Once a process, and the agents of the run ask it until the end.
            Some(table) => Box::leak(Box::new(table)),
            None => PriceTable::embedded(),
        };
        let tools = match (&args.tools, text("tools")) {
            (Some(tools), _) => tools.0.clone(),
            (None, Some(names)) => {
                Builtin::parse(&names).map_err(|error| CliError::new(error.to_string()))?
            }
            (None, None) => Vec::new(),
        };
        let directory = args.directory.clone().or_else(|| text("directory").map(PathBuf::from));
        let directory = directory.unwrap_or_else(|| PathBuf::from("."));
        let depth = if args.sub_agents {
            args.depth.unwrap_or(DEFAULT_DEPTH)
        } else {
            let kept = kept.get("depth").and_then(Value::as_u64).unwrap_or(0);
            u8::try_from(kept).unwrap_or(0)
        };
        let system = args.system.clone().or_else(|| text("system"));
        let system = system.unwrap_or_else(|| DEFAULT_SYSTEM.to_owned());
        if args.directory.is_some() {
            Workspace::new(&directory).map_err(|error| CliError::new(causes(&error)))?;
        }
        Ok(Self {
            model,
            policy: chosen.policy,
            budgets: Arc::new(budgets),
            is_default_policy: chosen.is_default,
            is_policy_replaced: chosen.replaced,
            prices,
            table,
            is_priced: true,
            is_cost_unknown: false,
            tools,
            directory,
            system,
            depth,
            fair_shares: !args.no_fair_shares,
        })
    }

    /// Looks up what the model costs.
    pub(super) fn look_up(&mut self, model: &dyn Model) {
        let provider = Some(model.provider()).filter(|name| !name.is_empty());
        self.is_priced = self.table.find_or_vendor(provider, model.name()).is_some();
        self.is_cost_unknown = self.counts_nothing();
    }

    /// Whether cost limits have no effect: a call counts nothing.
    fn counts_nothing(&self) -> bool {
        !self.is_priced && self.policy.unpriced() == OnUnpriced::Ignore
    }

    /// Whether a call stops the run because it has no price.
    pub(super) fn stops_for_want_of_a_price(&self) -> bool {
        let stops = !self.is_priced && self.policy.unpriced() == OnUnpriced::Stop;
        stops && self.policy.rules.iter().any(names_money)
    }

    /// The cost of the run, if known.
    pub(super) fn cost(&self, state: &AgentState) -> Option<Money> {
        if self.is_cost_unknown { None } else { state.cost() }
    }

    /// The state with the parts.
    pub(super) fn keep_in(&mut self, mut state: AgentState) -> AgentState {
        let is_new = state.status() == Status::Pending;
        self.is_cost_unknown |= !is_new && has_unpriced_calls(&state);
        let tools: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
        let directory =
            std::path::absolute(&self.directory).unwrap_or_else(|_| self.directory.clone());
        let prices = self.prices.as_ref();
        let prices = prices.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
        let kept = json!({
            "prices": prices.map(|file| file.to_string_lossy().into_owned()),
            "unpriced": self.is_cost_unknown,
            "model": self.model,
            "policy": self.policy.to_toml(),
            "tools": tools.join(","),
            "directory": directory.to_string_lossy(),
            "system": self.system,
            "depth": self.depth,
        });
        state.metadata.insert(KEY.to_owned(), kept);
        state
    }

    /// For sub-agents: no rules, because those of the root run bind them; and the same treatment of calls without a
    /// price.
    pub(super) fn policy_below(&self) -> Policy {
        Policy { on_unpriced: self.policy.on_unpriced, unbounded: true, ..Policy::default() }
    }

    /// The text for a person before the run begins.
    pub(super) fn announcement(&self) -> String {
        let counts = |rule: &&Rule| !(self.counts_nothing() && names_only_money(rule));
        let limits = in_words(self.policy.rules.iter().filter(counts));
        let mut text = format!("model {}, {limits}", self.model);
        if self.is_default_policy {
            text.push_str(SET_OTHERS);
        }
        if self.is_policy_replaced {
            text.push_str(" (instead of those that were stored with the run)");
        }
        output::wrapped(&text, output::error_width(), "  ")
    }

    /// Warns of limits that are written and do not hold.
    pub(super) fn warn(&self) {
        if self.counts_nothing() && self.policy.rules.iter().any(names_money) {
            output::warn(&format!(
                "`{}` has no price, so no cost limit applies; {PRICE_HINT}",
                self.model
            ));
        }
    }
}

/// The cost of a run, if known.
pub(super) fn cost(state: &AgentState) -> Option<Money> {
    if has_unpriced_calls(state) { None } else { state.cost() }
}

fn has_unpriced_calls(state: &AgentState) -> bool {
    let kept = state.metadata.get(KEY).and_then(|kept| kept.get("unpriced"));
    kept.and_then(Value::as_bool).unwrap_or(false)
}
