//! From a provider's response to usage counts, by the rules that come with the price data.
//!
//! A rule says where a count lies (`prompt_tokens_details.cached_tokens`) and which unit it is; several
//! rules for one unit add up.

use serde::Deserialize;
use serde_json::Value;

use super::clause::Clause;
use super::limits::MAX_FURTHER;
use super::unit::{Unit, Units};
use super::usage::{FurtherUsage, UsageCounts, UsageError, read_count};
use super::{PriceTable, Provider};

/// Where Anthropic lists the requests behind one response, and the kind of those that the totals include.
const ITERATIONS: &str = "iterations";
const INCLUDED: &str = "message";
const FALLBACK: &str = "fallback_message";

/// The flavor of a provider's first API.
const DEFAULT_FLAVOR: &str = "default";

/// One step into a JSON value.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Step {
    Key(String),
    /// The first item of a list whose `field` matches.
    Item {
        field: String,
        #[serde(rename = "match")]
        clause: Clause,
    },
}

/// A way into a JSON value; the data writes one key without a list around it.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Path {
    One(String),
    Many(Vec<Step>),
}

/// The value at the end of a path.
enum Found<'v> {
    Value(&'v Value),
    /// Absent, or null, or no place that could have it.
    Nothing,
}

impl Path {
    fn find<'v>(&self, value: &'v Value) -> Found<'v> {
        let found = match self {
            Self::One(key) => value.get(key),
            Self::Many(steps) => steps.iter().try_fold(value, |value, step| step.find(value)),
        };
        found.filter(|value| !value.is_null()).map_or(Found::Nothing, Found::Value)
    }

    fn text(&self) -> String {
        match self {
            Self::One(key) => key.clone(),
            Self::Many(steps) => steps.iter().map(Step::text).collect::<Vec<_>>().join("."),
        }
    }
}

impl Step {
    fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Key(key) => value.get(key),
            Self::Item { field, clause } => value.as_array()?.iter().find(|item| {
                let name = item.get(field).and_then(Value::as_str);
                name.is_some_and(|name| clause.is_match(&name.to_lowercase()))
            }),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Key(key) => key,
            Self::Item { field, .. } => field,
        }
    }

    fn lowered(self) -> Self {
        match self {
            Self::Item { field, clause } => Self::Item { field, clause: clause.lowered() },
            key @ Self::Key(_) => key,
        }
    }
}

/// One rule of an extractor.
#[derive(Debug, PartialEq)]
pub(crate) struct Mapping {
    path: Path,
    unit: Unit,
    required: bool,
}

/// How to read the responses of one API of a provider.
#[derive(Debug, PartialEq)]
pub(crate) struct Extractor {
    pub(crate) flavor: String,
    root: Path,
    model: Path,
    mappings: Vec<Mapping>,
}

/// A rule as the price data writes it.
#[derive(Debug, Deserialize)]
pub(crate) struct FileMapping {
    path: Path,
    dest: String,
    #[serde(default = "yes")]
    required: bool,
}

/// An extractor as the price data writes it.
#[derive(Debug, Deserialize)]
pub(crate) struct FileExtractor {
    root: Path,
    mappings: Vec<FileMapping>,
    #[serde(default = "default_flavor")]
    api_flavor: String,
    #[serde(default = "model_key")]
    model_path: Path,
}

const fn yes() -> bool {
    true
}

fn default_flavor() -> String {
    DEFAULT_FLAVOR.to_owned()
}

fn model_key() -> Path {
    Path::One("model".to_owned())
}

/// A unit that the table does not list.
pub(crate) struct UnknownUnit(pub(crate) String);

impl FileExtractor {
    /// The extractor, unless it writes an unknown unit.
    pub(crate) fn resolve(self, units: &Units) -> Result<Extractor, UnknownUnit> {
        let mut mappings = Vec::with_capacity(self.mappings.len());
        for FileMapping { path, dest, required } in self.mappings {
            let path = match path {
                Path::Many(steps) => Path::Many(steps.into_iter().map(Step::lowered).collect()),
                one @ Path::One(_) => one,
            };
            let unit = units.by_key(&dest).ok_or(UnknownUnit(dest))?;
            mappings.push(Mapping { path, unit, required });
        }
        let (root, model) = (self.root, self.model_path);
        Ok(Extractor { flavor: self.api_flavor, root, model, mappings })
    }
}

