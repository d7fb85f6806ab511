//! Policies: named rules, each a condition with an action.

mod accounting;
pub mod bounds;
mod budget_table;
mod check;
mod file;
mod write;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::condition::fact::Fact;
use crate::condition::gauge::Unit;
use crate::condition::{Condition, GaugeId};
use crate::limits::{DEFAULT_OVERRIDES, MAX_RULE_ID, MAX_RULES};
use crate::signal::StopReason;
use crate::units::{Millis, Money, TokenUsage};

pub use accounting::{Accounting, OnClientGone, OnServerError, OnUnknownUsage};
pub use bounds::{Bound, Bounds};
pub use budget_table::BudgetTable;
pub use file::PolicyFile;
#[cfg(feature = "schema")]
pub use file::schema;

/// The effect of a rule that trips, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The run stops.
    Stop,
    /// A person decides.
    Pause,
    /// One more model call without tools, then the run stops.
    Finish,
    /// The response is dropped and asked for again.
    Retry,
    /// An event, once a rule.
    Warn,
}

impl Action {
    /// Every action, first in precedence first.
    pub const ALL: [Self; 5] = [Self::Stop, Self::Pause, Self::Finish, Self::Retry, Self::Warn];

    /// Returns the name as written in a policy file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Pause => "pause",
            Self::Finish => "finish",
            Self::Retry => "retry",
            Self::Warn => "warn",
        }
    }
}

/// The amounts that one override of a rule adds to its limit.
///
/// The core counts the steps of a grant and admits no more of them. Money, tokens and time of a grant are part of
/// [`Policy::bounds`], which a ledger enforces.
///
/// ```
/// use endstop_core::condition::named::max_usd;
/// use endstop_core::policy::{Grant, Rule};
/// use endstop_core::{Action, Policy};
///
/// let grant = Some(Grant { cost: "0.50".parse()?, ..Grant::default() });
/// let soft = Rule::new("money", Action::Stop, max_usd("2.00")?);
/// let soft = Rule { grant, hard: Some(false), overrides: 2, ..soft };
/// let bound = Policy { rules: vec![soft], ..Policy::default() }.bounds().cost.unwrap();
/// // $2.00, and $0.50 for each of the two overrides.
/// assert_eq!((bound.limit, bound.with_overrides), (2_000_000_000_000, 3_000_000_000_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Steps.
    pub steps: u64,
    /// Money.
    pub cost: Money,
    /// Tokens.
    pub tokens: u64,
    /// Active time.
    pub time: Millis,
}

impl Default for Grant {
    /// One step and no money (docs/semantics.md, section 5).
    fn default() -> Self {
        Self { steps: 1, cost: Money::ZERO, tokens: 0, time: Millis(0) }
    }
}

/// A rule of a policy.
///
/// ```
/// use endstop_core::condition::named::{max_steps, max_usd};
/// use endstop_core::{Action, Policy, policy::Rule};
///
/// let steps = Rule { overrides: 1, ..Rule::new("steps", Action::Stop, max_steps(25)) };
/// let money = Rule::new("money", Action::Stop, max_usd("2.00")?);
/// // A person may override a limit of steps, but not one of money.
/// assert!(!steps.is_hard() && money.is_hard());
///
/// let policy = Policy { rules: vec![steps, money], ..Policy::default() };
/// assert_eq!(policy.rule("steps").map(|rule| rule.overrides), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Its name; unique in the policy.
    pub id: String,
    /// The effect when it trips.
    pub action: Action,
    /// The condition on which it trips.
    pub condition: Condition,
    /// The reason it stops for; from its highest true leaf if absent.
    pub reason: Option<StopReason>,
    /// The message of the stop signal; a default text if absent.
    pub message: Option<String>,
    /// Whether it can be overridden, all its parts alike. Where absent, parts with money or tokens cannot.
    pub hard: Option<bool>,
    /// The number of times in a row that it may be overridden.
    pub overrides: u32,
    /// The extra allowance of each override.
    pub grant: Option<Grant>,
    /// Of a pause rule on quotas: the run continues without a person once the window has reset
    /// ([`Run::next_reset`](crate::run::Run::next_reset)).
    pub resumes_at_reset: bool,
    /// Its origin, such as a file's path.
    pub origin: Option<String>,
}

