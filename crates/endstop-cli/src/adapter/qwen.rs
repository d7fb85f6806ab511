//! Qwen Code reads `OPENAI_BASE_URL`, once it is to log in with a key.
//!
//! A separate file because each program has one: it changes with that program.

use serde_json::Value;

use super::{Account, Adaptation, InterceptEffect, OPENAI_BASE, Situation};

const LOGIN: &str = "openai";

pub(super) fn adapt(situation: &Situation<'_>, adaptation: &mut Adaptation) {
    let settings = situation
        .variable("HOME")
        .and_then(|home| situation.json(&std::path::Path::new(&home).join(".qwen/settings.json")));
    let of_settings = |path: &str| {
        settings.as_ref().and_then(|settings| settings.pointer(path)).and_then(Value::as_str)
    };
    let given = situation.option(&["--auth-type"]);
    let chosen = given.as_deref().or_else(|| of_settings("/security/auth/selectedType"));
    let model = of_settings("/model/name").map(str::to_owned);
    adaptation.model = adaptation.model.take().or(model);
    match chosen {
        Some("qwen-oauth") => {
            adaptation.account = Account::Login("Qwen");
            adaptation.goes_elsewhere(
                InterceptEffect::Unknown,
                "qwen uses a Qwen login, whose calls bypass the gateway",
                "pass `--auth-type openai` to qwen and set OPENAI_API_KEY",
            );
            return;
        }
        Some(_) => {}
        None => adaptation.arguments.extend(["--auth-type", LOGIN].map(str::to_owned)),
    }
    let is_openai = chosen.is_none_or(|chosen| chosen == LOGIN);
    if let Some(base) = of_settings("/security/auth/baseUrl").filter(|_| is_openai)
        && !situation.has_option(&["--openai-base-url"])
    {
        adaptation.upstreams.insert(OPENAI_BASE, base.to_owned());
        let pointed = format!("{}/v1", situation.base);
        adaptation.arguments.extend(["--openai-base-url".to_owned(), pointed]);
    }
    if of_settings("/security/auth/apiKey").is_some() && adaptation.account == Account::Missing {
        adaptation.account = Account::Login("key of settings.json");
    }
}