impl Extractor {
    /// Reads the usage object itself, with the further requests that it lists.
    ///
    /// The totals of Anthropic's report are the sum of its `iterations` of the kind `message`. Others, such as
    /// `compaction` and `advisor_message`, are billed and are in no total. If another model answered instead, the
    /// kind of its iteration is `fallback_message`, and those of the kind `message` are requests that were declined:
    /// further ones by another model, in the totals or not.
    pub(crate) fn read_usage(&self, usage: &Value) -> Result<UsageCounts, UsageError> {
        let mut counts = self.read_one(usage)?;
        let iterations = usage.get(ITERATIONS).and_then(Value::as_array).map_or(&[][..], |all| all);
        if iterations.len() > MAX_FURTHER {
            let (found, most) = (iterations.len(), MAX_FURTHER);
            return Err(UsageError::TooMany { path: ITERATIONS, found, most });
        }
        let (mut messages, mut answers, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for iteration in iterations {
            match iteration.get("type").and_then(Value::as_str) {
                Some(INCLUDED) => messages.push(iteration),
                Some(FALLBACK) => answers.push(self.read_further(iteration)?),
                _ => others.push(self.read_further(iteration)?),
            }
        }
        if !answers.is_empty() {
            let declined = messages.into_iter().map(|one| self.read_further(one));
            counts.add_declined(declined.collect::<Result<_, _>>()?, answers)?;
        }
        others.into_iter().try_for_each(|further| counts.add_further(further))?;
        Ok(counts)
    }

    fn read_further(&self, iteration: &Value) -> Result<FurtherUsage, UsageError> {
        let model = iteration.get("model").and_then(Value::as_str).map(str::to_owned);
        Ok(FurtherUsage { model, counts: self.read_one(iteration)? })
    }

    fn read_one(&self, usage: &Value) -> Result<UsageCounts, UsageError> {
        let mut counts = UsageCounts::default();
        for Mapping { path, unit, required } in &self.mappings {
            match path.find(usage) {
                Found::Value(value) => {
                    let count = read_count(*unit, value, || path.text())?;
                    counts.add(*unit, count)?;
                }
                Found::Nothing if *required => {
                    return Err(UsageError::Missing { path: path.text() });
                }
                Found::Nothing => {}
            }
        }
        if counts.iter().next().is_none() { Err(UsageError::Empty) } else { Ok(counts) }
    }

    /// Reads a whole response: the model it names, and the usage.
    fn read(&self, body: &Value) -> Result<(Option<String>, UsageCounts), UsageError> {
        let Found::Value(usage) = self.root.find(body) else {
            return Err(UsageError::Missing { path: self.root.text() });
        };
        let model = match self.model.find(body) {
            Found::Value(value) => value.as_str().map(str::to_owned),
            Found::Nothing => None,
        };
        Ok((model, self.read_usage(usage)?))
    }
}

impl Provider {
    pub(crate) fn extractor(&self, flavor: &str) -> Result<&Extractor, UsageError> {
        self.extractors.iter().find(|extractor| extractor.flavor == flavor).ok_or_else(|| {
            let known: Vec<&str> = self.extractors.iter().map(|e| e.flavor.as_str()).collect();
            UsageError::UnknownFlavor {
                provider: self.id.clone(),
                flavor: flavor.to_owned(),
                known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            }
        })
    }
}

impl PriceTable {
    /// Reads a whole response body: the model that it names, if any, and its usage.
    ///
    /// `flavor` is the provider's API as the price data names it (`chat`, `responses`, `default`);
    /// without it the one that
    /// recognizes most of the body is taken.
    ///
    /// # Errors
    ///
    /// Returns [`UsageError`]: provider or flavor unknown, or the body is not such a response.
    pub fn read_response(
        &self,
        provider: &str,
        flavor: Option<&str>,
        body: &Value,
    ) -> Result<(Option<String>, UsageCounts), UsageError> {
        let found = self.provider(provider);
        let found =
            found.ok_or_else(|| UsageError::UnknownProvider { provider: provider.to_owned() })?;
        if let Some(flavor) = flavor {
            return found.extractor(flavor)?.read(body);
        }
        // Several may fit; the one that recognizes most loses nothing. Equal ones read alike.
        let mut best: Option<(Option<String>, UsageCounts)> = None;
        let mut first_error = UsageError::UnknownShape;
        for (index, extractor) in found.extractors.iter().enumerate() {
            let most = best.as_ref().map_or(0, |(_, usage)| usage.iter().count());
            match extractor.read(body) {
                Ok(read) if read.1.iter().count() > most => best = Some(read),
                Err(error) if index == 0 => first_error = error,
                _ => {}
            }
        }
        best.ok_or(first_error)
    }
}
