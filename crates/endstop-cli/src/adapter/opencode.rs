//! OpenCode reads the variables of OpenAI and Anthropic; Google's base URL is an option of its configuration.
//!
//! A separate file because each program has one: it changes with that program.

use serde_json::{Value, json};

use super::{Adaptation, Situation};

/// A configuration that is merged with the user's files.
const CONTENT: &str = "OPENCODE_CONFIG_CONTENT";
const PATH: [&str; 4] = ["provider", "google", "options", "baseURL"];

const GOOGLE_KEYS: [&str; 2] = ["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"];
const SCRIPTED_KEY: &str = "endstop-sim";

pub(super) fn adapt(situation: &Situation<'_>, adaptation: &mut Adaptation) {
    let is_google = adaptation.model.as_deref().is_some_and(|model| model.starts_with("google/"));
    let has_key = GOOGLE_KEYS.iter().any(|name| situation.variable(name).is_some());
    if situation.is_sim && is_google && !has_key {
        adaptation.set(GOOGLE_KEYS[0], SCRIPTED_KEY);
    }
    // A provider with options is one that OpenCode may take for its default model.
    if !is_google && !has_key && !has_login(situation) {
        return;
    }
    let base = format!("{}/v1beta", situation.base);
    let Some(own) = situation.variable(CONTENT) else {
        let mut config = json!({});
        super::insert(&mut config, &PATH, json!(base));
        adaptation.set(CONTENT, config.to_string());
        return;
    };
    match serde_json::from_str::<Value>(&own) {
        Ok(mut config) if config.is_object() => {
            if let Some(url) = config.pointer("/provider/google/options/baseURL") {
                let url = url.as_str().unwrap_or_default().trim_end_matches('/');
                let root = url.strip_suffix("/v1beta").unwrap_or(url).to_owned();
                adaptation.upstreams.insert("GOOGLE_GEMINI_BASE_URL", root);
            }
            super::insert(&mut config, &PATH, json!(base));
            adaptation.set_secret(CONTENT, config.to_string());
        }
        _ => adaptation.notes.push(format!(
            "{CONTENT} is no JSON object and stays as it is: calls of Google's models are not limited"
        )),
    }
}

/// Whether OpenCode keeps a key of Google's.
fn has_login(situation: &Situation<'_>) -> bool {
    let data = situation.user_directory("XDG_DATA_HOME", ".local/share");
    let login = data.and_then(|data| situation.json(&data.join("opencode/auth.json")));
    login.is_some_and(|login| login.get("google").is_some())
}
