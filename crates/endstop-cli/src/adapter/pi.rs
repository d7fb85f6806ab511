//! pi reads base URLs from `models.json` in its directory: it gets another directory, with links to everything else in
//! its own one.
//!
//! A separate file because each program has one: it changes with that program.

use serde_json::{Value, json};

use super::{Adaptation, InterceptEffect, Situation};

const DIRECTORY: &str = "PI_CODING_AGENT_DIR";
const MODELS: &str = "models.json";
/// Its providers, the version path of their base URLs, and the variable of their upstream.
const PROVIDERS: [(&str, &str, &str); 3] = [
    ("anthropic", "", "ANTHROPIC_BASE_URL"),
    ("openai", "/v1", "OPENAI_BASE_URL"),
    ("google", "/v1beta", "GOOGLE_GEMINI_BASE_URL"),
];

pub(super) fn adapt(situation: &Situation<'_>, adaptation: &mut Adaptation) {
    let Some(own) = situation.user_directory(DIRECTORY, ".pi/agent") else { return };
    let models = own.join(MODELS);
    let text = situation.read(&models);
    let mut config = match text.as_deref().map(serde_json::from_str::<Value>) {
        None => json!({}),
        Some(Ok(config)) if config.is_object() => config,
        Some(_) => {
            adaptation.goes_elsewhere(
                InterceptEffect::Unknown,
                format!("pi's `{}` cannot be read as JSON", models.display()),
                "remove the comments from it, or pass --no-adapter to run it as it is",
            );
            return;
        }
    };
    for (provider, version, variable) in PROVIDERS {
        let path = ["providers", provider, "baseUrl"];
        let before = config.pointer(&format!("/{}", path.join("/"))).and_then(Value::as_str);
        if let Some(before) = before {
            let base = before.trim_end_matches('/');
            // The upstream of OpenAI has its version, the others have none.
            let is_openai = provider == "openai";
            let base = if is_openai { base } else { base.strip_suffix(version).unwrap_or(base) };
            adaptation.upstreams.insert(variable, base.to_owned());
        }
        super::insert(&mut config, &path, json!(format!("{}{version}", situation.base)));
    }
    adaptation.file(situation, MODELS, config.to_string());
    let others = situation.host.entries(&own).into_iter().filter(|name| name != MODELS);
    adaptation.links = others.map(|name| (name.clone(), own.join(name))).collect();
    adaptation.set(DIRECTORY, situation.directory.to_string_lossy());
}
