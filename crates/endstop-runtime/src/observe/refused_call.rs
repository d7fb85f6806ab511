//! Why a call was not sent, by its parts: for people who wonder how so small a request can be too dear.

use std::fmt;

use endstop_core::human::{Rounding, count, counted, money, money_rounded};
use endstop_core::units::{Money, PICOS_PER_CENT};

use super::clean;

/// A call that was not sent because it could have passed a cost or token limit, or has no price under one.
///
/// As text: `not sent: this request could cost up to $0.54 (input up to 53,200 tokens $0.53, output up to 500 $0.005);
/// $0.50 of $0.50 is left; a limit of $0.55 would admit it with an answer of 500 tokens`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCall {
    /// The model that was requested.
    pub model: String,
    /// The most input tokens.
    pub input_tokens: u64,
    /// Output tokens of a short answer: the suggested amounts admit it with these.
    pub output_tokens: u64,
    /// The most that the input costs; zero without a price.
    pub input_cost: Money,
    /// The most that input and output cost; zero without a price.
    pub cost: Money,
    /// The most that the wrap-up costs that a finish rule keeps room for; zero without one.
    pub wrap_up_cost: Money,
    /// The limits that the call does not fit: never empty, and of one kind the nearest first.
    pub shortages: Vec<Shortage>,
}

/// A limit that a call does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The limit's owner.
    pub owner: LimitOwner,
    /// The amounts.
    pub lack: Lack,
    /// The rules that have the limit. Empty for the limit of a budget.
    pub rules: Vec<LimitRule>,
}

/// A rule that refuses a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRule {
    /// Its id.
    pub id: String,
    /// Its origin, such as a file's path or `--usd`.
    pub origin: Option<String>,
}

/// The owner of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitOwner {
    /// The outermost run, which a user has started.
    Run,
    /// A sub-agent's run.
    SubAgent,
    /// A budget that several runs share.
    AllRuns,
}

/// The amounts of a limit that a call does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Money.
    Money {
        /// The rest of the limit.
        left: Money,
        /// The limit.
        limit: Money,
        /// A limit that admits the call.
        enough: Money,
    },
    /// Tokens.
    Tokens {
        /// The rest of the limit.
        left: u64,
        /// The limit.
        limit: u64,
        /// A limit that admits the call.
        enough: u64,
    },
    /// Money is limited, and the model has no price.
    Price,
}

/// Who reads a suggestion.
#[derive(Clone, Copy)]
enum Reader<'o> {
    /// A client, which knows no rule and no file.
    Client,
    /// The user of the command, who gave these options.
    User(&'o [&'o str]),
}

/// Suggested token limits are multiples of this.
const ROUND_TOKENS: u64 = 100;
/// A suggested amount has room for this part more: the same request can be a few bytes longer in another run.
const SPARE_PART: u64 = 100;

impl Lack {
    /// A lack of money: `needed` is more than what is `left` of the limit.
    pub(crate) fn money(left: Money, limit: Money, needed: Money) -> Self {
        let needed = needed.picos().saturating_add(needed.picos() / SPARE_PART);
        let enough = limit.picos().saturating_sub(left.picos()).saturating_add(needed);
        let enough =
            Money::from_picos(enough.div_ceil(PICOS_PER_CENT).saturating_mul(PICOS_PER_CENT));
        Self::Money { left, limit, enough }
    }

    /// A lack of tokens.
    pub(crate) const fn tokens(left: u64, limit: u64, needed: u64) -> Self {
        let needed = needed.saturating_add(needed / SPARE_PART);
        let enough = limit.saturating_sub(left).saturating_add(needed);
        let enough = enough.div_ceil(ROUND_TOKENS).saturating_mul(ROUND_TOKENS);
        Self::Tokens { left, limit, enough }
    }

    /// The remaining amount, in pico-dollars or tokens.
    pub(crate) const fn left(&self) -> u64 {
        match self {
            Self::Money { left, .. } => left.picos(),
            Self::Tokens { left, .. } => *left,
            Self::Price => 0,
        }
    }
}

impl Shortage {
    /// `$0.50 of $0.50 is left`.
    fn left(&self) -> String {
        let (is_none, left, limit, is) = match self.lack {
            Lack::Money { left, limit, .. } => {
                (left == Money::ZERO, money_rounded(left, Rounding::Down), money(limit), "is")
            }
            Lack::Tokens { left, limit, .. } => {
                (left == 0, count(left), format!("{} tokens", count(limit)), "are")
            }
            Lack::Price => return String::new(),
        };
        let all = match self.owner {
            LimitOwner::Run => limit,
            LimitOwner::SubAgent => format!("the sub-agent's {limit}"),
            LimitOwner::AllRuns if is_none => {
                return format!("the total of all runs, {limit}, is used up");
            }
            LimitOwner::AllRuns => format!("the total of all runs, {limit},"),
        };
        format!("{left} of {all} {is} left")
    }