impl Rule {
    /// Creates a rule with the defaults.
    #[must_use]
    pub fn new(id: impl Into<String>, action: Action, condition: Condition) -> Self {
        Self {
            id: id.into(),
            action,
            condition,
            reason: None,
            message: None,
            hard: None,
            overrides: DEFAULT_OVERRIDES,
            grant: None,
            resumes_at_reset: false,
            origin: None,
        }
    }

    /// Returns whether no continuation can ever override it (docs/semantics.md, section 2): each of its parts is hard.
    /// A rule with a soft part can be overridden as long as no hard part is met.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.parts().into_iter().all(|part| self.is_part_hard(part))
    }

    /// Returns the conditions that each make it trip alone: the parts of a top-level `or`, named conditions expanded.
    #[must_use]
    pub fn parts(&self) -> Vec<&Condition> {
        let (mut left, mut parts) = (alloc::vec![&self.condition], Vec::new());
        while let Some(next) = left.pop() {
            match next {
                Condition::Or(inner) => left.extend(inner.iter().rev()),
                Condition::Named(named) => left.push(named.expansion()),
                part => parts.push(part),
            }
        }
        parts
    }

    /// Returns whether no continuation can override one of its [`parts`](Self::parts). Money and tokens are hard unless
    /// the rule is soft and grants some of them.
    #[must_use]
    pub fn is_part_hard(&self, part: &Condition) -> bool {
        let has = |unit: Unit| gauges_in(part).any(|gauge| gauge.row().unit == unit);
        let (money, tokens) = (has(Unit::Money), has(Unit::Tokens));
        let grant = self.grant.unwrap_or_default();
        let lacks_grant = (money && grant.cost == Money::ZERO) || (tokens && grant.tokens == 0);
        self.hard.unwrap_or(money || tokens) || lacks_grant
    }

    /// Returns the gauges that the rule compares, temporal operands included, in order, with repeats.
    #[must_use]
    pub fn gauges(&self) -> Vec<&crate::condition::Gauge> {
        gauges_in(&self.condition).collect()
    }

    /// The windows of the quotas that the rule compares, in order, with repeats.
    pub(crate) fn windows(&self) -> impl Iterator<Item = &str> {
        let quotas = gauges_in(&self.condition).filter(|gauge| gauge.id == GaugeId::Quota);
        quotas.filter_map(|gauge| gauge.argument.as_deref())
    }

    /// Whether it can wait for a reset: a pause rule that compares a quota.
    pub(crate) fn can_wait_for_reset(&self) -> bool {
        self.action == Action::Pause && self.windows().next().is_some()
    }

    /// Returns the external signals that the rule names, in order, with repeats.
    ///
    /// ```
    /// use endstop_core::{expr, policy::{Action, Rule}};
    ///
    /// let condition = expr::parse("steps >= 9 or (signal(\"review\") and cost >= $1)")?;
    /// assert_eq!(Rule::new("ask", Action::Pause, condition).external_signals(), ["review"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn external_signals(&self) -> Vec<&str> {
        let mut left = alloc::vec![&self.condition];
        let mut names = Vec::new();
        while let Some(next) = left.pop() {
            if let Condition::Fact(Fact::Signal(name)) = next {
                names.push(name.as_str());
            }
            left.extend(next.parts().into_iter().rev());
        }
        names
    }
}

/// The gauges that a condition compares, in order, with repeats.
pub(crate) fn gauges_in(condition: &Condition) -> impl Iterator<Item = &crate::condition::Gauge> {
    let mut left = alloc::vec![condition];
    core::iter::from_fn(move || {
        while let Some(next) = left.pop() {
            if let Condition::Compare(comparison) = next {
                return Some(&comparison.gauge);
            }
            left.extend(next.parts().into_iter().rev());
        }
        None
    })
}

