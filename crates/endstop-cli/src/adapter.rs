//! Adapters of known agent programs: they lead the programs' model calls through the gateway of `endstop run`.
//!
//! Most programs read the variables that every command gets. The others need flags, further variables or a file. Each
//! has a row in [`PROGRAMS`] and a function that says what to add; the function is pure, so that `endstop doctor` can
//! show what `endstop run` would do. Nothing that belongs to the user is changed: flags go before the user's own, which
//! then win, and files go into a private directory that is removed at the end.

mod claude;
mod cline;
mod codex;
mod command_line;
mod continue_cli;
mod copilot;
mod gemini;
mod grok;
mod host;
mod kimi;
mod llm;
mod opencode;
mod pi;
mod plan;
mod private_directory;
mod qwen;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) use command_line::Invocation;
pub(crate) use host::{Host, ThisHost, executable};
pub(crate) use private_directory::PrivateDirectory;

/// The variable of each API's base URL, as `--upstream` and the gateway know them.
const OPENAI_BASE: &str = "OPENAI_BASE_URL";

/// A known agent program.
#[derive(Debug)]
pub(crate) struct AgentProgram {
    /// The name that people know.
    pub(crate) name: &'static str,
    /// The names of its executable.
    commands: &'static [&'static str],
    /// The packages that have it, for `npx` and similar runners.
    packages: &'static [&'static str],
    /// The API keys that it reads, the preferred one first.
    pub(crate) keys: &'static [&'static str],
    /// How many of these, from the first, the scripted model needs to be set. With one, any of the keys will do.
    scripted_keys: usize,
    /// Variables that name its model.
    models: &'static [&'static str],
    adapt: fn(&Situation<'_>, &mut Adaptation),
}

/// How the model calls of a program reach the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the variables that every command gets.
    Variables,
    /// By what its adapter adds.
    Adapter,
    /// By `--intercept`: the gateway answers connections to model providers.
    Intercept,
}

impl Way {
    /// The word in tables and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Variables => "variables",
            Self::Adapter => "adapter",
            Self::Intercept => "intercept",
        }
    }
}

const OPENAI_KEY: &[&str] = &["OPENAI_API_KEY"];
const CODEX_KEYS: &[&str] = &["CODEX_API_KEY", "OPENAI_API_KEY"];
const ANTHROPIC_KEYS: &[&str] = &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"];
const MANY_KEYS: &[&str] = &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];

