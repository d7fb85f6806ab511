//! Finding a provider and a model by the names that requests and responses use.

use endstop_core::edit_distance;
use jiff::civil::Date;

use super::calculate::ModelPrice;
use super::limits::MAX_HINTS;
use super::limits::MAX_NAME;
use super::{Model, PriceTable, Provider};

/// Other names of providers that no rule of the data matches rightly: those of the OpenTelemetry conventions, and
/// those of Inspect.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("az.ai.inference", AZURE),
    ("az.ai.openai", AZURE),
    ("gcp.gen_ai", "google"),
    ("x_ai", "x-ai"),
    ("grok", "x-ai"),
    ("cf", "cloudflare"),
];

/// Instrumentations call it `azure.ai.openai`, `azure-openai.chat` or `azureai`: always with this at the beginning. The
/// rule of the data for OpenAI would match some of these names.
const AZURE: &str = "azure";

/// The providers under which LiteLLM reports every call; the model's prefix names the real one.
const LITELLM: [&str; 2] = ["litellm", "litellm_proxy"];

/// Prefixes of a model's name that only say how it was reached: through LiteLLM, or as a resource of Gemini's API.
const ROUTES: [&str; 3] = ["litellm_proxy/", "litellm/", "models/"];

/// Amazon's provider, who resells the models of others.
const AMAZON: &str = "aws";

/// The possible beginnings of an id of Bedrock: where the request may run.
const REGIONS: [&str; 9] = ["us", "us-gov", "eu", "apac", "ap", "jp", "au", "ca", "global"];

/// Whose models Bedrock has: its ids are `vendor.model`, such as `anthropic.claude-sonnet-4-5-20250929-v1:0`.
const BEDROCK_VENDORS: [&str; 18] = [
    "ai21",
    "amazon",
    "anthropic",
    "cohere",
    "deepseek",
    "google",
    "luma",
    "meta",
    "minimax",
    "mistral",
    "moonshot",
    "nvidia",
    "openai",
    "qwen",
    "stability",
    "twelvelabs",
    "writer",
    "zai",
];

/// The provider that resells models at the vendor's price, with the vendor before a slash in their names. It passes
/// requests on to others, and bills by the costs that its responses report.
pub const RESELLER: &str = "openrouter";