/// The treatment by a money rule of a call whose price is unknown.
///
/// See the example of [`FallbackRates`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnUnpriced {
    /// The rule trips.
    #[default]
    Stop,
    /// The call counts nothing. Then `cost` bounds nothing.
    Ignore,
    /// The call counts at these rates.
    Rates(FallbackRates),
}

/// Rates for calls without a price, in pico-dollars for a million tokens.
///
/// ```
/// use endstop_core::policy::{FallbackRates, OnUnpriced};
/// use endstop_core::units::{Money, TokenUsage};
/// use endstop_core::{Policy, condition::named::max_usd};
///
/// let rates = FallbackRates { input: "3.00".parse()?, output: "15.00".parse()? };
/// let policy = Policy {
///     on_unpriced: Some(OnUnpriced::Rates(rates)),
///     ..Policy::from(max_usd("2.00")?)
/// };
/// assert_eq!(policy.unpriced(), OnUnpriced::Rates(rates));
///
/// let usage = TokenUsage { input: 1_000, output: 100, ..TokenUsage::default() };
/// assert_eq!(rates.cost(&usage), Some("0.0045".parse::<Money>()?));
/// # Ok::<(), endstop_core::units::MoneyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FallbackRates {
    /// For a million input tokens of any class.
    pub input: Money,
    /// For a million output tokens.
    pub output: Money,
}

impl FallbackRates {
    /// Returns the cost of a call, rounded up to a pico-dollar; `None` if it passes $18.4M.
    #[must_use]
    pub fn cost(&self, usage: &TokenUsage) -> Option<Money> {
        let input = u128::from(usage.total_input()).checked_mul(u128::from(self.input.picos()))?;
        let output = u128::from(usage.output).checked_mul(u128::from(self.output.picos()))?;
        let total = input.checked_add(output)?.div_ceil(1_000_000);
        u64::try_from(total).ok().map(Money::from_picos)
    }
}

/// Rules and their settings. The order of the rules matters only for the output.
///
/// ```
/// use endstop_core::Policy;
/// use endstop_core::condition::named::max_steps;
///
/// let policy = Policy::from_toml("[stop]\nlimits = \"steps >= 25 or cost >= $2.00\"")?;
/// let steps = |policy: &Policy| policy.bounds().steps.map(|bound| bound.limit);
/// assert_eq!(steps(&policy), Some(25));
///
/// // Merging adds rules, so it can only make a policy narrower.
/// let narrower = policy.merge(&Policy::from(max_steps(10)));
/// assert_eq!(steps(&narrower), Some(10));
/// # Ok::<(), endstop_core::expr::Diagnostic>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// A name for people.
    pub name: Option<String>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// The treatment by a money rule of a call whose price is unknown; [`OnUnpriced::Stop`] if absent.
    pub on_unpriced: Option<OnUnpriced>,
    /// The charges for unreported usage, and the requests that pass without a bound.
    pub accounting: Accounting,
    /// Whether the policy says of itself that it may be unbounded.
    pub unbounded: bool,
    /// Budgets over time that runs share, by name. The core only carries them: they need a clock and a store.
    pub budgets: BTreeMap<String, BudgetTable>,
}

