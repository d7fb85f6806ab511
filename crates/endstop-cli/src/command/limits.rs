//! The limits of a run: a policy, and flags that can only make it narrower.

use std::path::{Path, PathBuf};

use endstop::core::condition::gauge::Unit;
use endstop::core::condition::{CompareOp, Comparison, Condition, GaugeId};
use endstop::core::expr::parse;
use endstop::core::human;
use endstop::core::policy::{Action, FallbackRates, OnUnpriced, Policy, Rule};
use endstop::core::units::{Money, MoneyError};

use crate::budgets::{Budgets, StoreArgs};
use crate::duration::time;
use crate::error::CliError;
use crate::output;
use crate::policy_source::{load_expression, load_file};

/// The limits that apply by default: names of rules and their conditions.
pub(super) type DefaultLimits = &'static [(&'static str, &'static str)];

/// Of `endstop agent`: a task of a few minutes, not a night.
pub(super) const OF_AGENT: DefaultLimits =
    &[("steps", "steps >= 50"), ("usd", "cost >= $1.00"), ("timeout", "active >= 10m")];
/// Of a command or a client: an afternoon's work of a coding agent. No time, because people sit before such
/// agents for hours, and one that makes no call spends nothing.
pub(super) const OF_COMMAND: DefaultLimits = &[("steps", "steps >= 100"), ("usd", "cost >= $5.00")];

/// The end of a sentence about limits that apply by default.
pub(super) const SET_OTHERS: &str =
    " (the default; set others with --usd, --steps, --tokens, --timeout, --stop or --policy)";

/// The flags.
#[derive(Debug, clap::Args)]
pub(super) struct Limits {
    /// Read the limits from a TOML file
    ///
    /// docs/policy.md lists its keys.
    #[arg(long, value_name = "FILE", conflicts_with = "stop")]
    policy: Option<PathBuf>,
    /// Stop on a condition, such as 'steps >= 50'
    ///
    /// Put it in single quotes, because the shell expands `$`. docs/conditions.md lists the conditions.
    #[arg(long, value_name = "EXPR")]
    stop: Option<String>,
    /// Stop at this many steps, sub-agents included
    ///
    /// A step is one model call, with its retries and the tool calls that it requests.
    #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
    steps: Option<u64>,
    /// Stop at this many US dollars, sub-agents too
    ///
    /// Each call is reserved at its worst case before it is sent.
    #[arg(long, value_name = "USD", value_parser = usd, allow_negative_numbers = true)]
    usd: Option<Money>,
    /// Stop at this many tokens: `200k`, `2M`
    ///
    /// Input and output count, those of sub-agents included.
    #[arg(long, value_name = "N", value_parser = amount_of_tokens, allow_negative_numbers = true)]
    tokens: Option<String>,
    /// Stop after this time: `90s`, `10m`, `1h30m`
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<String>,
    /// Unpriced calls: stop, ignore, or price `3,15`
    ///
    /// The effect of a cost limit on a call without a price: `stop` the run, `ignore` the call, or charge this price in
    /// US dollars per million tokens of input and output.
    #[arg(long, value_name = "WHAT", value_parser = unpriced)]
    unpriced: Option<OnUnpriced>,
    /// Draw on a budget over time: `$5 per day`
    ///
    /// A limit is that of the budget `me`; a name is that of a defined budget. All runs that draw on a budget share
    /// it. Repeatable.
    #[arg(long, value_name = "BUDGET")]
    budget: Vec<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// The limits of a run, and where they are from.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) policy: Policy,
    /// The user gave none.
    pub(super) is_default: bool,
    /// Those that were stored with the run no longer hold.
    pub(super) replaced: bool,
    /// Calls without a price count nothing, and that is not what the user wrote.
    ignores_by_default: bool,
}

impl Chosen {
    /// Stops the run at a call without a price, unless the user wrote what such calls count: dollars are limited beyond the
    /// run, and these limits are meant to hold.
    pub(super) fn refuse_unpriced(&mut self) {
        if self.ignores_by_default {
            self.policy.on_unpriced = None;
        }
    }
}

