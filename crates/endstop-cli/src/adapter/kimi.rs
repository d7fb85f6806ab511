//! Kimi Code takes a model from variables; its login and its configuration have other addresses.
//!
//! A separate file because each program has one: it changes with that program.

use super::{Account, Adaptation, InterceptEffect, OPENAI_BASE, Situation};

const BASE: &str = "KIMI_MODEL_BASE_URL";
const MODEL: &str = "KIMI_MODEL_NAME";
const KEY: &str = "KIMI_MODEL_API_KEY";
const TYPE: &str = "KIMI_MODEL_PROVIDER_TYPE";
/// The model of the scripted upstream, if the user names none.
const SCRIPTED_MODEL: &str = "gpt-4o";
/// The types of providers that speak the API of OpenAI, and their base URLs if the user names none.
const PROVIDERS: [(&str, &str); 2] =
    [("kimi", "https://api.moonshot.ai/v1"), ("openai", "https://api.openai.com/v1")];

pub(super) fn adapt(situation: &Situation<'_>, adaptation: &mut Adaptation) {
    let model = situation.variable(MODEL);
    let chooses = situation.has_option(&["-m", "--model"]);
    if chooses || (model.is_none() && !situation.is_sim) {
        adaptation.account = Account::Login("Kimi");
        adaptation.goes_elsewhere(
            InterceptEffect::Unknown,
            "kimi uses its login or its configuration, whose calls bypass the gateway",
            format!("set {MODEL} and {KEY} to use a model by its key, without `--model`"),
        );
        return;
    }
    let kind = situation.variable(TYPE).unwrap_or_else(|| "kimi".to_owned());
    let Some((_, usual)) = PROVIDERS.iter().find(|(known, _)| *known == kind) else {
        adaptation.goes_elsewhere(
            InterceptEffect::Unknown,
            format!("kimi's provider is of the type `{kind}`, which cannot be limited"),
            format!("set {TYPE} to kimi or openai"),
        );
        return;
    };
    let own = situation.variable(BASE).unwrap_or_else(|| (*usual).to_owned());
    adaptation.upstreams.insert(OPENAI_BASE, own.trim_end_matches('/').to_owned());
    adaptation.set(BASE, format!("{}/v1", situation.base));
    if model.is_none() {
        adaptation.set(MODEL, SCRIPTED_MODEL);
        adaptation.model = Some(SCRIPTED_MODEL.to_owned());
    }
}
