//! The additions of each adapter, on machines with and without settings of the user.

use serde_json::{Value, json};

use super::*;

const BASE: &str = "http://127.0.0.1:9";
const HOME: &str = "/u";

/// A machine with these variables and files.
#[derive(Default)]
struct FakeHost {
    variables: Vec<(&'static str, &'static str)>,
    files: Vec<(&'static str, String)>,
}

impl FakeHost {
    fn with(variables: &[(&'static str, &'static str)]) -> Self {
        Self { variables: variables.to_vec(), files: Vec::new() }
    }

    fn file(mut self, path: &'static str, text: impl ToString) -> Self {
        self.files.push((path, text.to_string()));
        self
    }

    fn adapt(&self, line: &str, is_sim: bool) -> Adaptation {
        let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let invocation = Invocation::of(&command).unwrap();
        invocation.adapt(self, BASE, Path::new("/run/private"), is_sim)
    }

    fn real(&self, line: &str) -> Adaptation {
        self.adapt(line, false)
    }
}

impl Host for FakeHost {
    fn variable(&self, name: &str) -> Option<String> {
        let found = self.variables.iter().find(|(known, _)| *known == name);
        let home = (name == "HOME").then(|| HOME.to_owned());
        found.map(|(_, value)| (*value).to_owned()).or(home)
    }

    fn read(&self, file: &Path) -> Option<String> {
        let found = self.files.iter().find(|(known, _)| Path::new(known) == file);
        found.map(|(_, text)| text.clone())
    }

