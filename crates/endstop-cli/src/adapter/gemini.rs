//! Gemini CLI takes `GOOGLE_GEMINI_BASE_URL` for a way to log in that its own check rejects (exit code 41), unless its
//! settings name another. The lowest layer of its settings does, so that the user's own settings still win.
//!
//! A separate file because each program has one: it changes with that program.

use serde_json::{Value, json};

use super::{Account, Adaptation, InterceptEffect, Situation};

const DEFAULTS: &str = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";
const KEY_LOGIN: &str = "gemini-api-key";

pub(super) fn adapt(situation: &Situation<'_>, adaptation: &mut Adaptation) {
    let home = situation.user_directory("GEMINI_CLI_HOME", "").map(|home| home.join(".gemini"));
    let settings = home.and_then(|home| situation.json(&home.join("settings.json")));
    let chosen = settings.as_ref().and_then(selected).unwrap_or_default().to_owned();
    let is_vertex = chosen == "vertex-ai" || situation.is_on("GOOGLE_GENAI_USE_VERTEXAI");
    if is_vertex {
        adaptation.account = Account::Login("Vertex AI");
        adaptation.goes_elsewhere(
            InterceptEffect::Unknown,
            "gemini uses Vertex AI (GOOGLE_GENAI_USE_VERTEXAI, or its settings), whose calls bypass the gateway",
            "unset GOOGLE_GENAI_USE_VERTEXAI, set GEMINI_API_KEY, and choose `Use Gemini API Key` by /auth",
        );
        return;
    }
    if (!chosen.is_empty() && chosen != KEY_LOGIN) || situation.is_on("GOOGLE_GENAI_USE_GCA") {
        adaptation.account = Account::Login("Google");
        adaptation.goes_elsewhere(
            InterceptEffect::Nothing,
            "gemini uses a Google login, whose calls bypass the gateway",
            "set GEMINI_API_KEY, and choose `Use Gemini API Key` by /auth",
        );
        return;
    }
    let own = situation.variable(DEFAULTS);
    let own = own.and_then(|file| situation.json(std::path::Path::new(&file)));
    let mut defaults = own.filter(Value::is_object).unwrap_or_else(|| json!({}));
    if selected(&defaults).is_none() {
        super::insert(&mut defaults, &["security", "auth", "selectedType"], json!(KEY_LOGIN));
    }
    let file = adaptation.file(situation, "gemini-defaults.json", defaults.to_string());
    adaptation.set(DEFAULTS, file);
}

fn selected(settings: &Value) -> Option<&str> {
    settings.pointer("/security/auth/selectedType")?.as_str()
}