/// Every known program, in the order of its name.
pub(crate) const PROGRAMS: &[AgentProgram] = &[
    AgentProgram {
        name: "aider",
        commands: &["aider"],
        packages: &["aider-chat", "aider"],
        keys: &["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"],
        scripted_keys: 3,
        models: &["AIDER_MODEL"],
        adapt: by_variables,
    },
    AgentProgram {
        name: "claude",
        commands: &["claude"],
        packages: &["@anthropic-ai/claude-code"],
        keys: ANTHROPIC_KEYS,
        scripted_keys: 1,
        models: &["ANTHROPIC_MODEL"],
        adapt: claude::adapt,
    },
    AgentProgram {
        name: "cline",
        commands: &["cline"],
        packages: &["cline"],
        keys: MANY_KEYS,
        scripted_keys: 3,
        models: &[],
        adapt: cline::adapt,
    },
    AgentProgram {
        name: "cn",
        commands: &["cn"],
        packages: &["@continuedev/cli"],
        keys: MANY_KEYS,
        scripted_keys: 3,
        models: &[],
        adapt: continue_cli::adapt,
    },
    AgentProgram {
        name: "codex",
        commands: &["codex"],
        packages: &["@openai/codex"],
        keys: CODEX_KEYS,
        scripted_keys: 1,
        models: &[],
        adapt: codex::adapt,
    },
    AgentProgram {
        name: "copilot",
        commands: &["copilot"],
        packages: &["@github/copilot"],
        keys: &["COPILOT_PROVIDER_API_KEY"],
        scripted_keys: 1,
        models: &["COPILOT_MODEL"],
        adapt: copilot::adapt,
    },
    AgentProgram {
        name: "dcode",
        commands: &["dcode", "deepagents-code"],
        packages: &["deepagents-code"],
        keys: MANY_KEYS,
        scripted_keys: 3,
        models: &[],
        adapt: by_variables,
    },
    AgentProgram {
        name: "fast-agent",
        commands: &["fast-agent"],
        packages: &["fast-agent-mcp"],
        keys: MANY_KEYS,
        scripted_keys: 3,
        models: &[],
        adapt: by_variables,
    },
    AgentProgram {
        name: "gemini",
        commands: &["gemini"],
        packages: &["@google/gemini-cli"],
        keys: &["GEMINI_API_KEY"],
        scripted_keys: 1,
        models: &["GEMINI_MODEL"],
        adapt: gemini::adapt,
    },
    AgentProgram {
        name: "grok",
        commands: &["grok"],
        packages: &["@vibe-kit/grok-cli"],
        keys: &["GROK_API_KEY"],
        scripted_keys: 1,
        models: &["GROK_MODEL"],
        adapt: grok::adapt,
    },
    AgentProgram {
        name: "interpreter",
        commands: &["interpreter"],
        packages: &["open-interpreter"],
        keys: MANY_KEYS,
        scripted_keys: 3,
        models: &[],
        adapt: by_variables,
    },
    AgentProgram {
        name: "kimi",
        commands: &["kimi"],
        packages: &["@moonshot-ai/kimi-code"],
        keys: &["KIMI_MODEL_API_KEY"],
        scripted_keys: 1,
        models: &["KIMI_MODEL_NAME"],
        adapt: kimi::adapt,
    },
    AgentProgram {
        name: "llm",
        commands: &["llm"],
        packages: &["llm"],
        keys: OPENAI_KEY,
        scripted_keys: 1,
        models: &["LLM_MODEL"],
        adapt: llm::adapt,
    },
    AgentProgram {
        name: "mini",
        commands: &["mini", "mini-swe-agent"],
        packages: &["mini-swe-agent"],
        keys: MANY_KEYS,
        scripted_keys: 3,
        models: &["MSWEA_MODEL_NAME"],
        adapt: by_variables,
    },
    AgentProgram {
        name: "opencode",
        commands: &["opencode"],
        packages: &["opencode-ai"],
        keys: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
        scripted_keys: 2,
        models: &[],
        adapt: opencode::adapt,
    },
    AgentProgram {
        name: "openhands",
        commands: &["openhands"],
        packages: &["openhands"],
        keys: &["LLM_API_KEY"],
        scripted_keys: 1,
        models: &["LLM_MODEL"],
        adapt: by_variables,
    },
    AgentProgram {
        name: "pi",
        commands: &["pi"],
        packages: &["@mariozechner/pi-coding-agent"],
        keys: MANY_KEYS,
        scripted_keys: 3,
        models: &[],
        adapt: pi::adapt,
    },
    AgentProgram {
        name: "qwen",
        commands: &["qwen"],
        packages: &["@qwen-code/qwen-code"],
        keys: OPENAI_KEY,
        scripted_keys: 1,
        models: &["OPENAI_MODEL"],
        adapt: qwen::adapt,
    },
];

/// The input of an adapter.
pub(crate) struct Situation<'a> {
    /// The program's own arguments.
    pub(crate) arguments: &'a [OsString],
    /// The address of the gateway, without a slash at its end.
    pub(crate) base: &'a str,
    /// The private directory of the run, whether it exists yet or not.
    pub(crate) directory: &'a Path,
    /// Whether the scripted model is the upstream, which needs no account.
    pub(crate) is_sim: bool,
    /// Variables that stand before the program, as in `env NAME=VALUE program`.
    assigned: &'a [(String, String)],
    host: &'a dyn Host,
}

impl Situation<'_> {
    /// A variable of the command's environment; an empty one is missing.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let assigned = self.assigned.iter().rev().find(|(known, _)| known == name);
        let value = assigned.map(|(_, value)| value.clone()).or_else(|| self.host.variable(name));
        value.filter(|value| !value.is_empty())
    }

    /// Whether a variable switches something on.
    fn is_on(&self, name: &str) -> bool {
        self.variable(name).is_some_and(|value| {
            !["0", "false", "no", "off"].contains(&value.to_ascii_lowercase().as_str())
        })
    }

    /// A directory of the user: what the variable says, otherwise a name in the home directory.
    fn user_directory(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        let named = self.variable(variable).map(PathBuf::from);
        named.or_else(|| self.variable("HOME").map(|home| Path::new(&home).join(in_home)))
    }

    /// A file of the user, if it can be read.
    fn read(&self, file: &Path) -> Option<String> {
        self.host.read(file)
    }

    /// A JSON file of the user. `None` if it cannot be parsed, for example because of comments.
    fn json(&self, file: &Path) -> Option<serde_json::Value> {
        serde_json::from_str(&self.read(file)?).ok()
    }

    /// The value of an option: `--name VALUE`, `--name=VALUE`.
    fn option(&self, names: &[&str]) -> Option<String> {
        let words: Vec<&str> = self.arguments.iter().map_while(|word| word.to_str()).collect();
        let words = words.iter().take_while(|word| **word != "--");
        let words: Vec<&str> = words.copied().collect();
        words.iter().enumerate().find_map(|(at, word)| {
            if names.contains(word) {
                return words.get(at.saturating_add(1)).map(|value| (*value).to_owned());
            }
            let (name, value) = word.split_once('=')?;
            names.contains(&name).then(|| value.to_owned())
        })
    }

    fn has_option(&self, names: &[&str]) -> bool {
        let words = self.arguments.iter().map_while(|word| word.to_str());
        words
            .take_while(|word| *word != "--")
            .any(|word| names.contains(&word.split_once('=').map_or(word, |(name, _)| name)))
    }
}