    fn entries(&self, directory: &Path) -> Vec<OsString> {
        let names =
            self.files.iter().filter_map(|(path, _)| Path::new(path).strip_prefix(directory).ok());
        names.filter_map(|path| path.iter().next()).map(OsString::from).collect()
    }
}

fn file(adaptation: &Adaptation) -> Value {
    let [(_, text)] = adaptation.files.as_slice() else { panic!("{adaptation:?}") };
    serde_json::from_str(text).unwrap()
}

fn where_to(adaptation: &Adaptation) -> &str {
    &adaptation.elsewhere.as_ref().unwrap_or_else(|| panic!("{adaptation:?}")).what
}

/// The provider of Codex with this way to log in.
fn provider(login: &str) -> String {
    format!(
        "-c model_provider=endstop -c model_providers.endstop={{name=\"Endstop\",base_url=\"{BASE}/v1\",\
         wire_api=\"responses\",{login}}}"
    )
}

#[test]
fn flags_go_before_the_programs_own() {
    let command: Vec<OsString> =
        ["npx", "@openai/codex", "exec", "-c", "a=b"].map(OsString::from).to_vec();
    let invocation = Invocation::of(&command).unwrap();
    let adaptation =
        Adaptation { arguments: vec!["-c".to_owned(), "x=y".to_owned()], ..Adaptation::default() };
    let with = invocation.with(&command, &adaptation);
    assert_eq!(
        with,
        ["npx", "@openai/codex", "-c", "x=y", "exec", "-c", "a=b"].map(OsString::from)
    );
    assert_eq!(invocation.with(&command, &Adaptation::default()), command);
}

#[test]
fn codex_gets_a_provider_for_the_key_that_it_has() {
    let key = FakeHost::with(&[("OPENAI_API_KEY", "sk-secret")]).real("codex exec go");
    assert_eq!(key.arguments.join(" "), provider("env_key=\"OPENAI_API_KEY\""));
    assert_eq!((key.account, key.upstreams.len()), (Account::Key("OPENAI_API_KEY"), 0));
    let key = FakeHost::with(&[("CODEX_API_KEY", "sk-secret")]).real("codex exec go");
    assert_eq!(key.arguments.join(" "), provider("env_key=\"CODEX_API_KEY\""));
    let before = FakeHost::default().real("env OPENAI_API_KEY=sk-secret codex exec go");
    assert_eq!(before.arguments.join(" "), provider("env_key=\"OPENAI_API_KEY\""));
    let none = FakeHost::default().real("codex exec go");
    assert_eq!((none.account, none.notes.len()), (Account::Missing, 1));
    let sim = FakeHost::default().adapt("codex exec go", true);
    assert_eq!(sim.arguments.join(" "), provider("env_key=\"CODEX_API_KEY\""));
    let sim = FakeHost::with(&[("OPENAI_API_KEY", "sk-secret")]).adapt("codex exec go", true);
    assert_eq!(sim.arguments.join(" "), provider("env_key=\"OPENAI_API_KEY\""));
}

/// It reads the other key only for a provider that names it.
#[test]
fn codex_without_additions_needs_its_own_key_or_a_login() {
    let bare = |host: &FakeHost, is_sim| {
        let without = host.adapt("codex exec go", is_sim).without_additions();
        (without.account, without.notes.len())
    };
    let openai = FakeHost::with(&[("OPENAI_API_KEY", "k")]);
    assert_eq!(bare(&openai, false), (Account::Missing, 1));
    assert_eq!(bare(&openai, true), (Account::Scripted, 1));
    assert_eq!(bare(&FakeHost::default(), false), (Account::Missing, 1));
    assert_eq!(bare(&FakeHost::default(), true), (Account::Scripted, 0));
    let both = FakeHost::with(&[("OPENAI_API_KEY", "k"), ("CODEX_API_KEY", "k")]);
    assert_eq!(bare(&both, false), (Account::Key("CODEX_API_KEY"), 0));
    let login = openai.file("/u/.codex/auth.json", json!({ "OPENAI_API_KEY": "k" }));
    assert_eq!(bare(&login, false), (Account::Login("API key of `codex login`"), 0));
    let note = FakeHost::default().real("codex").without_additions().notes.remove(0);
    assert!(note.contains("CODEX_API_KEY") && note.contains("codex login"), "{note}");
}

/// A key in the environment, which Codex does not read then, changes nothing.
#[test]
fn a_login_of_codex_goes_to_the_upstream_of_the_login() {
    let login = json!({ "auth_mode": "chatgpt", "OPENAI_API_KEY": null, "tokens": { "access_token": "secret" } });
    let host =
        FakeHost::with(&[("OPENAI_API_KEY", "sk-secret")]).file("/u/.codex/auth.json", &login);
    let chatgpt = host.real("codex exec go");
    assert_eq!(chatgpt.arguments.join(" "), provider("requires_openai_auth=true"));
    assert_eq!(chatgpt.upstreams["OPENAI_BASE_URL"], "https://chatgpt.com/backend-api/codex");
    assert_eq!(chatgpt.account, Account::Login("ChatGPT"));
    assert!(!format!("{chatgpt:?}").contains("secret"));
    let sim = host.adapt("codex exec go", true);
    assert_eq!((sim.upstreams.len(), sim.account), (0, Account::Scripted));
    let key = FakeHost::default()
        .file("/u/.codex/auth.json", json!({ "OPENAI_API_KEY": "sk-secret" }))
        .real("codex");
    assert_eq!(key.arguments.join(" "), provider("requires_openai_auth=true"));
    assert_eq!(key.upstreams.len(), 0);
}

#[test]
fn a_provider_of_codex_own_settings_is_pointed_at_the_gateway() {
    let config = "model = \"m1\"\nmodel_provider = \"corp\"\n[model_providers.corp]\nbase_url = \"https://corp/v1\"\n\
                  [profiles.p]\nmodel_provider = \"other\"\n";
    let host = FakeHost::default().file("/u/.codex/config.toml", config);
    let corp = host.real("codex exec go");
    assert_eq!(corp.arguments, ["-c", &format!("model_providers.corp.base_url=\"{BASE}/v1\"")]);
    assert_eq!(corp.upstreams["OPENAI_BASE_URL"], "https://corp/v1");
    assert_eq!(corp.model.as_deref(), Some("m1"));
    // The command line wins.
    let openai = host.real("codex -c model_provider=\"openai\" -m m2 exec go");
    assert_eq!((openai.upstreams.len(), openai.model.as_deref()), (0, Some("m2")));
    assert!(where_to(&host.real("codex --profile p")).contains("`other`"));
    assert!(where_to(&host.real("codex --config=model_provider=x")).contains("`x`"));
    assert!(where_to(&host.real("codex --oss")).contains("--oss"));
}

#[test]
fn gemini_gets_a_login_below_the_users_settings() {
    const DEFAULTS: &str = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";
    let key = FakeHost::with(&[("GEMINI_API_KEY", "secret")]).real("gemini -p go");
    assert_eq!(key.variables[DEFAULTS].value, "/run/private/gemini-defaults.json");
    let wanted = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } });
    assert_eq!(file(&key), wanted);
    let own = FakeHost::with(&[(DEFAULTS, "/etc/g.json")])
        .file("/etc/g.json", json!({ "a": 1, "security": { "auth": { "x": 2 } } }))
        .real("gemini");
    let wanted =
        json!({ "a": 1, "security": { "auth": { "x": 2, "selectedType": "gemini-api-key" } } });
    assert_eq!(file(&own), wanted);
}

