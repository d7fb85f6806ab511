//! The policy file (TOML), and the types that its JSON Schema is generated from.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::{
    Accounting, Action, BudgetTable, FallbackRates, Grant, OnClientGone, OnServerError,
    OnUnknownUsage, OnUnpriced, Policy, Rule,
};
use crate::condition::gauge::Unit;
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::expr::parse;
use crate::limits::{DEFAULT_OVERRIDES, MAX_FILE, MAX_RULE_ID, MAX_RULES, MAX_TEXT};
use crate::signal::StopReason;
use crate::units::{Millis, Money};

/// A policy file. Rules stand under the action they have, as `name = "expression"`.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// A name for people.
    #[serde(default)]
    name: Option<String>,
    /// Rules that stop the run.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, String>"))]
    stop: BTreeMap<String, Spanned<String>>,
    /// Rules after which the model answers once more, tools off.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, String>"))]
    finish: BTreeMap<String, Spanned<String>>,
    /// Rules under which a person decides.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, String>"))]
    pause: BTreeMap<String, Spanned<String>>,
    /// Rules that drop a response and ask again.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, String>"))]
    retry: BTreeMap<String, Spanned<String>>,
    /// Rules that only warn.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, String>"))]
    warn: BTreeMap<String, Spanned<String>>,
    /// Details of rules, by name, only where wanted.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, RuleDetails>"))]
    rule: BTreeMap<String, Spanned<RuleDetails>>,
    /// The treatment by a money rule of a call whose price is unknown: "stop" (default), "ignore", or rates.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Unpriced>"))]
    on_unpriced: Option<Spanned<Unpriced>>,
    /// Whether the policy may leave a run without any bound.
    #[serde(default)]
    unbounded: bool,
    /// Charges for unreported usage, and requests that pass without a bound.
    #[serde(default)]
    accounting: AccountingText,
    /// Budgets over time that runs share, by name.
    #[serde(default)]
    budget: BTreeMap<String, BudgetTable>,
}

/// Charges for unreported usage, and requests that pass without a bound.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct AccountingText {
    /// The charge for a complete response whose usage is not reported: "hold" (default), the most that is possible, or
    /// "estimate".
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    on_unknown_usage: Option<Spanned<String>>,
    /// The end of a call in a gateway if its client disconnects: "auto" (default), "drain", or "close".
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    on_client_gone: Option<Spanned<String>>,
    /// The charge for an error response (500, 503, 529) in the shape of the API: "auto" (default), nothing from a
    /// provider's own API and the most that is possible from others, or "free".
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    on_server_error: Option<Spanned<String>>,
    /// Names of things in requests that are sent although their cost cannot be bounded; "all" for everything.
    #[serde(default)]
    allow_unmetered: Vec<String>,
    /// The output tokens below which a call is refused instead of sent with a lower cap; 16 by default.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>", range(min = 1)))]
    min_output_tokens: Option<Spanned<u64>>,
}

/// Details of one rule.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct RuleDetails {
    /// The stop reason; from the leaf that trips if absent.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    reason: Option<Spanned<String>>,
    /// The message of the stop signal.
    #[serde(default)]
    message: Option<String>,
    /// Whether no continuation can override it; true by default for money and tokens.
    #[serde(default)]
    hard: Option<bool>,
    /// How often in a row it may be overridden; 3 by default.
    #[serde(default)]
    overrides: Option<u32>,
    /// The amount that each override adds to the limit.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<GrantText>"))]
    grant: Option<Spanned<GrantText>>,
    /// "reset": a pause rule on a quota waits for the window's reset instead of a person.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    resume: Option<Spanned<String>>,
}

/// The amount that an override adds, in the language's amounts.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct GrantText {
    /// Steps, such as 1.
    #[serde(default)]
    steps: Option<u32>,
    /// Money, such as "$0.50".
    #[serde(default)]
    cost: Option<String>,
    /// Tokens, such as "10k".
    #[serde(default)]
    tokens: Option<String>,
    /// Time, such as "5m".
    #[serde(default)]
    time: Option<String>,
}

/// "stop", "ignore", or rates for a million tokens.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "`on_unpriced` is \"stop\", \"ignore\", or { input = \"$3/M\", output = \"$15/M\" }"
)]
enum Unpriced {
    /// "stop" or "ignore".
    Word(String),
    /// Rates such as "$3/M".
    Rates {
        /// For input tokens.
        input: String,
        /// For output tokens.
        output: String,
    },
}