/// Reads an amount of dollars: `2`, `2.00`, `$2.00`.
pub(super) fn usd(text: &str) -> Result<Money, String> {
    text.parse().map_err(|error| match error {
        MoneyError::TooLarge => "that is too large".to_owned(),
        _ => "write an amount of dollars such as `2.00`".to_owned(),
    })
}

fn number(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    text.parse().map_err(|_| match is_number {
        true => "that is too large".to_owned(),
        false => "write a whole number such as `50`".to_owned(),
    })
}

/// As the expressions have it: `200000`, `200_000`, `200k`, `1.5M`.
fn amount_of_tokens(text: &str) -> Result<String, String> {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'));
    match parse(&format!("tokens >= {text}")) {
        Ok(_) if is_plain => Ok(text.to_owned()),
        _ if is_plain && is_in_millions(text) => {
            Err(format!("millions need an uppercase M; did you mean `{}`?", text.replace('m', "M")))
        }
        _ => match number(text) {
            Ok(_) => Err("that is too large".to_owned()),
            Err(error) => Err(error.replace("`50`", "`200000` or `200k`")),
        },
    }
}

/// Whether a text is tokens in millions, except that its small `m` means minutes.
fn is_in_millions(text: &str) -> bool {
    text.strip_suffix('m').is_some_and(|number| parse(&format!("tokens >= {number}M")).is_ok())
}

fn unpriced(text: &str) -> Result<OnUnpriced, String> {
    let rates = |text: &str| {
        let (input, output) = text.split_once(',')?;
        let rate = |text: &str| text.trim().parse::<Money>().ok();
        Some(FallbackRates { input: rate(input)?, output: rate(output)? })
    };
    match text {
        "stop" => Ok(OnUnpriced::Stop),
        "ignore" => Ok(OnUnpriced::Ignore),
        text => rates(text).map(OnUnpriced::Rates).ok_or_else(|| {
            "write `stop`, `ignore`, or dollars for a million tokens of input and output such as `3,15`"
                .to_owned()
        }),
    }
}

impl Limits {
    /// The policy file, if one is named.
    pub(super) fn file(&self) -> Option<&Path> {
        self.policy.as_deref()
    }

    /// The policy of the file or the expression, or the stored one, with the flags' rules added; without those, the
    /// flags' rules; without any, the defaults.
    ///
    /// # Errors
    /// Returns an error if the policy cannot be read, or does not bound a run.
    pub(super) fn choose(
        &self,
        stored: Option<Policy>,
        otherwise: DefaultLimits,
    ) -> Result<Chosen, CliError> {
        let given = match (&self.policy, &self.stop) {
            (Some(file), _) => Some(load_file(file)?),
            (None, Some(expression)) => Some(load_expression(expression)?),
            (None, None) => None,
        };
        let replaced = given.is_some() && stored.is_some();
        let written = self.unpriced.or(given.as_ref().and_then(|given| given.on_unpriced));
        let goes_on = given.is_none() && stored.is_some();
        let base = given.or(stored);
        let narrower = self.narrower()?;
        // A file of budgets alone says nothing of one run.
        let is_default = base.as_ref().is_none_or(|base| {
            base.rules.is_empty() && !base.budgets.is_empty() && !base.unbounded
        }) && narrower.rules.is_empty();
        let mut policy = match base {
            Some(base) if is_default => Policy { budgets: base.budgets, ..defaults(otherwise)? },
            Some(base) => tightened(&base, narrower),
            None if is_default => defaults(otherwise)?,
            None => narrower,
        };
        if goes_on && self.usd.is_some() {
            // The defaults count calls without a price as nothing, and this limit is meant to hold.
            policy.on_unpriced = None;
        }
        policy.on_unpriced = written.or(policy.on_unpriced);
        if !policy.unbounded && !policy.bounds().is_bounded() {
            return Err(unbounded(&policy));
        }
        let ignores_by_default =
            written.is_none() && policy.on_unpriced == Some(OnUnpriced::Ignore);
        Ok(Chosen { policy, is_default, replaced, ignores_by_default })
    }