/// It would end with exit code 41.
#[test]
fn every_other_command_gets_settings_for_a_gemini_that_it_may_start() {
    let started = |host: &FakeHost, starter| {
        Adaptation::of_started_gemini(starter, host, Path::new("/run/private"))
    };
    let host = FakeHost::default();
    for starter in [None, Some("claude")] {
        let settings = started(&host, starter).unwrap();
        assert_eq!(file(&settings)["security"]["auth"]["selectedType"], "gemini-api-key");
        let path = "/run/private/gemini-defaults.json";
        assert_eq!(settings.values()["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"], path);
    }
    assert!(started(&host, Some("gemini")).is_none());
    let settings = json!({ "security": { "auth": { "selectedType": "oauth-personal" } } });
    let login = FakeHost::default().file("/u/.gemini/settings.json", settings);
    assert!(started(&login, None).is_none());
}

#[test]
fn other_logins_of_gemini_go_elsewhere() {
    let settings = |kind: &str| json!({ "security": { "auth": { "selectedType": kind } } });
    let with = |kind| FakeHost::default().file("/u/.gemini/settings.json", settings(kind));
    assert!(where_to(&with("oauth-personal").real("gemini")).contains("Google login"));
    assert!(where_to(&with("vertex-ai").real("gemini")).contains("Vertex AI"));
    assert!(with("gemini-api-key").real("gemini").elsewhere.is_none());
    let vertex = FakeHost::with(&[("GOOGLE_GENAI_USE_VERTEXAI", "true")]).real("gemini");
    assert!(where_to(&vertex).contains("GOOGLE_GENAI_USE_VERTEXAI"));
    let off = FakeHost::with(&[("GOOGLE_GENAI_USE_VERTEXAI", "false")]).real("gemini");
    assert!(off.elsewhere.is_none());
}

#[test]
fn claude_on_a_cloud_platform_goes_elsewhere_and_says_what_to_do() {
    for (variable, title) in
        [("CLAUDE_CODE_USE_BEDROCK", "Amazon Bedrock"), ("CLAUDE_CODE_USE_VERTEX", "Vertex AI")]
    {
        let host = FakeHost::with(&[(variable, "1"), ("ANTHROPIC_API_KEY", "secret")]);
        let elsewhere = host.real("claude -p go").elsewhere.unwrap();
        assert!(elsewhere.what.contains(title) && elsewhere.what.contains(variable));
        assert!(elsewhere.hint.contains("ANTHROPIC_API_KEY"), "{elsewhere:?}");
        assert!(FakeHost::with(&[(variable, "0")]).real("claude").elsewhere.is_none());
        let settings = json!({ "env": { variable: "1" } });
        let of_file = FakeHost::default().file("/u/.claude/settings.json", settings);
        assert!(of_file.real("claude").elsewhere.is_some());
    }
}