impl PriceTable {
    /// Returns the model with its prices, or `None` if the table has no price for it: the cost is then unknown,
    /// never zero.
    ///
    /// With a provider only its list is searched, and those it falls back to: the same model may cost something else
    /// elsewhere. Without one the vendor prefix decides (`openrouter/google/gemini-3-pro`,
    /// `anthropic/claude-sonnet-4-5`), an id of Bedrock is Amazon's (`us.anthropic.claude-sonnet-4-5-20250929-v1:0`),
    /// and otherwise the first provider that claims such names has it. Prefixes that only say how a model was reached
    /// are skipped: `litellm_proxy/`, `models/`.
    #[must_use]
    pub fn find(&self, provider: Option<&str>, model: &str) -> Option<ModelPrice<'_>> {
        if model.len() > MAX_NAME {
            return None;
        }
        let model = model.trim().to_lowercase();
        let is_litellm = |name: &str| LITELLM.iter().any(|it| name.trim().eq_ignore_ascii_case(it));
        let provider = provider.filter(|name| !is_litellm(name));
        let model = without_route(&model);
        if let Some(id) = bedrock_id(model).filter(|_| provider.is_none()) {
            return self.find_at(self.provider(AMAZON)?, id);
        }
        match provider {
            Some(name) => {
                let provider = self.provider(name)?;
                let own = || model.strip_prefix(&provider.id)?.strip_prefix('/');
                self.find_at(provider, model).or_else(|| self.find_at(provider, own()?))
            }
            None => self.find_by_prefix(model).or_else(|| {
                let claims =
                    |p: &&Provider| p.model_match.as_ref().is_some_and(|c| c.is_match(model));
                self.find_at(self.list().providers.iter().find(claims)?, model)
            }),
        }
    }

    /// Like [`PriceTable::find`]. If the list of OpenRouter no longer has a model, its vendor's price is used:
    /// OpenRouter passes that on, and drops retired models from its list.
    ///
    /// [`ModelPrice::provider_id`] then names the vendor. A marked edition (`:free`, `:batch`) has its own
    /// price and is never replaced.
    #[must_use]
    pub fn find_or_vendor(&self, provider: Option<&str>, model: &str) -> Option<ModelPrice<'_>> {
        self.find(provider, model).or_else(|| {
            let reseller = self.provider(provider?).filter(|found| found.id == RESELLER);
            let (vendor, rest) = model.trim().split_once('/').filter(|_| reseller.is_some())?;
            if rest.contains(':') { None } else { self.find(Some(vendor), rest) }
        })
    }

    /// Returns the known models whose names are most like `model`, best first, each by a name under which
    /// [`PriceTable::find`] finds that model of `provider`: `provider/model`, or the model's alone.
    #[must_use]
    pub fn nearest(&self, provider: Option<&str>, model: &str) -> Vec<String> {
        let model: String = model.to_lowercase().chars().take(MAX_NAME).collect();
        let only = provider.and_then(|name| self.provider(name)).map(|found| found.id.as_str());
        let bare = model.rsplit('/').next().unwrap_or(&model);
        let limit = bare.len() / 2;
        let letters: Vec<char> = bare.chars().collect();
        let mut near: Vec<(usize, &str, &str)> = self
            .models()
            .filter(|(provider, _)| only.is_none_or(|only| only == *provider))
            .map(|(provider, id)| {
                let known = id.rsplit('/').next().unwrap_or(id).to_lowercase();
                let known: Vec<char> = known.chars().collect();
                (edit_distance(&letters, &known), provider, id)
            })
            .filter(|(distance, ..)| *distance <= limit)
            .collect();
        // The sort is stable: among equals the order of the table stands.
        near.sort_by_key(|(distance, ..)| *distance);
        let names =
            near.into_iter().filter_map(|(_, seller, id)| self.name_of(provider, seller, id));
        names.take(MAX_HINTS).collect()
    }

    /// A name under which this model is found; `None` if each of them means another one.
    pub(crate) fn name_of(&self, provider: Option<&str>, seller: &str, id: &str) -> Option<String> {
        let is_it = |name: &String| {
            let found = self.find(provider, name);
            found.is_some_and(|found| found.provider_id() == seller && found.model_id() == id)
        };
        [format!("{seller}/{id}"), id.to_owned()].into_iter().find(is_it)
    }

    /// A provider by its id, or by the first rule that matches the name.
    pub(crate) fn provider(&self, name: &str) -> Option<&Provider> {
        if name.len() > MAX_NAME {
            return None;
        }
        let name = name.trim().to_lowercase();
        let name = match OTHER_NAMES.iter().find(|(other, _)| *other == name) {
            Some((_, id)) => id,
            None if name.starts_with(AZURE) => AZURE,
            None => name.as_str(),
        };
        self.list().providers.iter().find(|provider| provider.id == name).or_else(|| {
            let matches =
                |p: &&Provider| p.provider_match.as_ref().is_some_and(|c| c.is_match(name));
            self.list().providers.iter().find(matches)
        })
    }

    fn find_by_prefix(&self, model: &str) -> Option<ModelPrice<'_>> {
        let (vendor, rest) = model.split_once('/')?;
        self.find_at(self.provider(vendor)?, rest)
    }

    fn find_at<'t>(&'t self, provider: &'t Provider, model: &str) -> Option<ModelPrice<'t>> {
        self.match_at(provider, model).or_else(|| {
            let dashed = dashed_dates(model);
            if dashed == model { None } else { self.match_at(provider, &dashed) }
        })
    }

    fn match_at<'t>(&'t self, provider: &'t Provider, name: &str) -> Option<ModelPrice<'t>> {
        if let Some(model) = provider.model(name) {
            return Some(ModelPrice { provider, model, is_borrowed: false });
        }
        let others = provider.fallbacks.iter();
        let others =
            others.filter_map(|id| self.list().providers.iter().find(|other| other.id == *id));
        let model = others.filter_map(|other| other.model(name)).next()?;
        Some(ModelPrice { provider, model, is_borrowed: true })
    }
}

impl Provider {
    pub(crate) fn model(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.clause.is_match(name))
    }
}

/// The name without the prefix that says how the model was reached.
fn without_route(mut model: &str) -> &str {
    while let Some(rest) = ROUTES.iter().find_map(|route| model.strip_prefix(route)) {
        model = rest;
    }
    model
}

/// The id that Bedrock gives to a model, if the name is one or is the resource of one (`arn:aws:bedrock:..`).
fn bedrock_id(model: &str) -> Option<&str> {
    let id = match model.split_once(":bedrock:") {
        Some((partition, resource)) if partition.starts_with("arn:aws") => {
            resource.rsplit('/').next()?
        }
        _ => model,
    };
    let (first, rest) = id.split_once('.')?;
    let vendor = match REGIONS.contains(&first) {
        true => rest.split_once('.')?.0,
        false => first,
    };
    BEDROCK_VENDORS.contains(&vendor).then_some(id)
}

/// `gpt-5.2-20251211` as `gpt-5.2-2025-12-11`: gateways shorten dates that the data writes with dashes.
fn dashed_dates(name: &str) -> String {
    let Some((first, rest)) = name.split_once('-') else { return name.to_owned() };
    let rest: Vec<String> = rest.split('-').map(dashed_date).collect();
    format!("{first}-{}", rest.join("-"))
}

fn dashed_date(part: &str) -> String {
    // The date ends at a dash or a colon: `20251211:free`.
    let (digits, rest) = part.split_at_checked(8).unwrap_or((part, ""));
    let ends = rest.is_empty() || rest.starts_with(':');
    let is_date = digits.len() == 8 && digits.starts_with("20") && ends;
    let fields = || Some((digits.get(..4)?, digits.get(4..6)?, digits.get(6..)?));
    match fields().filter(|_| is_date) {
        Some((year, month, day)) => {
            let dashed = format!("{year}-{month}-{day}");
            if dashed.parse::<Date>().is_ok() { format!("{dashed}{rest}") } else { part.to_owned() }
        }
        None => part.to_owned(),
    }
}

#[cfg(test)]
mod tests;