/// Returns the JSON Schema of a policy file (read as JSON), generated from [`PolicyFile`].
#[cfg(feature = "schema")]
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(PolicyFile).to_value()
}

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// Returns the first problem, with its place in the file and what to do about it.
    pub fn from_toml(text: &str) -> Result<Self, Diagnostic> {
        if text.len() > MAX_FILE {
            return Err(Diagnostic::new(
                format!("the file has {} bytes; at most {MAX_FILE} are read", text.len()),
                0..0,
            ));
        }
        let file: PolicyFile = toml::from_str(text).map_err(|error| toml_problem(text, &error))?;
        let mut policy =
            Self { name: file.name.clone(), unbounded: file.unbounded, ..Self::default() };
        let sections = [
            (Action::Stop, &file.stop),
            (Action::Finish, &file.finish),
            (Action::Pause, &file.pause),
            (Action::Retry, &file.retry),
            (Action::Warn, &file.warn),
        ];
        for (action, rules) in sections {
            for (id, expression) in rules {
                policy.rules.push(rule(text, &policy, action, id, expression)?);
            }
        }
        for (id, details) in &file.rule {
            add_details(&mut policy, id, details)?;
        }
        policy.on_unpriced = file.on_unpriced.as_ref().map(on_unpriced).transpose()?;
        policy.accounting = accounting(&file.accounting)?;
        policy.budgets = file.budget;
        policy.check().map_err(|error| Diagnostic::new(error.to_string(), 0..0))?;
        Ok(policy)
    }
}

fn rule(
    text: &str,
    policy: &Policy,
    action: Action,
    id: &str,
    expression: &Spanned<String>,
) -> Result<Rule, Diagnostic> {
    if id.is_empty() || id.len() > MAX_RULE_ID {
        return Err(Diagnostic::new(
            format!("a rule's name has 1 to {MAX_RULE_ID} bytes"),
            expression.span(),
        ));
    }
    if policy.rule(id).is_some() {
        return Err(Diagnostic::new(format!("two rules have the name `{id}`"), expression.span())
            .with_help("a name stands for one rule in the whole file"));
    }
    if policy.rules.len() >= MAX_RULES {
        return Err(Diagnostic::new(format!("more than {MAX_RULES} rules"), expression.span()));
    }
    let condition =
        parse(expression.get_ref()).map_err(|error| in_file(text, expression, error))?;
    Ok(Rule::new(id, action, condition))
}

/// An expression's error at its place in the file: exact if the string is written plainly, and otherwise the whole
/// string.
fn in_file(text: &str, expression: &Spanned<String>, error: Diagnostic) -> Diagnostic {
    let span = expression.span();
    let raw = text.get(span.clone()).unwrap_or("");
    let value = expression.get_ref();
    match raw.find(value.as_str()).filter(|_| value.len() < MAX_TEXT) {
        Some(offset) => error.shifted(span.start + offset),
        None => {
            let help = error.help.clone();
            let whole = Diagnostic::new(error.message, span);
            match help {
                Some(help) => whole.with_help(help),
                None => whole,
            }
        }
    }
}

fn add_details(
    policy: &mut Policy,
    id: &str,
    details: &Spanned<RuleDetails>,
) -> Result<(), Diagnostic> {
    let names: Vec<String> = policy.rules.iter().map(|rule| rule.id.clone()).collect();
    let Some(rule) = policy.rules.iter_mut().find(|rule| rule.id == id) else {
        let error = Diagnostic::new(format!("no rule `{id}`"), details.span());
        let suggestion = did_you_mean(id, names.iter().map(String::as_str));
        return Err(error.with_help(
            suggestion.unwrap_or_else(|| "details belong to a rule of this file".to_string()),
        ));
    };
    let details = details.get_ref();
    if let Some(reason) = &details.reason {
        let parsed: Result<StopReason, _> = reason.get_ref().parse();
        rule.reason = Some(parsed.map_err(|error| {
            let known = StopReason::ALL.iter().map(|known| known.value());
            let diagnostic = Diagnostic::new(error.to_string(), reason.span());
            match did_you_mean(reason.get_ref(), known) {
                Some(help) => diagnostic.with_help(help),
                None => diagnostic,
            }
        })?);
    }
    rule.message.clone_from(&details.message);
    rule.hard = details.hard;
    rule.overrides = details.overrides.unwrap_or(DEFAULT_OVERRIDES);
    rule.grant = details.grant.as_ref().map(grant).transpose()?;
    if let Some(resume) = &details.resume {
        rule.resumes_at_reset = one_of(resume, &[("reset", true)])?;
        if !rule.can_wait_for_reset() {
            let why = format!("`{id}` is not a pause rule on a quota, so nothing resets");
            return Err(Diagnostic::new(why, resume.span()).with_help(
                "write it for a rule such as `[pause]`, `plan = 'quota(\"5h\") >= 90%'`",
            ));
        }
    }
    Ok(())
}

fn grant(text: &Spanned<GrantText>) -> Result<Grant, Diagnostic> {
    let (span, text) = (text.span(), text.get_ref());
    let amount = |raw: &Option<String>, unit: Unit, name: &str| match raw {
        Some(raw) => crate::expr::amount(raw, unit, name, span.clone()),
        None => Ok(0),
    };
    let default = Grant::default();
    Ok(Grant {
        steps: text.steps.map_or(default.steps, u64::from),
        cost: Money::from_picos(amount(&text.cost, Unit::Money, "cost")?),
        tokens: amount(&text.tokens, Unit::Tokens, "tokens")?,
        time: Millis(amount(&text.time, Unit::Duration, "time")?),
    })
}