#[test]
fn claude_with_a_subscription_is_told_what_it_loses() {
    let login = json!({ "claudeAiOauth": { "accessToken": "secret", "subscriptionType": "max" } });
    let host = FakeHost::default().file("/u/.claude/.credentials.json", login);
    let subscribed = host.real("claude");
    assert_eq!(subscribed.account, Account::Login("Claude subscription"));
    assert_eq!(subscribed.plan.as_deref(), Some("max"));
    assert_eq!(host.real("claude").without_additions().plan.as_deref(), Some("max"));
    assert!(subscribed.notes[0].contains("no usage meter") && subscribed.notes[0].contains("1M"));
    assert!(subscribed.notes[0].contains("`endstop run --intercept`"));
    let token = FakeHost::with(&[("CLAUDE_CODE_OAUTH_TOKEN", "secret")]).real("claude");
    assert_eq!((token.notes.len(), token.plan), (1, None));
    let key = FakeHost::with(&[("ANTHROPIC_API_KEY", "secret")]).real("claude");
    assert_eq!((key.account, key.notes.len()), (Account::Key("ANTHROPIC_API_KEY"), 0));
}

/// Its settings take precedence over the environment.
#[test]
fn a_base_url_in_claudes_settings_becomes_the_upstream() {
    let settings = json!({ "model": "opus", "env": { "ANTHROPIC_BASE_URL": "https://corp" } });
    let host = FakeHost::default().file("/u/.claude/settings.json", settings);
    let pointed = host.real("claude -p go");
    let wanted = json!({ "env": { "ANTHROPIC_BASE_URL": BASE } }).to_string();
    assert_eq!(pointed.arguments, ["--settings", &wanted]);
    assert_eq!(pointed.upstreams["ANTHROPIC_BASE_URL"], "https://corp");
    assert_eq!(pointed.model.as_deref(), Some("opus"));
    assert!(host.real("claude --settings x.json").elsewhere.is_some());
}

#[test]
fn opencode_gets_an_address_of_google_only_if_it_uses_google() {
    const CONTENT: &str = "OPENCODE_CONFIG_CONTENT";
    let wanted =
        json!({ "provider": { "google": { "options": { "baseURL": format!("{BASE}/v1beta") } } } });
    let content = |adaptation: &Adaptation| -> Value {
        serde_json::from_str(&adaptation.variables[CONTENT].value).unwrap()
    };
    let none = FakeHost::with(&[("ANTHROPIC_API_KEY", "secret")]).real("opencode run go");
    assert!(none.variables.is_empty());
    let key = FakeHost::with(&[("GEMINI_API_KEY", "secret")]).real("opencode run go");
    assert_eq!(content(&key), wanted);
    let login = FakeHost::default()
        .file("/u/.local/share/opencode/auth.json", json!({ "google": { "key": "secret" } }));
    assert_eq!(content(&login.real("opencode")), wanted);
    let sim = FakeHost::default().adapt("opencode run -m google/gemini-2.5-pro go", true);
    assert_eq!(sim.variables["GOOGLE_GENERATIVE_AI_API_KEY"].value, "endstop-sim");
    assert_eq!(content(&sim), wanted);

    let own = r#"{"theme":"x","provider":{"google":{"options":{"baseURL":"https://corp/v1beta","apiKey":"secret"}}}}"#;
    let merged = FakeHost::with(&[("GEMINI_API_KEY", "k"), (CONTENT, own)]).real("opencode");
    assert_eq!(content(&merged)["theme"], "x");
    assert_eq!(content(&merged).pointer("/provider/google/options/apiKey").unwrap(), "secret");
    assert_eq!(merged.upstreams["GOOGLE_GEMINI_BASE_URL"], "https://corp");
    assert!(merged.in_words().iter().all(|line| !line.contains("secret")), "{merged:?}");
    let broken = FakeHost::with(&[("GEMINI_API_KEY", "k"), (CONTENT, "// x")]).real("opencode");
    assert_eq!((broken.variables.len(), broken.notes.len()), (0, 1));
}