/// Who pays for the calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Account {
    /// The owner of the API key in this variable.
    Key(&'static str),
    /// A login of the program, such as a subscription.
    Login(&'static str),
    /// The scripted model, which costs nothing.
    Scripted,
    /// Neither a key nor a login was found.
    #[default]
    Missing,
}

/// Model calls that do not come to the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// Where they go, and the setting that decides it.
    pub(crate) what: String,
    /// What to do so that they can be limited.
    pub(crate) hint: String,
    pub(crate) intercepted: InterceptEffect,
}

/// The effect of `--intercept` on calls that do not come to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterceptEffect {
    /// It limits them: they go to a host of the list, in the form of a known API.
    Limits,
    /// It does not see them, or cannot read them and refuses them.
    Nothing,
    /// The user's own configuration decides where they go, or no test has tried it with this login.
    Unknown,
}

/// The account of a program that gets no additions, if that is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unaided {
    pub(crate) account: Account,
    /// The reason, and what to do, for the user.
    pub(crate) note: String,
}

/// A variable that an adapter sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddedVariable {
    pub(crate) value: String,
    /// Whether the value may have a key of the user in it.
    pub(crate) is_secret: bool,
}

/// The additions of an adapter to a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adaptation {
    /// Flags, before the program's own arguments.
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: BTreeMap<&'static str, AddedVariable>,
    /// Files of the private directory: name and text.
    pub(crate) files: Vec<(String, String)>,
    /// Links in the private directory: name and target.
    pub(crate) links: Vec<(OsString, PathBuf)>,
    /// The upstream of an API, by its variable: the address that the program's own settings or login name, where its calls
    /// went before. It goes before the user's variable, which the program would not read, and after `--upstream`.
    pub(crate) upstreams: BTreeMap<&'static str, String>,
    pub(crate) account: Account,
    /// The plan of a login, by the name that its provider has for it.
    pub(crate) plan: Option<String>,
    pub(crate) model: Option<String>,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
    pub(crate) elsewhere: Option<Elsewhere>,
    pub(crate) unaided: Option<Unaided>,
}

impl Adaptation {
    fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.variables.insert(name, AddedVariable { value: value.into(), is_secret: false });
    }

    fn set_secret(&mut self, name: &'static str, value: impl Into<String>) {
        self.variables.insert(name, AddedVariable { value: value.into(), is_secret: true });
    }

    fn file(&mut self, situation: &Situation<'_>, name: &str, text: impl Into<String>) -> String {
        self.files.push((name.to_owned(), text.into()));
        situation.directory.join(name).to_string_lossy().into_owned()
    }

    fn goes_elsewhere(
        &mut self,
        intercepted: InterceptEffect,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.elsewhere = Some(Elsewhere { what: what.into(), hint: hint.into(), intercepted });
    }

    /// The same without additions, and without notes about them: with `--intercept` there are none. Calls that it limits no
    /// longer go elsewhere. A program that needs the additions for its account says so.
    pub(crate) fn without_additions(self) -> Self {
        let elsewhere = self.elsewhere.filter(|it| it.intercepted != InterceptEffect::Limits);
        let Self { account, plan, model, unaided, .. } = self;
        let (account, notes) = match unaided {
            Some(unaided) => (unaided.account, vec![unaided.note]),
            None => (account, Vec::new()),
        };
        Self { account, plan, model, notes, elsewhere, ..Self::default() }
    }

    /// The settings for a Gemini CLI that a command may start, in a script or as a tool: the variables of every command alone
    /// end it (exit code 41). `None` for Gemini CLI itself, which has its adapter, and if its calls go elsewhere.
    pub(crate) fn of_started_gemini(
        starter: Option<&str>,
        host: &dyn Host,
        directory: &Path,
    ) -> Option<Self> {
        let gemini = Invocation::of(&["gemini".into()])?;
        if starter == Some(gemini.program.name) {
            return None;
        }
        let adaptation = gemini.adapt(host, "", directory, false);
        adaptation.elsewhere.is_none().then_some(adaptation)
    }

    /// How the calls reach the gateway: by what is added, if anything is.
    pub(crate) fn way(&self) -> Way {
        if self.in_words().is_empty() { Way::Variables } else { Way::Adapter }
    }

    /// The variables with their values.
    pub(crate) fn values(self) -> BTreeMap<&'static str, String> {
        self.variables.into_iter().map(|(name, added)| (name, added.value)).collect()
    }

    /// Whether a directory is needed.
    pub(crate) fn needs_directory(&self) -> bool {
        !self.files.is_empty() || !self.links.is_empty()
    }

    /// The additions, one per line, without values that may have a key of the user in them.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let flags =
            (!self.arguments.is_empty()).then(|| format!("flags {}", self.arguments.join(" ")));
        let variables = self.variables.iter().map(|(name, variable)| match variable.is_secret {
            true => format!("{name}=(hidden)"),
            false => format!("{name}={}", variable.value),
        });
        let files = self.files.iter().map(|(name, _)| format!("file {name}"));
        let upstreams =
            self.upstreams.iter().map(|(name, base)| format!("upstream of {name}: {base}"));
        flags.into_iter().chain(variables).chain(files).chain(upstreams).collect()
    }
}

