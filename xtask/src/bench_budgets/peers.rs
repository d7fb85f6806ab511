//! The same burst through others that limit spend: LiteLLM's proxy, and a usage that runs of Pydantic AI share.

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::burst::{self, CALLS, DOLLAR, MODEL};
use super::place::{Home, Place, Prices, Sim, dollars, failed};
use super::{BURST_LITELLM, BURST_PYDANTIC, Found, Row};
use crate::bench_gateway::{LITELLM, free_address, litellm_program, random_word};
use crate::clients::{python, version};

/// How long a proxy in Python may take to listen, and all calls to end.
const START: Duration = Duration::from_secs(90);
const SHARED_USAGE: &str = include_str!("shared_usage.py");
const PYDANTIC: &str = "pydantic-ai";
/// The files, from the checkout, that are there once they are installed.
const LITELLM_PLACE: &str = "target/bench-gateway/litellm/venv/bin/litellm";
const PYDANTIC_PLACE: &str = "target/clients/pydantic-ai/installed";

/// The programs of others, installed before anything is measured, or the reason why one is not.
#[derive(Debug)]
pub(super) struct Peers {
    litellm: Result<PathBuf, String>,
    /// The interpreter of Pydantic AI.
    pydantic: Result<PathBuf, String>,
}

impl Default for Peers {
    fn default() -> Self {
        let missing = || Err("it was not looked for".to_owned());
        Self { litellm: missing(), pydantic: missing() }
    }
}

impl Peers {
    /// Installs them. The quick form takes those that were installed before: installing takes longer than it may.
    pub(super) fn prepare(root: &Path, is_quick: bool) -> Self {
        let of = |place: &str, install: fn(&Path) -> Result<PathBuf, String>| {
            if is_quick && !root.join(place).exists() {
                return Err("not installed; the long form installs it".to_owned());
            }
            install(root)
        };
        Self {
            litellm: of(LITELLM_PLACE, install_litellm),
            pydantic: of(PYDANTIC_PLACE, |root| python(root, PYDANTIC)),
        }
    }

    /// Why one of them is missing, if one is.
    pub(super) fn missing(&self) -> Option<&str> {
        [&self.litellm, &self.pydantic]
            .into_iter()
            .find_map(|it| it.as_ref().err())
            .map(String::as_str)
    }
}

fn install_litellm(root: &Path) -> Result<PathBuf, String> {
    let directory = root.join("target/bench-gateway");
    fs::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
    litellm_program(&directory)
}

pub(super) fn measure(root: &Path, place: &Place, peers: &Peers) -> Result<Found, String> {
    let mut found = Found::default();
    let home = place.home("peers", "")?;
    let prices = Prices::of(&home, MODEL)?;
    let both = [
        (BURST_LITELLM, &peers.litellm, litellm as Peer),
        (BURST_PYDANTIC, &peers.pydantic, pydantic),
    ];
    for (what, program, peer) in both {
        let sim = home.sim("long")?;
        let made = program.as_ref().map_err(String::clone);
        match made.and_then(|program| peer(root, program, &home, &sim, prices)) {
            Ok(tried) => {
                let served = sim.served()?;
                let billed = served.cost(prices);
                let times = billed as f64 / DOLLAR as f64;
                found.rows.push(Row {
                    what,
                    tried,
                    found: format!(
                        "{} served for {}: {times:.1} × the budget",
                        served.calls,
                        dollars(billed)
                    ),
                });
            }
            Err(why) => found.extend(Found::skipped(what, "the same burst", &why)),
        }
    }
    Ok(found)
}

/// Makes the burst with an installed program, and says by which means it should have been limited.
type Peer = fn(&Path, &Path, &Home, &Sim, Prices) -> Result<String, String>;

/// A process group that ends when this is dropped.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

/// Its budgets of keys and users need a database. Its budgets of providers do not, if it is one process.
fn litellm(_: &Path, program: &Path, home: &Home, sim: &Sim, _: Prices) -> Result<String, String> {
    let key = format!("sk-{}", random_word()?);
    let configuration = format!(
        "model_list:\n  - model_name: {MODEL}\n    litellm_params:\n      model: openai/{MODEL}\n      \
         api_base: {}/v1\n      api_key: upstream\n\
         router_settings:\n  provider_budget_config:\n    openai:\n      budget_limit: 1.0\n      time_period: 1d\n\
         general_settings:\n  master_key: {key}\n\
         litellm_settings:\n  telemetry: false\n  num_retries: 0\n",
        sim.upstream()
    );
    let file = home.path.join("litellm.yaml");
    fs::write(&file, configuration).map_err(|error| failed(&file, &error))?;
    let address = free_address()?;
    let log = home.path.join("litellm.log");
    let output = File::create(&log).map_err(|error| failed(&log, &error))?;
    let errors = output.try_clone().map_err(|error| failed(&log, &error))?;
    let child = Command::new(program)
        .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
        .args(["--num_workers", "1", "--config"])
        .arg(&file)
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .env("LITELLM_LOG", "ERROR")
        .current_dir(&home.path)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn();
    let mut running = Group(child.map_err(|error| format!("cannot start: {error}"))?);
    let last = Instant::now() + START;
    while TcpStream::connect(address).is_err() {
        if !matches!(running.0.try_wait(), Ok(None)) || Instant::now() > last {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(format!("it does not listen: {}", said.lines().last().unwrap_or_default()));
        }
        thread::sleep(Duration::from_millis(100));
    }
    let address = address.to_string();
    // It loads a part of itself with the first call.
    burst::call("", &key).make(&address)?;
    let first = sim.served()?.calls;
    if first != 1 {
        return Err("its first call does not reach the model".to_owned());
    }
    thread::scope(|scope| {
        for _ in 1..CALLS {
            scope.spawn(|| burst::call("", &key).make(&address));
        }
    });
    Ok(format!(
        "the same {CALLS} calls, the first of them alone, through one worker of LiteLLM {LITELLM} without a database: \
         `provider_budget_config` of $1 a day"
    ))
}

fn pydantic(
    root: &Path,
    python: &Path,
    home: &Home,
    sim: &Sim,
    prices: Prices,
) -> Result<String, String> {
    // The tokens of such calls that a dollar buys.
    let probe = home.sim("long")?;
    burst::call("", "x").make(&probe.address)?;
    let one = probe.served()?;
    let tokens =
        u128::from(one.tokens()) * u128::from(DOLLAR) / u128::from(one.cost(prices).max(1));
    let script = home.path.join("shared_usage.py");
    fs::write(&script, SHARED_USAGE).map_err(|error| failed(&script, &error))?;
    let output = Command::new(python)
        .arg(&script)
        .args([&sim.upstream(), MODEL, &CALLS.to_string(), &tokens.to_string()])
        .args([burst::CAP.to_string(), burst::CHOICES.to_string()])
        .env("NO_PROXY", "127.0.0.1")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(said.lines().last().unwrap_or("it failed").to_owned());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(format!(
        "the same {CALLS} calls as runs of Pydantic AI {} at once with one `RunUsage` and a `total_tokens_limit` of what $1 \
         buys ({tokens}); {}",
        version(root, PYDANTIC, "pydantic-ai-slim")?,
        said.trim()
    ))
}