#[test]
fn pi_gets_a_directory_with_links_to_its_own_files() {
    let own = json!({ "providers": {
        "openai": { "baseUrl": "https://corp/v1", "apiKey": "secret" }, "local": { "baseUrl": "http://l" } } });
    let host = FakeHost::default()
        .file("/u/.pi/agent/models.json", own)
        .file("/u/.pi/agent/auth.json", "{}")
        .file("/u/.pi/agent/sessions/1.jsonl", "");
    let pi = host.real("pi -p go");
    assert_eq!(pi.variables["PI_CODING_AGENT_DIR"].value, "/run/private");
    let links: Vec<_> = pi.links.iter().map(|(_, target)| target.to_str().unwrap()).collect();
    assert_eq!(links, ["/u/.pi/agent/auth.json", "/u/.pi/agent/sessions"]);
    let models = file(&pi);
    assert_eq!(models["providers"]["openai"]["baseUrl"], format!("{BASE}/v1"));
    assert_eq!(models["providers"]["openai"]["apiKey"], "secret");
    assert_eq!(models["providers"]["google"]["baseUrl"], format!("{BASE}/v1beta"));
    assert_eq!(models["providers"]["anthropic"]["baseUrl"], BASE);
    assert_eq!(models["providers"]["local"]["baseUrl"], "http://l");
    assert_eq!(pi.upstreams["OPENAI_BASE_URL"], "https://corp/v1");
    assert!(pi.in_words().iter().all(|line| !line.contains("secret")));
    let broken = FakeHost::default().file("/u/.pi/agent/models.json", "// x");
    assert!(broken.real("pi").elsewhere.is_some());
}

#[test]
fn cline_gets_a_copy_of_its_providers() {
    let entry = |key: &str| {
        json!({ "settings": { "provider": "anthropic", "model": "m", "apiKey": key,
        "baseUrl": "https://corp/v1" }, "updatedAt": "2026-02-02T00:00:00Z", "tokenSource": "manual" })
    };
    let own = json!({ "version": 1, "lastUsedProvider": "anthropic", "providers": { "anthropic": entry("secret") } });
    let host = FakeHost::default().file("/u/.cline/data/settings/providers.json", own);
    let cline = host.real("cline go");
    let settings = file(&cline);
    let anthropic = &settings["providers"]["anthropic"];
    assert_eq!(anthropic["settings"]["baseUrl"], format!("{BASE}/v1"));
    assert_eq!(anthropic["settings"]["apiKey"], "secret");
    assert_eq!(anthropic["updatedAt"], "2026-02-02T00:00:00Z");
    assert_eq!(cline.upstreams["ANTHROPIC_BASE_URL"], "https://corp");
    assert_eq!(cline.model.as_deref(), Some("m"));
    assert!(where_to(&host.real("cline -P cline go")).contains("`cline`"));
    assert!(where_to(&FakeHost::default().real("cline go")).contains("`cline`"));
    let key = FakeHost::with(&[("OPENAI_API_KEY", "k")]).real("cline go");
    assert_eq!(file(&key)["providers"]["openai-native"]["settings"]["apiKey"], "k");
    assert_eq!(file(&key)["lastUsedProvider"], "openai-native");
}

#[test]
fn cn_without_a_configuration_gets_one() {
    let key = FakeHost::with(&[("OPENAI_API_KEY", "k")]).real("cn -p go");
    assert_eq!(key.arguments, ["--config", "/run/private/continue.yaml"]);
    assert_eq!(file(&key)["models"][0]["apiBase"], format!("{BASE}/v1"));
    assert_eq!(file(&key)["models"][0]["provider"], "openai");
    assert!(key.in_words().iter().all(|line| !line.contains("apiKey")));
    let own = FakeHost::default().file("/u/.continue/config.yaml", "models: []");
    assert!(own.real("cn -p go").elsewhere.is_some());
    assert!(own.real("cn --config x.yaml").elsewhere.is_some());
    assert!(where_to(&FakeHost::default().real("cn")).contains("login"));
}

