//! Codex ignores `OPENAI_BASE_URL`: its model provider is named by flags.
//!
//! The provider is not called `OpenAI`, although Codex treats one of this name as its own: it would then shorten long
//! conversations by a special request (`/responses/compact`), which the gateway refuses where money is limited.

use std::path::Path;

use toml::{Table, Value};

use super::{Account, Adaptation, InterceptEffect, OPENAI_BASE, Situation, Unaided, plan};

/// The id of the provider that is added, and its name.
const PROVIDER: &str = "endstop";
/// The upstream of model calls with a ChatGPT login.
const CHATGPT: &str = "https://chatgpt.com/backend-api/codex";
/// The key that `codex exec` reads on its own. It reads the other one only for a provider that names it.
const OWN_KEY: &str = "CODEX_API_KEY";
const OPENAI_KEY: &str = "OPENAI_API_KEY";
const OPTIONS_OF_VALUES: [&str; 2] = ["-c", "--config"];

pub(super) fn adapt(situation: &Situation<'_>, adaptation: &mut Adaptation) {
    if situation.has_option(&["--oss"]) {
        adaptation.goes_elsewhere(
            InterceptEffect::Nothing,
            "codex --oss uses a model server on this machine",
            "drop --oss, or pass --no-adapter to run it as it is",
        );
        return;
    }
    let home = situation.user_directory("CODEX_HOME", ".codex");
    let config = home.as_deref().and_then(|home| situation.read(&home.join("config.toml")));
    let config: Table = config.and_then(|text| text.parse().ok()).unwrap_or_default();
    let text = |key: &str| config.get(key).and_then(Value::as_str).map(str::to_owned);
    adaptation.model =
        adaptation.model.take().or_else(|| given(situation, "model")).or_else(|| text("model"));
    let provider = given(situation, "model_provider").or_else(|| of_profile(situation, &config));
    match provider.or_else(|| text("model_provider")) {
        Some(id) if id != "openai" && !situation.is_sim => {
            point_provider(&id, &config, situation, adaptation);
        }
        _ => add_provider(home.as_deref(), situation, adaptation),
    }
}

/// Adds a provider that sends what Codex' own one would send.
fn add_provider(home: Option<&Path>, situation: &Situation<'_>, adaptation: &mut Adaptation) {
    let base = situation.base;
    let login = home.and_then(|home| situation.json(&home.join("auth.json")));
    let has_login = !matches!(login.as_ref().map(kind_of_login), Some(Login::Missing) | None);
    let has_own_key = situation.variable(OWN_KEY).is_some();
    let has_openai_key = situation.variable(OPENAI_KEY).is_some();
    // For the scripted model the key that Codex reads is set, if there is none.
    let gets_key = situation.is_sim && !has_openai_key;
    if !has_login && !has_own_key && !gets_key {
        adaptation.unaided = Some(Unaided {
            account: if situation.is_sim { Account::Scripted } else { Account::Missing },
            note: format!(
                "with --intercept codex does not read {OPENAI_KEY}; log in with `codex login`, or set {OWN_KEY} for \
                 `codex exec`"
            ),
        });
    }
    let key = match login.as_ref().map(kind_of_login) {
        _ if situation.is_sim && has_openai_key && !has_own_key => "env_key=\"OPENAI_API_KEY\"",
        _ if situation.is_sim => "env_key=\"CODEX_API_KEY\"",
        Some(Login::ChatGpt) => {
            adaptation.account = Account::Login("ChatGPT");
            adaptation.plan = login.as_ref().and_then(plan::of_chatgpt);
            adaptation.upstreams.insert(OPENAI_BASE, CHATGPT.to_owned());
            "requires_openai_auth=true"
        }
        Some(Login::Key) => {
            adaptation.account = Account::Login("API key of `codex login`");
            "requires_openai_auth=true"
        }
        Some(Login::Missing) | None if has_own_key => "env_key=\"CODEX_API_KEY\"",
        Some(Login::Missing) | None if adaptation.account != Account::Missing => {
            "env_key=\"OPENAI_API_KEY\""
        }
        Some(Login::Missing) | None => {
            adaptation.notes.push(
                "codex has no login and no OPENAI_API_KEY; log in with `codex login`, then start it again"
                    .to_owned(),
            );
            "requires_openai_auth=true"
        }
    };
    let table = format!(
        "model_providers.{PROVIDER}={{name=\"Endstop\",base_url=\"{base}/v1\",wire_api=\"responses\",{key}}}"
    );
    let provider = format!("model_provider={PROVIDER}");
    adaptation.arguments = ["-c", &provider, "-c", &table].map(str::to_owned).to_vec();
}

/// Points a provider of the user's at the gateway, which sends its calls on to where they went before.
fn point_provider(
    id: &str,
    config: &Table,
    situation: &Situation<'_>,
    adaptation: &mut Adaptation,
) {
    let own = config.get("model_providers").and_then(|all| all.get(id));
    let base = own.and_then(|own| own.get("base_url")).and_then(Value::as_str);
    let has_plain_id = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let Some(base) = base.filter(|_| has_plain_id) else {
        adaptation.goes_elsewhere(
            InterceptEffect::Unknown,
            format!(
                "codex uses the model provider `{id}`, whose address is not in its config.toml"
            ),
            "pass `-c model_provider=openai` to codex, or --no-adapter to run it as it is",
        );
        return;
    };
    adaptation.upstreams.insert(OPENAI_BASE, base.to_owned());
    adaptation.account = Account::Login("model provider of config.toml");
    let pointed = format!("model_providers.{id}.base_url=\"{}/v1\"", situation.base);
    adaptation.arguments = vec!["-c".to_owned(), pointed];
}

/// The value of the last `-c KEY=VALUE` on the command line.
fn given(situation: &Situation<'_>, key: &str) -> Option<String> {
    let words: Vec<&str> = situation.arguments.iter().map_while(|word| word.to_str()).collect();
    let after = words.windows(2).filter_map(|pair| match pair {
        [option, value] if OPTIONS_OF_VALUES.contains(option) => Some(*value),
        _ => None,
    });
    let joined = words.iter().filter_map(|word| word.strip_prefix("--config="));
    let mut values = after.chain(joined).filter_map(|value| value.split_once('='));
    let value = values.rfind(|(name, _)| name.trim() == key)?.1;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

/// The model provider of the profile that is chosen.
fn of_profile(situation: &Situation<'_>, config: &Table) -> Option<String> {
    let named = situation.option(&["-p", "--profile"]);
    let name =
        named.or_else(|| config.get("profile").and_then(Value::as_str).map(str::to_owned))?;
    let profile = config.get("profiles")?.get(name.as_str())?;
    profile.get("model_provider")?.as_str().map(str::to_owned)
}

enum Login {
    ChatGpt,
    Key,
    Missing,
}

/// The kind of login in `auth.json`. Only the presence of its secrets is checked; they are not kept.
fn kind_of_login(login: &serde_json::Value) -> Login {
    let has_key = login
        .get("OPENAI_API_KEY")
        .and_then(serde_json::Value::as_str)
        .is_some_and(|key| !key.is_empty());
    let has_tokens = login.get("tokens").is_some_and(serde_json::Value::is_object);
    match login.get("auth_mode").and_then(serde_json::Value::as_str) {
        Some("chatgpt") if has_tokens => Login::ChatGpt,
        _ if has_key => Login::Key,
        _ if has_tokens => Login::ChatGpt,
        _ => Login::Missing,
    }
}
