//! Grok CLI reads its own variable for a base URL.
//!
//! A separate file because each program has one: it changes with that program.

use std::path::Path;

use super::{Account, Adaptation, InterceptEffect, OPENAI_BASE, Situation};

const BASE: &str = "GROK_BASE_URL";
const KEY: &str = "GROK_API_KEY";
/// The base URL of xAI, which the program calls if nothing else is set.
const XAI: &str = "https://api.x.ai/v1";

pub(super) fn adapt(situation: &Situation<'_>, adaptation: &mut Adaptation) {
    if situation.has_option(&["-u", "--base-url"]) {
        adaptation.goes_elsewhere(
            InterceptEffect::Unknown,
            "grok is given a base URL, whose calls bypass the gateway",
            format!("set {BASE} in place of the flag"),
        );
        return;
    }
    let settings = situation
        .variable("HOME")
        .and_then(|home| situation.json(&Path::new(&home).join(".grok/user-settings.json")));
    let of_settings = |name: &str| {
        let value = settings.as_ref().and_then(|settings| settings.get(name)?.as_str());
        value.filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let own = situation.variable(BASE).or_else(|| of_settings("baseURL"));
    let own = own.unwrap_or_else(|| XAI.to_owned());
    adaptation.upstreams.insert(OPENAI_BASE, own.trim_end_matches('/').to_owned());
    adaptation.set(BASE, format!("{}/v1", situation.base));
    if of_settings("apiKey").is_some() && adaptation.account == Account::Missing {
        adaptation.account = Account::Login("key of user-settings.json");
    }
    if situation.has_option(&["-k", "--api-key"]) && adaptation.account == Account::Missing {
        adaptation.account = Account::Key(KEY);
    }
}
