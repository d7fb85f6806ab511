//! What a run is made of. It is kept with the run, so that `--resume` needs no other flag.

use std::path::PathBuf;

use endstop::agent::AgentState;
use endstop::core::policy::Policy;
use endstop::tool::builtin::Builtin;
use serde_json::{Value, json};

use super::{Args, limits, model};
use crate::error::CliError;
use crate::output;

/// Where a run's metadata has it.
const KEY: &str = "endstop_agent";
/// How deep sub-agents nest where nothing else is said.
const DEFAULT_DEPTH: u8 = 2;
const DEFAULT_SYSTEM: &str = "Do what the user asks, with the tools that there are. Be brief.";

/// The parts of a run.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) model: String,
    pub(super) policy: Policy,
    /// Nobody gave limits.
    is_default_policy: bool,
    pub(super) tools: Vec<Builtin>,
    pub(super) folder: PathBuf,
    pub(super) system: String,
    /// 0 without sub-agents.
    pub(super) depth: u8,
}

impl Setup {
    /// What the flags say, else what the stored run says, else the defaults.
    pub(super) fn of(args: &Args, stored: Option<&AgentState>) -> Result<Self, CliError> {
        let kept = stored.and_then(|state| state.metadata.get(KEY)).unwrap_or(&Value::Null);
        let text = |key: &str| kept.get(key).and_then(Value::as_str).map(str::to_owned);
        let model = args.model.clone().or_else(|| text("model")).ok_or_else(model::none_named)?;
        let given = args.limits.policy()?;
        let kept_policy = text("policy").map(|toml| Policy::from_toml(&toml)).transpose();
        let kept_policy = kept_policy
            .map_err(|error| CliError::new(format!("the stored policy: {}", error.message)))?;
        let is_default_policy = given.is_none() && kept_policy.is_none();
        let policy = match given.or(kept_policy) {
            Some(policy) => policy,
            None => limits::defaults()?,
        };
        let tools = match (&args.tools, text("tools")) {
            (Some(tools), _) => tools.0.clone(),
            (None, Some(names)) => {
                Builtin::parse(&names).map_err(|error| CliError::new(error.to_string()))?
            }
            (None, None) => Vec::new(),
        };
        let folder = args.folder.clone().or_else(|| text("folder").map(PathBuf::from));
        let folder = folder.unwrap_or_else(|| PathBuf::from("."));
        let depth = if args.sub_agents {
            args.depth.unwrap_or(DEFAULT_DEPTH)
        } else {
            let kept = kept.get("depth").and_then(Value::as_u64).unwrap_or(0);
            u8::try_from(kept).unwrap_or(0)
        };
        let system = args.system.clone().or_else(|| text("system"));
        let system = system.unwrap_or_else(|| DEFAULT_SYSTEM.to_owned());
        Ok(Self { model, policy, is_default_policy, tools, folder, system, depth })
    }

    /// The state with the parts.
    pub(super) fn keep_in(&self, mut state: AgentState) -> AgentState {
        let tools: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
        let folder = std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let kept = json!({
            "model": self.model,
            "policy": self.policy.to_toml(),
            "tools": tools.join(","),
            "folder": folder.to_string_lossy(),
            "system": self.system,
            "depth": self.depth,
        });
        state.metadata.insert(KEY.to_owned(), kept);
        state
    }

    /// Of sub-agents: no rules of their own, for those of the run bind them; and the same word on calls
    /// without a price.
    pub(super) fn policy_below(&self) -> Policy {
        Policy { on_unpriced: self.policy.on_unpriced, unbounded: true, ..Policy::default() }
    }

    /// What a person is told before the run begins.
    pub(super) fn announcement(&self) -> String {
        let rules = self.policy.rules.iter().map(|rule| match rule.action {
            endstop::core::policy::Action::Stop => rule.condition.to_string(),
            action => format!("{} at {}", action.name(), rule.condition),
        });
        let limits = rules.collect::<Vec<_>>().join(", ");
        let mut text = format!("model {}, limits {limits}", self.model);
        if self.is_default_policy {
            text.push_str(
                " (the default; --steps, --usd, --timeout, --stop and --policy set others)",
            );
        }
        output::wrapped(&text, output::error_width(), "  ")
    }
}
