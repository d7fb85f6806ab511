//! `endstop doctor`: whether `endstop run` can limit a command on this machine, and how.
//!
//! It starts nothing: it looks for the program, and reads the variables and settings that decide where its calls go.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use endstop::clock::system_wall_time;
use endstop_price::{CallContext, PriceTable};
use serde_json::{Value, json};

use super::gateway;
use super::run::{bundle, environment};
use crate::adapter::{Account, Adaptation, InterceptEffect, Invocation, ThisHost, Way, executable};
use crate::error::{CliError, ExitMeaning};

const EXAMPLES: &str = "\
Examples:
  endstop doctor -- codex exec \"fix the bug\"
  endstop doctor -- npx @google/gemini-cli -p \"fix the bug\"
  endstop doctor --json -- claude

It starts nothing. Exit codes: 0 if `endstop run` will limit the command, 1 if
it will not, or if Endstop does not know the program, 127 if the command was not
found.";

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;
/// The address of a gateway that does not run yet.
const BASE: &str = "http://127.0.0.1:PORT";
/// The guard of `endstop run`, and the guard for a program whose calls go elsewhere.
const GUARD: &str =
    "refuses and reports direct connections to model providers (--allow-direct, --no-guard)";
const GUARD_ELSEWHERE: &str = "counts direct connections to model providers";
const GUARD_INTERCEPTS: &str =
    "answers connections to model providers, with a certificate made for the run";
/// The run that has not begun.
const RUN: &str = "RUN";
/// A plan without a known name.
const SOME_PLAN: &str = "subscription";
/// A file of certificates of that run.
const CERTIFICATES: &str = "FILE";

/// Arguments of `endstop doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The upstream of `endstop run`
    ///
    /// `sim` needs no account.
    #[arg(long, value_name = "WHERE")]
    upstream: Option<String>,
    /// Ask for `endstop run --intercept`
    ///
    /// The program then keeps its own addresses.
    #[arg(long)]
    intercept: bool,
    /// The command and its arguments, as for `endstop run`
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub fn run(args: &DoctorArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let is_sim = args.upstream.as_deref().is_some_and(gateway::is_sim);
    let diagnosis = Diagnosis::of(&args.command, is_sim, args.intercept);
    if args.json {
        writeln!(out, "{:#}", diagnosis.to_json())?;
    } else {
        write!(out, "{}", diagnosis.to_text())?;
    }
    Ok(ExitCode::from(diagnosis.meaning().code()))
}

/// How the calls of a command reach the gateway.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallRoute {
    By(Way),
    /// The calls go elsewhere.
    Elsewhere,
    /// Nothing is known of the program, or of its configuration.
    Unknown,
}

impl CallRoute {
    const fn way(self) -> &'static str {
        match self {
            Self::By(way) => way.name(),
            Self::Elsewhere => "none",
            Self::Unknown => "unknown",
        }
    }
}

/// The provider that an API key is of.
fn provider_of_key(name: &str) -> Option<&'static str> {
    match name {
        "ANTHROPIC_API_KEY" | "ANTHROPIC_AUTH_TOKEN" => Some("anthropic"),
        "OPENAI_API_KEY" | "CODEX_API_KEY" => Some("openai"),
        "GEMINI_API_KEY" | "GOOGLE_API_KEY" | "GOOGLE_GENERATIVE_AI_API_KEY" => Some("google"),
        _ => None,
    }
}

struct Diagnosis<'a> {
    command: &'a [OsString],
    path: Option<PathBuf>,
    program: Option<&'static str>,
    /// The keys that the program reads, and whether each is set.
    keys: Vec<(&'static str, bool)>,
    adaptation: Adaptation,
    route: CallRoute,
    /// Whether the question is for `--intercept`.
    intercepts: bool,
}

impl<'a> Diagnosis<'a> {
    fn of(command: &'a [OsString], is_sim: bool, intercepts: bool) -> Self {
        let path = command.first().and_then(|program| executable(program));
        let Some(invocation) = Invocation::of(command) else {
            let (keys, adaptation) = (Vec::new(), Adaptation::default());
            return Self {
                command,
                path,
                program: None,
                keys,
                adaptation,
                route: CallRoute::Unknown,
                intercepts,
            };
        };
        let directory = Invocation::directory(&ThisHost, RUN);
        let mut adaptation = invocation.adapt(&ThisHost, BASE, directory.path(), is_sim);
        if intercepts {
            adaptation = adaptation.without_additions();
        }
        let route = match &adaptation.elsewhere {
            Some(it) if intercepts && it.intercepted == InterceptEffect::Unknown => {
                CallRoute::Unknown
            }
            Some(_) => CallRoute::Elsewhere,
            None if intercepts => CallRoute::By(Way::Intercept),
            None => CallRoute::By(adaptation.way()),
        };
        let program = Some(invocation.program.name);
        let keys = invocation.keys(&ThisHost);
        Self { command, path, program, keys, adaptation, route, intercepts }
    }

