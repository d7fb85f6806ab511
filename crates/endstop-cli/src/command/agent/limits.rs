//! The limits of a run: a policy, and flags that can only make it narrower.

use std::path::PathBuf;

use endstop::core::expr::parse;
use endstop::core::policy::{Action, OnUnpriced, Policy, Rule};
use endstop::core::units::Money;

use crate::error::CliError;
use crate::policy_source::{load_expression, load_file};

/// What holds where no limit is given: a task of a few minutes, not a night.
const DEFAULTS: [(&str, &str); 3] =
    [("steps", "steps >= 50"), ("usd", "cost >= $1.00"), ("timeout", "active >= 10m")];

/// The flags.
#[derive(Debug, clap::Args)]
pub(super) struct Limits {
    /// The policy file (TOML)
    #[arg(long, value_name = "FILE", conflicts_with = "stop")]
    policy: Option<PathBuf>,
    /// A stop condition, in single quotes
    #[arg(long, value_name = "EXPR")]
    stop: Option<String>,
    /// At most so many model calls, sub-agents' included
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// At most so many dollars, sub-agents' included
    #[arg(long, value_name = "USD", value_parser = usd)]
    usd: Option<Money>,
    /// At most so long: `90s`, `10m`, `1h30m`
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<String>,
}

/// Reads an amount of dollars: `2`, `2.00`, `$2.00`.
pub(in crate::command) fn usd(text: &str) -> Result<Money, String> {
    text.parse().map_err(|_| "write an amount of dollars such as `2.00`".to_owned())
}

fn time(text: &str) -> Result<String, String> {
    let is_plain = text.chars().all(char::is_alphanumeric);
    match parse(&format!("active >= {text}")) {
        Ok(_) if is_plain => Ok(text.to_owned()),
        _ => Err("write a time such as `90s`, `10m` or `1h30m`".to_owned()),
    }
}

impl Limits {
    /// Whether there is any.
    pub(super) const fn are_given(&self) -> bool {
        self.policy.is_some()
            || self.stop.is_some()
            || self.steps.is_some()
            || self.usd.is_some()
            || self.timeout.is_some()
    }

    /// The policy: that of the file or the expression, with the flags' rules added. None if nothing is
    /// given.
    pub(super) fn policy(&self) -> Result<Option<Policy>, CliError> {
        if !self.are_given() {
            return Ok(None);
        }
        let base = match (&self.policy, &self.stop) {
            (Some(file), _) => Some(load_file(file)?),
            (None, Some(expression)) => Some(load_expression(expression)?),
            (None, None) => None,
        };
        let flags = [
            ("steps", self.steps.map(|steps| format!("steps >= {steps}"))),
            ("usd", self.usd.map(|amount| format!("cost >= {amount}"))),
            ("timeout", self.timeout.as_ref().map(|time| format!("active >= {time}"))),
        ];
        let flags = flags.into_iter().filter_map(|(name, text)| Some((name, text?)));
        let mut narrower = Policy::default();
        for (name, text) in flags {
            let rule = rule(name, &text)?;
            narrower.rules.push(Rule { origin: Some(format!("--{name}")), ..rule });
        }
        let policy = match base {
            Some(base) => base.merge(&narrower),
            None => narrower,
        };
        if !policy.unbounded && !policy.bounds().is_bounded() {
            return Err(CliError::new("no stop rule limits steps, money, tokens or time")
                .with_hint(
                    "add --steps, --usd or --timeout; `endstop check` says how far it goes",
                ));
        }
        Ok(Some(policy))
    }
}

/// The limits where none are given. Calls without a price count nothing, so that models without one can be
/// used; steps and time bound them all the same.
pub(super) fn defaults() -> Result<Policy, CliError> {
    let rules = DEFAULTS.iter().map(|(name, text)| rule(name, text));
    let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
    Ok(Policy { rules, on_unpriced: Some(OnUnpriced::Ignore), ..Policy::default() })
}

fn rule(name: &str, text: &str) -> Result<Rule, CliError> {
    let condition = parse(text).map_err(|error| CliError::new(format!("--{name}: {error}")))?;
    Ok(Rule::new(name, Action::Stop, condition))
}
