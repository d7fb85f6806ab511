//! Continue's `cn` reads base URLs from its configuration. Without one it gets one; the user's configuration stays as it is.
//!
//! A separate file because each program has one: it changes with that program.

use serde_json::json;

use super::{Adaptation, InterceptEffect, Situation};

/// Providers whose API is read: what Continue calls them, their key, a model, and the version path of their base URLs.
const PROVIDERS: [(&str, &str, &str, &str); 2] = [
    ("anthropic", "ANTHROPIC_API_KEY", "claude-sonnet-4-6", "/v1"),
    ("openai", "OPENAI_API_KEY", "gpt-4o", "/v1"),
];
const SCRIPTED_KEY: &str = "endstop-sim";

pub(super) fn adapt(situation: &Situation<'_>, adaptation: &mut Adaptation) {
    let home = situation.user_directory("CONTINUE_GLOBAL_DIR", ".continue");
    let own = home.map(|home| home.join("config.yaml"));
    let has_own = own.is_some_and(|own| situation.read(&own).is_some());
    if has_own || situation.has_option(&["--config", "--agent", "--model"]) {
        adaptation.goes_elsewhere(
            InterceptEffect::Unknown,
            "cn uses its own configuration, whose calls bypass the gateway",
            "give its models the `apiBase` of `endstop serve`, start it with `endstop run --intercept`, or pass \
             --no-adapter to run it as it is",
        );
        return;
    }
    let key = |name: &str| situation.variable(name);
    let row = PROVIDERS.iter().find(|row| key(row.1).is_some());
    let row = row.or_else(|| PROVIDERS.first().filter(|_| situation.is_sim));
    let Some((provider, variable, model, version)) = row else {
        adaptation.goes_elsewhere(
            InterceptEffect::Unknown,
            "cn uses a login of Continue, whose calls bypass the gateway",
            "set ANTHROPIC_API_KEY or OPENAI_API_KEY",
        );
        return;
    };
    adaptation.model = adaptation.model.take().or_else(|| Some((*model).to_owned()));
    let entry = json!({
        "name": model,
        "provider": provider,
        "model": model,
        "apiKey": key(variable).unwrap_or_else(|| SCRIPTED_KEY.to_owned()),
        "apiBase": format!("{}{version}", situation.base),
        "roles": ["chat"],
        "capabilities": ["tool_use"],
    });
    let config =
        json!({ "name": "Endstop", "version": "1.0.0", "schema": "v1", "models": [entry] });
    // JSON is YAML.
    let file = adaptation.file(situation, "continue.yaml", config.to_string());
    adaptation.arguments.extend(["--config".to_owned(), file]);
}