/// Why a policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Two rules of one id.
    #[error("two rules have the name `{0}`")]
    DuplicateRule(String),
    /// An id that is empty or longer than [`MAX_RULE_ID`].
    #[error("a rule's name has 1 to {MAX_RULE_ID} bytes; this one has {0}")]
    RuleName(usize),
    /// More rules than [`MAX_RULES`].
    #[error("the policy has {0} rules; at most {MAX_RULES} are accepted")]
    TooManyRules(usize),
    /// A condition that is too deep or all conditions together too large.
    #[error("rule `{rule}`: {problem}")]
    TooLarge {
        /// The rule.
        rule: String,
        /// The part that is too large.
        problem: String,
    },
    /// A condition that was built in Rust and has no written form, or one that is not accepted when read.
    #[error("rule `{rule}`: {problem}")]
    Unwritable {
        /// The rule.
        rule: String,
        /// The obstacle.
        problem: String,
    },
    /// A rule that waits for a reset and is not a pause rule on a quota.
    #[error("rule `{0}` cannot wait for a reset: it is not a pause rule on a quota")]
    NothingResets(String),
    /// A probe that is not registered.
    #[error("rule `{rule}` uses the probe `{probe}`, which is not registered")]
    UnknownProbe {
        /// The rule.
        rule: String,
        /// The probe.
        probe: String,
    },
    /// A pattern or text that cannot be compiled.
    #[error("{0}")]
    Text(String),
}

impl Policy {
    /// Creates a policy with one stop rule called `stop`, like `--stop EXPR`.
    #[must_use]
    pub fn stop(condition: Condition) -> Self {
        Self { rules: alloc::vec![Rule::new("stop", Action::Stop, condition)], ..Self::default() }
    }

    /// Returns the treatment by a money rule of a call whose price is unknown.
    #[must_use]
    pub fn unpriced(&self) -> OnUnpriced {
        self.on_unpriced.unwrap_or_default()
    }

    /// Returns the rule called `id`.
    #[must_use]
    pub fn rule(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// Returns the model whose prices calls without a price have, as the first `max_usd(…, model="…")` names it. A
    /// driver with a price table makes `on_unpriced` of it. O(nodes).
    #[must_use]
    pub fn unpriced_model(&self) -> Option<&str> {
        self.rules.iter().find_map(|rule| rule.condition.unpriced_model())
    }

    /// Returns this policy with the rules of `narrower` added.
    ///
    /// Every rule of this policy stays as it is, so whatever it stops, the result stops. A rule of the narrower
    /// policy whose id is taken is kept as `id@origin`. The stricter treatment of unpriced calls and of unreported
    /// usage applies, and only this policy can say that it may be unbounded.
    #[must_use]
    pub fn merge(&self, narrower: &Self) -> Self {
        let mut merged = self.clone();
        for rule in &narrower.rules {
            let mut rule = rule.clone();
            let origin = rule.origin.clone().unwrap_or_else(|| String::from("narrower"));
            let wanted = rule.id.clone();
            let mut tries = 1u32;
            while merged.rule(&rule.id).is_some() {
                rule.id = if tries == 1 {
                    format!("{wanted}@{origin}")
                } else {
                    format!("{wanted}@{origin}#{tries}")
                };
                tries += 1;
            }
            merged.rules.push(rule);
        }
        merged.on_unpriced = match (self.on_unpriced, narrower.on_unpriced) {
            (Some(one), Some(other)) => Some(stricter(one, other)),
            // Saying nothing means the strictest, so only what this policy says can be kept.
            (one, _) => one,
        };
        merged.accounting = self.accounting.merge(&narrower.accounting);
        for (name, table) in &narrower.budgets {
            let kept = merged.budgets.entry(name.clone()).or_insert_with(|| table.clone());
            for limit in &table.limit {
                if !kept.limit.contains(limit) {
                    kept.limit.push(limit.clone());
                }
            }
        }
        merged
    }
}

impl From<Condition> for Policy {
    fn from(condition: Condition) -> Self {
        Self::stop(condition)
    }
}

fn stricter(one: OnUnpriced, other: OnUnpriced) -> OnUnpriced {
    match (one, other) {
        (OnUnpriced::Stop, _) | (_, OnUnpriced::Stop) => OnUnpriced::Stop,
        (OnUnpriced::Ignore, other) | (other, OnUnpriced::Ignore) => other,
        (OnUnpriced::Rates(a), OnUnpriced::Rates(b)) => OnUnpriced::Rates(FallbackRates {
            input: a.input.max(b.input),
            output: a.output.max(b.output),
        }),
    }
}