    fn meaning(&self) -> ExitMeaning {
        match self.route {
            _ if self.path.is_none() => ExitMeaning::NotFound,
            CallRoute::By(_) => ExitMeaning::Ok,
            CallRoute::Elsewhere | CallRoute::Unknown => ExitMeaning::AnswerIsNo,
        }
    }

    /// The provider that is paid, by its name in the price data, as far as the account says it.
    fn provider(&self) -> Option<&'static str> {
        match self.adaptation.account {
            Account::Key(name) => provider_of_key(name),
            Account::Missing => {
                let mut providers = self.keys.iter().map(|(name, _)| provider_of_key(name));
                let first = providers.next()?;
                first.filter(|_| providers.all(|other| other == first))
            }
            Account::Login("ChatGPT") => Some("openai"),
            Account::Login("Claude subscription") => Some("anthropic"),
            _ => None,
        }
    }

    /// The plan of the login, or that it is some subscription. `None` for keys and other logins.
    fn plan(&self) -> Option<&str> {
        let is_subscription =
            matches!(self.adaptation.account, Account::Login("ChatGPT" | "Claude subscription"));
        is_subscription.then(|| self.adaptation.plan.as_deref().unwrap_or(SOME_PLAN))
    }

    /// The variables that every command gets.
    fn sets(&self) -> BTreeMap<&'static str, String> {
        let get = |name: &str| std::env::var(name).ok();
        let mut variables = environment::variables(BASE, RUN, &[], Some(BASE), get);
        let directory = Invocation::directory(&ThisHost, RUN);
        let gemini = Adaptation::of_started_gemini(self.program, &ThisHost, directory.path());
        let gemini = gemini.filter(|_| !self.intercepts);
        variables.extend(gemini.map(Adaptation::values).unwrap_or_default());
        if self.intercepts {
            for name in bundle::kept_bases(get) {
                variables.remove(name);
            }
            variables.extend(bundle::variables().map(|name| (name, CERTIFICATES.to_owned())));
        }
        variables
    }

    /// The work of the guard, in words and in JSON.
    fn guard(&self) -> (&'static str, &'static str) {
        match self.route {
            _ if self.intercepts => (GUARD_INTERCEPTS, "intercept"),
            CallRoute::Elsewhere => (GUARD_ELSEWHERE, "allow"),
            CallRoute::By(_) | CallRoute::Unknown => (GUARD, "refuse"),
        }
    }

    /// The rates of the model for a million tokens of input and of output, in dollars.
    fn rates(&self) -> Option<(String, String)> {
        let name = self.adaptation.model.as_deref()?;
        let (provider, model) = match name.split_once('/') {
            Some((provider, model)) => (Some(provider), model),
            None => (self.provider(), name),
        };
        let table = PriceTable::embedded();
        let price = table.find(provider, model).or_else(|| table.find(None, model))?;
        let rates = price.rates(system_wall_time(), &CallContext::default());
        let rate = |key: &str| {
            rates.iter().find(|rate| rate.unit.key() == key).map(|rate| rate.base.to_decimal())
        };
        Some((rate("input_tokens")?, rate("output_tokens")?))
    }

    /// What to do instead, if the calls go elsewhere.
    fn hint(&self) -> Option<&str> {
        let elsewhere = self.adaptation.elsewhere.as_ref();
        elsewhere.filter(|_| self.route == CallRoute::Elsewhere).map(|it| it.hint.as_str())
    }

    fn account(&self) -> (&'static str, Option<&'static str>) {
        match self.adaptation.account {
            Account::Key(name) => ("key", Some(name)),
            Account::Login(name) => ("login", Some(name)),
            Account::Scripted | Account::Missing => ("none", None),
        }
    }

    /// The account that is paid, its model and its price.
    fn account_rows(&self) -> Vec<(&'static str, String)> {
        let account = match self.account() {
            ("key", Some(name)) => format!("API key in {name}"),
            (_, Some(name)) => name.to_owned(),
            _ => "none found".to_owned(),
        };
        let mut rows = vec![("account", account)];
        rows.extend(self.plan().map(|plan| {
            ("plan", format!("{plan}; counted at API prices; `quota(\"5h\")` limits the plan"))
        }));
        rows.extend(self.keys.iter().map(|(name, is_set)| {
            ("key", format!("{name} is {}", if *is_set { "set" } else { "not set" }))
        }));
        rows.push(("provider", self.provider().unwrap_or("not known").to_owned()));
        let model = self.adaptation.model.as_deref();
        rows.push(("model", model.unwrap_or("the program's default").to_owned()));
        if model.is_some() {
            let price = self.rates().map(|(input, output)| {
                format!("${input} input, ${output} output for a million tokens")
            });
            let none = || "none known; see --unpriced and --prices".to_owned();
            rows.push(("price", price.unwrap_or_else(none)));
        }
        rows
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a text does not fail.
        let mut row = |name: &str, value: &str| {
            let _ = writeln!(text, "{name:<9} {value}");
        };
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        row("command", &words.join(" "));
        match &self.path {
            Some(path) => row("found", &path.display().to_string()),
            None => row("found", "no; not in the directories of PATH"),
        }
        if let Some(program) = self.program {
            row("program", program);
        }
        let limited = match (self.route, &self.adaptation.elsewhere) {
            (CallRoute::By(Way::Variables), _) => "yes, by the variables of every command".to_owned(),
            (CallRoute::By(Way::Adapter), _) => "yes, by an adapter".to_owned(),
            (CallRoute::By(Way::Intercept), _) => {
                "yes, by --intercept, at the addresses of model providers".to_owned()
            }
            (CallRoute::Elsewhere, elsewhere) => {
                let what = elsewhere.as_ref().map_or("", |elsewhere| &elsewhere.what);
                let either = if self.intercepts { "; --intercept does not help" } else { "" };
                format!("no: {what}{either}")
            }
            (CallRoute::Unknown, Some(elsewhere)) => format!(
                "unknown: {}; --intercept limits only those to addresses of model providers",
                elsewhere.what
            ),
            (CallRoute::Unknown, _) if self.intercepts => {
                "unknown; only if the program uses HTTPS_PROXY and trusts the certificate of the run"
                    .to_owned()
            }
            (CallRoute::Unknown, _) => {
                "unknown; only if the program reads OPENAI_BASE_URL, ANTHROPIC_BASE_URL or \
                                      GOOGLE_GEMINI_BASE_URL; --intercept limits fixed addresses too"
                    .to_owned()
            }
        };
        row("limited", &limited);
        if let Some(hint) = self.hint() {
            row("instead", hint);
        }
        row("guard", self.guard().0);
        if self.program.is_some() {
            for (name, value) in self.account_rows() {
                row(name, &value);
            }
        }
        for (name, value) in self.sets() {
            row("sets", &format!("{name}={value}"));
        }
        for added in self.adaptation.in_words() {
            row("adds", &added);
        }
        for note in &self.adaptation.notes {
            row("note", note);
        }
        text
    }

    fn to_json(&self) -> Value {
        let adaptation = &self.adaptation;
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        let variables: serde_json::Map<String, Value> = adaptation
            .variables
            .iter()
            .map(|(name, added)| {
                let value = if added.is_secret { Value::Null } else { json!(added.value) };
                ((*name).to_owned(), value)
            })
            .collect();
        let keys: serde_json::Map<String, Value> =
            self.keys.iter().map(|(name, is_set)| ((*name).to_owned(), json!(is_set))).collect();
        let files: Vec<&String> = adaptation.files.iter().map(|(name, _)| name).collect();
        let (kind, name) = self.account();
        let price = self.rates().map(|(input, output)| {
            json!({ "input_usd_per_million": input, "output_usd_per_million": output })
        });
        let elsewhere = adaptation.elsewhere.as_ref();
        json!({
            "version": JSON_VERSION,
            "command": words,
            "path": self.path,
            "program": self.program,
            "is_limited": matches!(self.route, CallRoute::By(_)),
            "way": self.route.way(),
            "problem": elsewhere.map(|elsewhere| &elsewhere.what),
            "hint": self.hint(),
            "account": { "kind": kind, "name": name },
            "guard": self.guard().1,
            "keys": keys,
            "plan": self.plan(),
            "provider": self.provider(),
            "model": adaptation.model,
            "price": price,
            "sets": self.sets(),
            "adds": {
                "arguments": adaptation.arguments,
                "variables": variables,
                "files": files,
                "upstreams": adaptation.upstreams,
            },
            "notes": adaptation.notes,
        })
    }
}