    /// `a limit of $0.55`. For a user of the command with the rules, or as the option that made them: `--usd 0.55`,
    /// `a limit of $0.55 (rule `cost` of p.toml)`.
    fn enough(&self, reader: Reader<'_>) -> String {
        let (amount, bare, option) = match self.lack {
            Lack::Money { enough, .. } => {
                (money(enough), enough.to_string().trim_start_matches('$').to_owned(), "usd")
            }
            Lack::Tokens { enough, .. } => {
                (format!("{} tokens", count(enough)), enough.to_string(), "tokens")
            }
            Lack::Price => return String::new(),
        };
        let limit = format!("{} of {amount}", self.owner.of_limit());
        let Reader::User(options) = reader else { return limit };
        let is_of_option = |rule: &&LimitRule| {
            let origin = rule.origin.as_deref().and_then(|origin| origin.strip_prefix("--"));
            self.owner == LimitOwner::Run && origin == Some(option) && options.contains(&option)
        };
        let (of_option, others): (Vec<_>, Vec<_>) = self.rules.iter().partition(is_of_option);
        let mut parts = Vec::new();
        if !of_option.is_empty() {
            parts.push(format!("--{option} {bare}"));
        }
        if !others.is_empty() {
            let names = others.iter().map(|rule| rule.in_words()).collect::<Vec<_>>();
            parts.push(format!("{limit} ({})", names.join(", ")));
        }
        if parts.is_empty() { limit } else { parts.join(" and ") }
    }
}

impl LimitRule {
    /// `rule `cost` of p.toml`.
    fn in_words(&self) -> String {
        let id = clean(&self.id);
        match &self.origin {
            Some(origin) => format!("rule `{id}` of {}", clean(origin)),
            None => format!("rule `{id}`"),
        }
    }
}

impl LimitOwner {
    const fn of_limit(self) -> &'static str {
        match self {
            Self::Run => "a limit",
            Self::SubAgent => "a sub-agent's limit",
            Self::AllRuns => "a total of all runs",
        }
    }
}

impl RefusedCall {
    /// Returns the text for a user who gave these options to the command. `usd` is `--usd`: the suggestion names it if the
    /// rule that refuses is from it, and otherwise the rule and its file.
    #[must_use]
    pub fn text_for(&self, options: &[&str]) -> String {
        self.text(Reader::User(options))
    }

    fn text(&self, reader: Reader<'_>) -> String {
        let Some(first) = self.shortages.first() else { return "not sent".to_owned() };
        let (input, output) = (count(self.input_tokens), count(self.output_tokens));
        let could = match first.lack {
            Lack::Price => {
                return format!(
                    "not sent: no price for model `{}`, so its cost has no bound",
                    self.model
                );
            }
            Lack::Money { .. } => {
                let all = self.cost.picos().saturating_add(self.wrap_up_cost.picos());
                let of_output = self.cost.saturating_sub(self.input_cost);
                let wrap_up = match self.wrap_up_cost {
                    Money::ZERO => String::new(),
                    cost => format!(", a wrap-up after it {}", money(cost)),
                };
                format!(
                    "cost up to {} (input up to {input} tokens {}, output up to {output} {}{wrap_up})",
                    money_rounded(Money::from_picos(all), Rounding::Up),
                    money(self.input_cost),
                    money(of_output),
                )
            }
            Lack::Tokens { .. } => {
                let all = count(self.input_tokens.saturating_add(self.output_tokens));
                format!("use up to {all} tokens (input up to {input}, output up to {output})")
            }
        };
        let left = self.shortages.iter().map(Shortage::left).collect::<Vec<_>>().join(", ");
        let enough = self.shortages.iter().map(|it| it.enough(reader)).collect::<Vec<_>>();
        let (enough, answer) = (enough.join(" and "), counted(self.output_tokens, "token"));
        format!(
            "not sent: this request could {could}; {left}; {enough} would admit it with an answer of {answer}"
        )
    }
}

impl fmt::Display for RefusedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Reader::Client))
    }
}

#[cfg(test)]
mod tests;