    /// The budgets over time that runs under this policy draw on. If one of them limits dollars, calls without a price are
    /// refused: see [`Chosen::refuse_unpriced`].
    ///
    /// # Errors
    /// Returns an error if one cannot be read, or is not defined.
    pub(super) fn budgets(&self, chosen: &mut Chosen) -> Result<Budgets, CliError> {
        let budgets = Budgets::of(&chosen.policy, &self.budget)?
            .in_store(&self.store)?
            .refusing_unpriced(chosen.ignores_by_default);
        if budgets.limit_money() {
            chosen.refuse_unpriced();
        }
        Ok(budgets)
    }

    /// The options of amounts that the user gave, without dashes: what a refusal can name.
    pub(super) fn options(&self) -> Vec<&'static str> {
        let given = [("usd", self.usd.is_some()), ("tokens", self.tokens.is_some())];
        given.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect()
    }

    /// The rules of the flags.
    fn narrower(&self) -> Result<Policy, CliError> {
        let flags = [
            ("steps", self.steps.map(|steps| format!("steps >= {steps}"))),
            ("usd", self.usd.map(|amount| format!("cost >= {amount}"))),
            ("tokens", self.tokens.as_ref().map(|tokens| format!("tokens >= {tokens}"))),
            ("timeout", self.timeout.as_ref().map(|time| format!("active >= {time}"))),
        ];
        let mut narrower = Policy::default();
        for (name, text) in flags.into_iter().filter_map(|(name, text)| Some((name, text?))) {
            let rule = rule(name, &text)?;
            narrower.rules.push(Rule { origin: Some(format!("--{name}")), ..rule });
        }
        Ok(narrower)
    }
}

fn unbounded(policy: &Policy) -> CliError {
    let limits_money = policy.rules.iter().any(|it| it.action == Action::Stop && names_money(it));
    if limits_money && policy.on_unpriced == Some(OnUnpriced::Ignore) {
        return CliError::new("--usd alone bounds nothing with --unpriced ignore").with_hint(
            "add --steps, --tokens or --timeout, or give such calls a price: --unpriced 3,15",
        );
    }
    CliError::new("no stop rule limits steps, money, tokens or time")
        .with_hint("add --steps, --usd, --tokens or --timeout; `endstop check` shows the bounds")
}

/// `base` with the rules of `narrower` that it has not got: the same flag given again adds nothing.
fn tightened(base: &Policy, mut narrower: Policy) -> Policy {
    narrower.rules.retain(|rule| {
        let is_same = |old: &Rule| old.action == rule.action && old.condition == rule.condition;
        !base.rules.iter().any(is_same)
    });
    base.merge(&narrower)
}

/// Whether a rule compares money.
pub(super) fn names_money(rule: &Rule) -> bool {
    rule.gauges().iter().any(|gauge| gauge.row().unit == Unit::Money)
}

/// Reports how the external signals of a policy are set.
pub(super) fn tell_of_signals(policy: &Policy, has_control: bool) {
    for rule in &policy.rules {
        for name in rule.external_signals() {
            let id = &rule.id;
            match has_control {
                true => output::note(&format!(
                    "rule {id} waits for the signal `{name}`: POST /endstop/v1/runs/RUN/signal {} to the \
                     control API",
                    serde_json::json!({ "name": name })
                )),
                false => output::warn(&format!(
                    "rule {id} waits for the signal `{name}`, and nothing sets it: add --control ADDR for \
                     the control API"
                )),
            }
        }
    }
}

/// Whether a rule compares money and nothing else.
pub(super) fn names_only_money(rule: &Rule) -> bool {
    let gauges = rule.gauges();
    !gauges.is_empty() && gauges.iter().all(|gauge| gauge.row().unit == Unit::Money)
}