fn on_unpriced(text: &Spanned<Unpriced>) -> Result<OnUnpriced, Diagnostic> {
    let span = text.span();
    match text.get_ref() {
        Unpriced::Word(word) if word == "stop" => Ok(OnUnpriced::Stop),
        Unpriced::Word(word) if word == "ignore" => Ok(OnUnpriced::Ignore),
        Unpriced::Word(word) => Err(Diagnostic::new(format!("`{word}` is not known here"), span)
            .with_help(r#"write "stop", "ignore", or { input = "$3/M", output = "$15/M" }"#)),
        Unpriced::Rates { input, output } => Ok(OnUnpriced::Rates(FallbackRates {
            input: rate(input, &span)?,
            output: rate(output, &span)?,
        })),
    }
}

fn accounting(text: &AccountingText) -> Result<Accounting, Diagnostic> {
    let usages = OnUnknownUsage::ALL.map(|value| (value.name(), value));
    let ends = OnClientGone::ALL.map(|value| (value.name(), value));
    let errors = OnServerError::ALL.map(|value| (value.name(), value));
    Ok(Accounting {
        on_unknown_usage: text
            .on_unknown_usage
            .as_ref()
            .map(|it| one_of(it, &usages))
            .transpose()?,
        on_client_gone: text.on_client_gone.as_ref().map(|it| one_of(it, &ends)).transpose()?,
        on_server_error: text.on_server_error.as_ref().map(|it| one_of(it, &errors)).transpose()?,
        allow_unmetered: text.allow_unmetered.clone(),
        min_output_tokens: text.min_output_tokens.as_ref().map(at_least_one).transpose()?,
    })
}

fn at_least_one(count: &Spanned<u64>) -> Result<u64, Diagnostic> {
    match *count.get_ref() {
        0 => {
            Err(Diagnostic::new("an output cap of 0 allows no response".to_string(), count.span())
                .with_help("write at least 1"))
        }
        count => Ok(count),
    }
}

/// The value of a word.
fn one_of<T: Copy>(word: &Spanned<String>, known: &[(&str, T)]) -> Result<T, Diagnostic> {
    let found = known.iter().find(|(name, _)| name == word.get_ref());
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = known.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        Diagnostic::new(format!("`{}` is not known here", word.get_ref()), word.span())
            .with_help(format!("write one of {}", names.join(", ")))
    })
}

fn rate(text: &str, span: &Range<usize>) -> Result<Money, Diagnostic> {
    let bad = || {
        Diagnostic::new(format!("`{text}` is not a rate"), span.clone())
            .with_help("write dollars for a million tokens, such as \"$3/M\"")
    };
    text.strip_suffix("/M").ok_or_else(bad)?.trim().parse().map_err(|_| bad())
}

/// A TOML error, with a suggestion if a key is not known or a section is written as a key.
fn toml_problem(text: &str, error: &toml::de::Error) -> Diagnostic {
    let span = error.span().unwrap_or(0..0);
    let message = error.message().trim_end_matches('.').to_string();
    if let Some(section) = section_as_key(text, &span) {
        let written = text.get(span.clone()).unwrap_or("..");
        return Diagnostic::new(format!("`{section}` is a section of rules"), span)
            .with_help(format!("write `[{section}]`, and on the next line `limit = {written}`"));
    }
    if message.ends_with("expected a string") && is_in_rules(text, &span) {
        return Diagnostic::new("a rule is a condition", span)
            .with_help("write it in quotes, such as `limit = \"steps >= 50 or cost >= $2.00\"`");
    }
    let mut names = message.split('`').skip(1).step_by(2);
    if !message.starts_with("unknown field") {
        return Diagnostic::new(message, span);
    }
    let found = names.next().unwrap_or("").to_string();
    let known: Vec<&str> = names.collect();
    let help = did_you_mean(&found, known.iter().copied())
        .unwrap_or_else(|| format!("known here are {}", known.join(", ")));
    Diagnostic::new(format!("`{found}` is not a key here"), span).with_help(help)
}

/// Whether the section of a place is one of rules.
fn is_in_rules(text: &str, span: &Range<usize>) -> bool {
    let before = text.get(..span.start).unwrap_or_default();
    let section = before.lines().rev().find_map(|line| line.trim().strip_prefix('['));
    let name = section.and_then(|rest| rest.split(']').next()).unwrap_or_default();
    Action::ALL.iter().any(|action| action.name() == name.trim())
}

/// The section of rules that a string at `span` is the value of, as in `stop = "steps >= 5"`.
fn section_as_key<'t>(text: &'t str, span: &Range<usize>) -> Option<&'t str> {
    let value = text.get(span.clone())?;
    let line = text.get(..span.start)?.rsplit('\n').next()?;
    let key = line.trim_end().strip_suffix('=')?.trim();
    let is_section = Action::ALL.iter().any(|action| action.name() == key);
    // Below a section the same word is the name of a rule.
    let is_at_the_top =
        !text.get(..span.start)?.lines().any(|line| line.trim_start().starts_with('['));
    (value.starts_with(['"', '\'']) && is_section && is_at_the_top).then_some(key)
}

#[cfg(test)]
mod tests;