/// Puts a value into nested objects, and creates those that are missing.
fn insert(value: &mut serde_json::Value, path: &[&str], leaf: serde_json::Value) {
    let mut at = value;
    for name in path {
        if !at.is_object() {
            *at = serde_json::json!({});
        }
        at = &mut at[*name];
    }
    *at = leaf;
}

/// The adapter of programs that need nothing but the variables.
fn by_variables(_: &Situation<'_>, _: &mut Adaptation) {}

impl Invocation {
    /// Returns the additions that the program needs. `directory` is where its files are or will be.
    pub(crate) fn adapt(
        &self,
        host: &dyn Host,
        base: &str,
        directory: &Path,
        is_sim: bool,
    ) -> Adaptation {
        let situation = Situation {
            arguments: &self.arguments,
            base,
            directory,
            is_sim,
            assigned: &self.assigned,
            host,
        };
        let program = self.program;
        let key = program.keys.iter().find(|name| situation.variable(name).is_some());
        let account = match key {
            _ if is_sim => Account::Scripted,
            Some(name) => Account::Key(name),
            None => Account::Missing,
        };
        let model = situation.option(&["--model", "-m"]);
        let model =
            model.or_else(|| program.models.iter().find_map(|name| situation.variable(name)));
        let mut adaptation = Adaptation { account, model, ..Adaptation::default() };
        (program.adapt)(&situation, &mut adaptation);
        adaptation
    }

    /// The private directory for files that an adaptation needs.
    pub(crate) fn directory(host: &dyn Host, run: &str) -> PrivateDirectory {
        PrivateDirectory::plan(run, |name| host.variable(name))
    }

    /// The keys that the program reads, and whether each is set.
    pub(crate) fn keys(&self, host: &dyn Host) -> Vec<(&'static str, bool)> {
        let is_set = |name: &str| {
            let assigned = self.assigned.iter().rev().find(|(known, _)| known == name);
            let value = assigned.map(|(_, value)| value.clone()).or_else(|| host.variable(name));
            value.is_some_and(|value| !value.is_empty())
        };
        self.program.keys.iter().map(|name| (*name, is_set(name))).collect()
    }

    /// The keys that have to be set for the scripted model: those that the program reads, and no others.
    pub(crate) fn missing_keys(&self, host: &dyn Host) -> Vec<&'static str> {
        let keys = self.keys(host);
        let has_one = self.program.scripted_keys == 1 && keys.iter().any(|(_, is_set)| *is_set);
        let wanted = if has_one { 0 } else { self.program.scripted_keys };
        keys.iter().take(wanted).filter(|(_, is_set)| !is_set).map(|(name, _)| *name).collect()
    }

    /// The command with the adapter's flags in it.
    pub(crate) fn with(&self, command: &[OsString], adaptation: &Adaptation) -> Vec<OsString> {
        let (before, after) = command.split_at(self.insert_at.min(command.len()));
        let added = adaptation.arguments.iter().map(OsString::from);
        before.iter().cloned().chain(added).chain(after.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests;