/// Whether an amount of dollars says up to where these rules are approved: each of them compares what the run
/// or its next call costs.
pub(super) fn take_an_amount<'r>(
    policy: &Policy,
    mut rules: impl Iterator<Item = &'r str>,
) -> bool {
    let is_money = |id| matches!(id, GaugeId::Cost | GaugeId::NextCost);
    rules.all(|id| {
        let rule = policy.rule(id);
        rule.is_some_and(|rule| rule.gauges().iter().any(|gauge| is_money(gauge.id)))
    })
}

/// Returns a policy as a sentence for people: `stops at $2.00 or 50 steps; pauses at $1.00`.
pub(super) fn in_words<'r>(rules: impl Iterator<Item = &'r Rule>) -> String {
    /// The effect of each action on a run, in the order in which the sentence names them.
    const VERBS: [(Action, &str); 5] = [
        (Action::Stop, "stops"),
        (Action::Finish, "wraps up"),
        (Action::Pause, "pauses"),
        (Action::Retry, "retries"),
        (Action::Warn, "warns"),
    ];
    let rules: Vec<&Rule> = rules.collect();
    let phrases = VERBS.iter().filter_map(|(action, verb)| {
        let mut limits: Vec<(u8, String)> = Vec::new();
        for rule in rules.iter().filter(|rule| rule.action == *action) {
            limit_words(&rule.condition, &mut limits);
        }
        // Money first: it is what people look for.
        limits.sort_by_key(|(order, _)| *order);
        let words: Vec<String> = limits.into_iter().map(|(_, words)| words).collect();
        (!words.is_empty()).then(|| format!("{verb} at {}", listed(&words)))
    });
    let text = phrases.collect::<Vec<_>>().join("; ");
    if text.is_empty() { "stops nothing".to_owned() } else { text }
}

/// Returns a policy as conditions for programs: `steps >= 50, pause at cost >= $1.00`.
pub(super) fn as_conditions<'r>(rules: impl Iterator<Item = &'r Rule>) -> String {
    let words = rules.map(|rule| match rule.action {
        Action::Stop => rule.condition.to_string(),
        action => format!("{} at {}", action.name(), rule.condition),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The limits of a condition, each with its place in the sentence. A condition that is not a plain limit stays as
/// written. Recursion is bounded by the depth that a policy may have.
fn limit_words(condition: &Condition, limits: &mut Vec<(u8, String)>) {
    let plain = |comparison: &Comparison| {
        let is_limit = comparison.op == CompareOp::Ge && !comparison.gauge.own;
        let amount = human::amount(comparison.value, comparison.gauge.row().unit);
        let words = match comparison.gauge.id {
            GaugeId::Cost => (0, amount),
            GaugeId::Steps => (1, human::counted(comparison.value, "step")),
            GaugeId::Tokens => (2, human::tokens(comparison.value)),
            GaugeId::Active | GaugeId::Elapsed => (3, amount),
            _ => return None,
        };
        is_limit.then_some(words)
    };
    match condition {
        Condition::Or(parts) => parts.iter().for_each(|part| limit_words(part, limits)),
        Condition::Compare(comparison) if plain(comparison).is_some() => {
            limits.extend(plain(comparison));
        }
        Condition::Named(named) => match condition.parts().as_slice() {
            [Condition::Compare(comparison)] if plain(comparison).is_some() => {
                limits.extend(plain(comparison));
            }
            _ => limits.push((4, Condition::Named(named.clone()).to_string())),
        },
        other => limits.push((4, other.to_string())),
    }
}

/// `$2.00, 50 steps or 10m`.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// The default limits. Calls without a price count nothing, so that models without one can be used; steps and time
/// bound them anyway.
fn defaults(otherwise: DefaultLimits) -> Result<Policy, CliError> {
    let rules = otherwise.iter().map(|(name, text)| rule(name, text));
    let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
    Ok(Policy { rules, on_unpriced: Some(OnUnpriced::Ignore), ..Policy::default() })
}

fn rule(name: &str, text: &str) -> Result<Rule, CliError> {
    let condition = parse(text).map_err(|error| CliError::new(format!("--{name}: {error}")))?;
    Ok(Rule::new(name, Action::Stop, condition))
}

#[cfg(test)]
mod tests;
