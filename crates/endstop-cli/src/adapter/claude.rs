//! Claude Code reads `ANTHROPIC_BASE_URL`. Its settings and its logins can lead calls elsewhere.

use serde_json::{Value, json};

use super::{Account, Adaptation, InterceptEffect, Situation, plan};

const BASE: &str = "ANTHROPIC_BASE_URL";
/// Switches to platforms with their own paths and signatures.
const PLATFORMS: [(&str, &str, InterceptEffect); 3] = [
    // Calls in the forms of these two are refused by name.
    ("CLAUDE_CODE_USE_BEDROCK", "Amazon Bedrock", InterceptEffect::Nothing),
    ("CLAUDE_CODE_USE_VERTEX", "Vertex AI", InterceptEffect::Nothing),
    ("CLAUDE_CODE_USE_FOUNDRY", "Microsoft Foundry", InterceptEffect::Unknown),
];

pub(super) fn adapt(situation: &Situation<'_>, adaptation: &mut Adaptation) {
    let home = situation.user_directory("CLAUDE_CONFIG_DIR", ".claude");
    let settings = home.as_deref().and_then(|home| situation.json(&home.join("settings.json")));
    // These take precedence over the environment that the program starts with.
    let of_settings = |name: &str| {
        let value = settings.as_ref()?.get("env")?.get(name)?.as_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    };
    let is_on = |name: &str| match of_settings(name) {
        Some(value) => !["0", "false", "no", "off"].contains(&value.as_str()),
        None => situation.is_on(name),
    };
    if let Some((name, title, intercepted)) = PLATFORMS.into_iter().find(|(name, _, _)| is_on(name))
    {
        adaptation.account = Account::Login(title);
        adaptation.goes_elsewhere(
            intercepted,
            format!("claude uses {title} ({name}), whose calls bypass the gateway"),
            format!("unset {name} and set ANTHROPIC_API_KEY"),
        );
        return;
    }
    let model = settings.as_ref().and_then(|settings| settings.get("model")?.as_str());
    adaptation.model = adaptation.model.take().or_else(|| model.map(str::to_owned));
    if let Some(base) = of_settings(BASE) {
        if situation.has_option(&["--settings"]) {
            adaptation.goes_elsewhere(
                InterceptEffect::Unknown,
                format!("claude's settings.json sets {BASE}, and it is called with --settings"),
                format!("remove {BASE} from settings.json and set it in the environment"),
            );
            return;
        }
        adaptation.upstreams.insert(BASE, base);
        let pointed = json!({ "env": { BASE: situation.base } });
        adaptation.arguments = vec!["--settings".to_owned(), pointed.to_string()];
    }
    let has_key = super::ANTHROPIC_KEYS.iter().any(|name| of_settings(name).is_some());
    if has_key {
        adaptation.account = Account::Login("key of settings.json");
    }
    let login = home.and_then(|home| situation.json(&home.join(".credentials.json")));
    let has_login = login
        .as_ref()
        .is_some_and(|login| login.get("claudeAiOauth").is_some_and(Value::is_object));
    if adaptation.account == Account::Missing
        && (has_login || situation.variable("CLAUDE_CODE_OAUTH_TOKEN").is_some())
    {
        adaptation.account = Account::Login("Claude subscription");
        // A token in the environment can be of another account.
        let has_token = situation.variable("CLAUDE_CODE_OAUTH_TOKEN").is_some();
        adaptation.plan = login.as_ref().filter(|_| !has_token).and_then(plan::of_claude);
        adaptation.notes.push(
            "with a subscription, claude shows no usage meter and has no 1M context behind another base URL; \
             `endstop run --intercept` keeps its own"
                .to_owned(),
        );
    }
}
