//! Cline reads base URLs from its file of providers: it gets a copy of that in another place.

use serde_json::{Value, json};

use super::{Account, Adaptation, InterceptEffect, OPENAI_BASE, Situation};

const FILE: &str = "CLINE_PROVIDER_SETTINGS_PATH";
/// The providers whose API is read: what Cline calls them, their key, their model for the scripted upstream, the version path of
/// their base URLs, and the variable of their upstream.
const PROVIDERS: [(&str, &str, &str, &str, &str); 2] = [
    ("anthropic", "ANTHROPIC_API_KEY", "claude-sonnet-4-6", "/v1", "ANTHROPIC_BASE_URL"),
    ("openai-native", "OPENAI_API_KEY", "gpt-4o", "/v1", OPENAI_BASE),
];
const SCRIPTED_KEY: &str = "endstop-sim";

pub(super) fn adapt(situation: &Situation<'_>, adaptation: &mut Adaptation) {
    let own = situation.variable(FILE).map(std::path::PathBuf::from).or_else(|| {
        let data = situation.option(&["--data-dir"]).map(std::path::PathBuf::from);
        let data = data
            .or_else(|| situation.user_directory("CLINE_DIR", ".cline").map(|at| at.join("data")));
        data.map(|data| data.join("settings/providers.json"))
    });
    let settings = own.and_then(|file| situation.json(&file)).filter(Value::is_object);
    let wanted = situation.option(&["-P", "--provider"]);
    let last = settings.as_ref().and_then(|settings| settings.get("lastUsedProvider")?.as_str());
    let wanted = wanted.or_else(|| last.map(str::to_owned));
    let chosen = match wanted.as_deref() {
        Some(id) => PROVIDERS.iter().find(|row| row.0 == id),
        None => {
            PROVIDERS.iter().find(|row| situation.is_sim || situation.variable(row.1).is_some())
        }
    };
    let Some((provider, key, scripted_model, version, variable)) = chosen.copied() else {
        goes_elsewhere(adaptation, wanted.as_deref().unwrap_or("cline"));
        return;
    };
    let mut settings =
        settings.unwrap_or_else(|| json!({ "version": 1, "modes": {}, "providers": {} }));
    let own = ["providers", provider, "settings"];
    let read = |settings: &Value, name: &str| {
        let value = settings.pointer(&format!("/{}/{name}", own.join("/")))?.as_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    };
    if let Some(before) = read(&settings, "baseUrl") {
        let before = before.trim_end_matches('/').to_owned();
        let is_openai = variable == OPENAI_BASE;
        let base = before.strip_suffix(version).filter(|_| !is_openai).unwrap_or(&before);
        adaptation.upstreams.insert(variable, base.to_owned());
    }
    // Without these Cline does not read an entry.
    let entry = ["providers", provider];
    for (name, value) in [("updatedAt", "2026-01-01T00:00:00.000Z"), ("tokenSource", "manual")] {
        if settings.pointer(&format!("/providers/{provider}/{name}")).is_none() {
            super::insert(&mut settings, &[&entry[..], &[name]].concat(), json!(value));
        }
    }
    let mut put = |name: &str, value: String| {
        super::insert(&mut settings, &[&own[..], &[name]].concat(), json!(value));
    };
    put("provider", provider.to_owned());
    put("baseUrl", format!("{}{version}", situation.base));
    if read(&settings, "apiKey").is_some() {
        adaptation.account = Account::Login("key of Cline");
    } else if let Some(key) =
        situation.variable(key).or_else(|| situation.is_sim.then(|| SCRIPTED_KEY.to_owned()))
    {
        super::insert(&mut settings, &[&own[..], &["apiKey"]].concat(), json!(key));
    }
    if situation.is_sim && read(&settings, "model").is_none() {
        super::insert(&mut settings, &[&own[..], &["model"]].concat(), json!(scripted_model));
    }
    adaptation.model = adaptation.model.take().or_else(|| read(&settings, "model"));
    super::insert(&mut settings, &["lastUsedProvider"], json!(provider));
    let file = adaptation.file(situation, "cline-providers.json", settings.to_string());
    adaptation.set(FILE, file);
}

/// Cline calls a provider whose API is not read.
fn goes_elsewhere(adaptation: &mut Adaptation, id: &str) {
    adaptation.account = Account::Login("provider of Cline");
    adaptation.goes_elsewhere(
        // They can be at any address, and no test has tried a login of Cline with it.
        InterceptEffect::Unknown,
        format!("cline uses its provider `{id}`, whose calls bypass the gateway"),
        "choose anthropic or openai-native with `cline auth`, start it with `endstop run --intercept`, or pass \
         --no-adapter to run it as it is",
    );
}
