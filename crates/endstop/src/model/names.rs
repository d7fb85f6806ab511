//! The providers that are known by name, and which model a name means.

use endstop_core::edit_distance;
use endstop_runtime::ProviderApi;

use crate::limits::MAX_PROVIDER_NAME_CHARS;

/// A provider of models.
///
/// ```
/// use endstop::model::known_provider;
///
/// let anthropic = known_provider("anthropic").unwrap();
/// assert_eq!(anthropic.keys, ["ANTHROPIC_API_KEY"]);
/// assert!(known_provider("nobody").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownProvider {
    /// Its name before the slash, and as `gen_ai.provider.name`.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// The environment variables that may hold its key, in this order; empty if it needs no key.
    pub keys: &'static [&'static str],
    /// The environment variable that moves it elsewhere.
    pub base_url: Option<&'static str>,
    /// The provider, as prices and [`ProviderApi`] name it.
    pub provider: &'static str,
    /// A description, for people.
    pub about: &'static str,
}

const OPENAI: KnownProvider = KnownProvider {
    name: "openai",
    aliases: &[],
    keys: &["OPENAI_API_KEY"],
    base_url: Some("OPENAI_BASE_URL"),
    provider: "openai",
    about: "OpenAI: responses for the models that need them, and chat otherwise; with a base URL, chat",
};

/// A provider that speaks the chat protocol of OpenAI on its own server.
const fn chat(
    name: &'static str,
    aliases: &'static [&'static str],
    keys: &'static [&'static str],
) -> KnownProvider {
    let about = "chat completions as OpenAI's";
    KnownProvider { name, aliases, keys, base_url: None, provider: name, about }
}

/// The providers whose models can be asked, by name.
pub static PROVIDERS: &[KnownProvider] = &[
    OPENAI,
    KnownProvider { name: "openai-chat", about: "chat completions of OpenAI or alike", ..OPENAI },
    KnownProvider { name: "openai-responses", about: "responses of OpenAI or alike", ..OPENAI },
    KnownProvider {
        name: "anthropic",
        aliases: &["claude"],
        keys: &["ANTHROPIC_API_KEY"],
        base_url: Some("ANTHROPIC_BASE_URL"),
        provider: "anthropic",
        about: "messages of Anthropic or alike",
    },
    KnownProvider {
        name: "google",
        aliases: &["gemini"],
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        base_url: Some("GOOGLE_GEMINI_BASE_URL"),
        provider: "google",
        about: "Gemini",
    },
    KnownProvider {
        name: "ollama",
        aliases: &[],
        keys: &[],
        base_url: Some("OLLAMA_HOST"),
        provider: "ollama",
        about: "a local Ollama, by its own protocol",
    },
    chat("openrouter", &[], &["OPENROUTER_API_KEY", "OPEN_ROUTER_API_KEY"]),
    chat("groq", &[], &["GROQ_API_KEY"]),
    chat("x-ai", &["xai", "grok"], &["XAI_API_KEY"]),
    chat("deepseek", &[], &["DEEPSEEK_API_KEY"]),
    chat("mistral", &[], &["MISTRAL_API_KEY"]),
    chat("together", &[], &["TOGETHER_API_KEY"]),
    chat("moonshotai", &["moonshot"], &["MOONSHOT_API_KEY"]),
];

impl KnownProvider {
    /// Returns its own server, up to where the paths of its protocol begin.
    #[must_use]
    #[expect(clippy::unreachable, reason = "a test asks each row")]
    pub fn server(&self) -> &'static str {
        match ProviderApi::of(self.provider).and_then(|api| api.server) {
            Some(server) => server,
            None => unreachable!("the table has no server of `{}`", self.provider),
        }
    }
}

/// Returns the provider of this name or alias, in any case.
#[must_use]
pub fn known_provider(name: &str) -> Option<&'static KnownProvider> {
    PROVIDERS.iter().find(|row| {
        let mut names = std::iter::once(&row.name).chain(row.aliases);
        names.any(|known| known.eq_ignore_ascii_case(name))
    })
}

/// The known name that is most like this one, if any is like it.
fn nearest_provider(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let names = PROVIDERS.iter().flat_map(|row| std::iter::once(&row.name).chain(row.aliases));
    // A name is an argument of a command: longer texts are not names of providers.
    let letters = |name: &str| name.chars().take(MAX_PROVIDER_NAME_CHARS).collect::<Vec<char>>();
    let found = letters(&name);
    let ranked = names.map(|known| (edit_distance(&found, &letters(known)), *known));
    let (distance, known) = ranked.min_by_key(|(distance, _)| *distance)?;
    // Half of the letters may differ, or the hint is noise.
    (distance.saturating_mul(2) <= known.len()).then_some(known)
}

/// `, did you mean ..?`, or nothing.
pub(super) fn hint(name: &str) -> String {
    let nearest = nearest_provider(name);
    nearest.map(|nearest| format!(", did you mean `{nearest}`?")).unwrap_or_default()
}

/// The variable of the process's environment, unless it is empty.
pub(super) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