#[test]
fn copilot_is_limited_only_with_a_provider_of_the_users_own() {
    let own = FakeHost::with(&[("COPILOT_PROVIDER_BASE_URL", "https://corp/v1/")]).real("copilot");
    assert_eq!(own.variables["COPILOT_PROVIDER_BASE_URL"].value, format!("{BASE}/v1"));
    assert_eq!(own.upstreams["OPENAI_BASE_URL"], "https://corp/v1");
    assert!(where_to(&FakeHost::default().real("copilot")).contains("GitHub"));
    let sim = FakeHost::default().adapt("copilot -p go", true);
    assert_eq!(sim.variables["COPILOT_MODEL"].value, "gpt-4o");
    let claude = [
        ("COPILOT_PROVIDER_BASE_URL", "https://corp"),
        ("COPILOT_PROVIDER_TYPE", "anthropic"),
        ("COPILOT_PROVIDER_TRANSPORT", "websockets"),
    ];
    let claude = FakeHost::with(&claude).real("copilot");
    assert_eq!(claude.variables["COPILOT_PROVIDER_BASE_URL"].value, BASE);
    assert_eq!(claude.variables["COPILOT_PROVIDER_TRANSPORT"].value, "http");
    assert_eq!(claude.upstreams["ANTHROPIC_BASE_URL"], "https://corp");
    let azure = [("COPILOT_PROVIDER_BASE_URL", "https://corp"), ("COPILOT_PROVIDER_TYPE", "azure")];
    assert!(where_to(&FakeHost::with(&azure).real("copilot")).contains("`azure`"));
}

#[test]
fn qwen_logs_in_with_a_key_unless_it_was_told_otherwise() {
    let key = FakeHost::with(&[("OPENAI_API_KEY", "k")]);
    assert_eq!(key.real("qwen -p go").arguments, ["--auth-type", "openai"]);
    assert!(key.real("qwen --auth-type anthropic").arguments.is_empty());
    let settings = json!({ "security": { "auth": { "selectedType": "openai", "baseUrl": "https://corp/v1" } } });
    let own = FakeHost::default().file("/u/.qwen/settings.json", settings).real("qwen");
    assert_eq!(own.arguments, ["--openai-base-url", &format!("{BASE}/v1")]);
    assert_eq!(own.upstreams["OPENAI_BASE_URL"], "https://corp/v1");
    let login = json!({ "security": { "auth": { "selectedType": "qwen-oauth" } } });
    let login = FakeHost::default().file("/u/.qwen/settings.json", login).real("qwen");
    assert!(where_to(&login).contains("Qwen login"));
}

#[test]
fn only_the_keys_that_a_program_reads_are_set_for_the_scripted_model() {
    let keys = |line: &str, host: &FakeHost| {
        let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Invocation::of(&command).unwrap().missing_keys(host)
    };
    let none = FakeHost::default();
    assert_eq!(keys("gemini", &none), ["GEMINI_API_KEY"]);
    assert_eq!(keys("qwen", &none), ["OPENAI_API_KEY"]);
    assert_eq!(keys("claude", &none), ["ANTHROPIC_API_KEY"]);
    assert_eq!(keys("opencode", &none), ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]);
    let token = FakeHost::with(&[("ANTHROPIC_AUTH_TOKEN", "t"), ("OPENAI_API_KEY", "k")]);
    assert_eq!(keys("claude", &token), [""; 0]);
    assert_eq!(keys("opencode", &token), ["ANTHROPIC_API_KEY"]);
    assert_eq!(keys("codex", &none), ["CODEX_API_KEY"]);
    assert_eq!(keys("env OPENAI_API_KEY=x codex", &none), [""; 0]);
}

#[test]
fn grok_keeps_its_provider_as_the_upstream() {
    let key = [("GROK_API_KEY", "k")];
    let plain = FakeHost::with(&key).real("grok -p go");
    assert_eq!(plain.variables["GROK_BASE_URL"].value, format!("{BASE}/v1"));
    assert_eq!(plain.upstreams["OPENAI_BASE_URL"], "https://api.x.ai/v1");
    assert_eq!((&plain.account, plain.way()), (&Account::Key("GROK_API_KEY"), Way::Adapter));
    let settings = json!({ "baseURL": "https://corp/v1/", "apiKey": "k" });
    let own = FakeHost::default().file("/u/.grok/user-settings.json", settings);
    let own = own.real("grok -m grok-4 -p go");
    assert_eq!(own.upstreams["OPENAI_BASE_URL"], "https://corp/v1");
    assert_eq!(own.account, Account::Login("key of user-settings.json"));
    let variable = FakeHost::with(&[("GROK_BASE_URL", "https://v/v1")]).real("grok -p go");
    assert_eq!(variable.upstreams["OPENAI_BASE_URL"], "https://v/v1");
    assert!(where_to(&FakeHost::default().real("grok -u https://x/v1 -p go")).contains("base URL"));
    assert_eq!(FakeHost::default().adapt("grok -p go", true).account, Account::Scripted);
}

