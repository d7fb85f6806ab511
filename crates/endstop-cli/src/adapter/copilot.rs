//! GitHub Copilot CLI sends its calls to GitHub, unless variables set the user's own provider.
//!
//! A separate file because each program has one: it changes with that program.

use super::{Account, Adaptation, InterceptEffect, OPENAI_BASE, Situation};

const BASE: &str = "COPILOT_PROVIDER_BASE_URL";
const MODEL: &str = "COPILOT_MODEL";
const TYPE: &str = "COPILOT_PROVIDER_TYPE";
const TRANSPORT: &str = "COPILOT_PROVIDER_TRANSPORT";
/// The model of the scripted upstream, if the user names none: Copilot asks for one.
const SCRIPTED_MODEL: &str = "gpt-4o";

pub(super) fn adapt(situation: &Situation<'_>, adaptation: &mut Adaptation) {
    let own = situation.variable(BASE);
    let kind = situation.variable(TYPE).unwrap_or_else(|| "openai".to_owned());
    if own.is_none() && !situation.is_sim {
        adaptation.account = Account::Login("GitHub");
        adaptation.goes_elsewhere(
            InterceptEffect::Unknown,
            "copilot calls the models of GitHub, whose calls bypass the gateway",
            format!(
                "set {BASE}, COPILOT_PROVIDER_API_KEY and {MODEL} to use your own provider and key, or start it \
                 with `endstop run --intercept`"
            ),
        );
        return;
    }
    let base = situation.base;
    let (variable, pointed) = match kind.as_str() {
        "openai" => (OPENAI_BASE, format!("{base}/v1")),
        "anthropic" => ("ANTHROPIC_BASE_URL", base.to_owned()),
        _ => {
            adaptation.goes_elsewhere(
                InterceptEffect::Unknown,
                format!("copilot's provider is of the type `{kind}`, which cannot be limited"),
                format!("set {TYPE} to openai or anthropic"),
            );
            return;
        }
    };
    if let Some(own) = own {
        let own = own.trim_end_matches('/').to_owned();
        let is_messages = variable != OPENAI_BASE;
        let root = own.strip_suffix("/v1").filter(|_| is_messages).unwrap_or(&own);
        adaptation.upstreams.insert(variable, root.to_owned());
    }
    adaptation.set(BASE, pointed);
    if situation.variable(TRANSPORT).is_some_and(|transport| transport == "websockets") {
        adaptation.set(TRANSPORT, "http");
    }
    let names_model =
        adaptation.model.is_some() || situation.variable("COPILOT_PROVIDER_MODEL_ID").is_some();
    if situation.is_sim && !names_model {
        adaptation.set(MODEL, SCRIPTED_MODEL);
    }
}