#[test]
fn kimi_is_limited_only_with_a_model_by_its_key() {
    assert!(where_to(&FakeHost::default().real("kimi -p go")).contains("login"));
    let set = [("KIMI_MODEL_NAME", "kimi-k2"), ("KIMI_MODEL_API_KEY", "k")];
    let own = FakeHost::with(&set).real("kimi -p go");
    assert_eq!(own.variables["KIMI_MODEL_BASE_URL"].value, format!("{BASE}/v1"));
    assert_eq!(own.upstreams["OPENAI_BASE_URL"], "https://api.moonshot.ai/v1");
    assert_eq!(own.model.as_deref(), Some("kimi-k2"));
    assert!(where_to(&FakeHost::with(&set).real("kimi --model k -p go")).contains("configuration"));
    let typed = |kind, base: &[(&'static str, &'static str)]| {
        let kind = [("KIMI_MODEL_PROVIDER_TYPE", kind)];
        FakeHost::with(&[&set[..], &kind[..], base].concat()).real("kimi -p go")
    };
    assert_eq!(typed("openai", &[]).upstreams["OPENAI_BASE_URL"], "https://api.openai.com/v1");
    let corp = typed("openai", &[("KIMI_MODEL_BASE_URL", "https://corp/v1/")]);
    assert_eq!(corp.upstreams["OPENAI_BASE_URL"], "https://corp/v1");
    assert!(where_to(&typed("anthropic", &[])).contains("`anthropic`"));
    let sim = FakeHost::default().adapt("kimi -p go", true);
    assert_eq!(sim.variables["KIMI_MODEL_NAME"].value, "gpt-4o");
}

#[test]
fn what_goes_elsewhere_is_pointed_to_interception() {
    let own = FakeHost::default().file("/u/.continue/config.yaml", "models: []");
    for (host, line) in [
        (&FakeHost::default(), "copilot -p go"),
        (&FakeHost::default(), "cline go"),
        (&FakeHost::default(), "llm -m gemini-2.5-flash go"),
        (&own, "cn -p go"),
    ] {
        let elsewhere = host.real(line).elsewhere.unwrap();
        assert!(elsewhere.hint.contains("`endstop run --intercept`"), "{elsewhere:?}");
        let left = host.real(line).without_additions().elsewhere;
        let effect = left.map(|elsewhere| elsewhere.intercepted);
        // The logins of the others were never tried.
        let expected = (!line.starts_with("llm")).then_some(InterceptEffect::Unknown);
        assert_eq!(effect, expected, "{line}");
    }
    let login = json!({ "security": { "auth": { "selectedType": "qwen-oauth" } } });
    let login = FakeHost::default().file("/u/.qwen/settings.json", login).real("qwen");
    let left = login.without_additions().elsewhere.unwrap();
    assert_eq!(left.intercepted, InterceptEffect::Unknown);
    let local = FakeHost::default().real("codex --oss go").without_additions();
    assert!(local.elsewhere.is_some_and(|elsewhere| !elsewhere.hint.contains("--intercept")));
    let key = FakeHost::with(&[("CODEX_API_KEY", "k")]).real("codex exec -m m go");
    let without = key.without_additions();
    assert!(without.in_words().is_empty() && !without.needs_directory());
    assert_eq!(without.account, Account::Key("CODEX_API_KEY"));
    assert_eq!(without.model.as_deref(), Some("m"));
}
