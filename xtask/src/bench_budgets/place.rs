//! The processes of the measurements, scripted models and gateways, and the homes of their users. Each ends with the value that
//! holds it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::http;

/// The word of the control API of each gateway.
pub(super) const TOKEN: &str = "bench";
/// How long anything here may take that should take a moment.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The directory of the measurements, which is removed at the end. Its path is short, because sockets lie below it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: PathBuf,
    pub(super) endstop: PathBuf,
}

impl Place {
    pub(super) fn new(endstop: PathBuf) -> Result<Self, String> {
        let directory = std::env::temp_dir().join(format!("endstop-bench-{}", std::process::id()));
        fs::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
        Ok(Self { directory, endstop })
    }

    /// A new home of a user, with a configuration.
    pub(super) fn home(&self, name: &str, configuration: &str) -> Result<Home, String> {
        let path = self.directory.join(name);
        let file = path.join("endstop/config.toml");
        let _ = fs::remove_dir_all(&path);
        for directory in [path.join("endstop"), path.join("t")] {
            fs::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
        }
        fs::write(&file, configuration).map_err(|error| failed(&file, &error))?;
        Ok(Home { path, endstop: self.endstop.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A home, as a user of one machine has it.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) path: PathBuf,
    pub(super) endstop: PathBuf,
}

impl Home {
    /// The command `endstop`, without variables of the one who measures.
    pub(super) fn command<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Command {
        self.in_home(Command::new(&self.endstop), words)
    }

    /// The same, for one that lasts: it ends with the thread that started it, where `setpriv` is installed.
    fn lasting<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Command {
        if !has_setpriv() {
            return self.command(words);
        }
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&self.endstop);
        self.in_home(command, words)
    }

    fn in_home<'w>(
        &self,
        mut command: Command,
        words: impl IntoIterator<Item = &'w str>,
    ) -> Command {
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for name in ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            command.env(name, &self.path);
        }
        command.env("TMPDIR", self.path.join("t")).env("TOKEN", TOKEN);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).args(words);
        command
    }

    /// Runs a command to its end. Returns what it printed.
    pub(super) fn ask<'w>(
        &self,
        words: impl IntoIterator<Item = &'w str>,
    ) -> Result<String, String> {
        let mut command = self.command(words);
        let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let output = output.map_err(|error| failed(&self.endstop, &error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!("`endstop` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }

    /// Starts a scripted model.
    pub(super) fn sim(&self, script: &str) -> Result<Sim, String> {
        let (process, line) = Process::start(self.lasting(["sim", "--script", script]))?;
        let address = line.split_once("http://").and_then(|(_, rest)| rest.split(',').next());
        let address = address.ok_or("the scripted model says no address")?.trim().to_owned();
        Ok(Sim { _process: process, address })
    }

    /// Starts a gateway on a free port, with a control API. Its warnings go to the file `errors` of the home.
    pub(super) fn serve(&self, store: &str, words: &[&str]) -> Result<Gateway, String> {
        let serve = ["serve", "--json", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"];
        let token = ["--control-token-env", "TOKEN"];
        let mut command = self.lasting(serve.iter().chain(&token).chain(words).copied());
        let file = self.path.join("errors");
        let errors = fs::File::create(&file).map_err(|error| failed(&file, &error))?;
        command.env("ENDSTOP_BUDGET_STORE", store).stderr(errors);
        let (process, line) = Process::start(command)
            .map_err(|why| format!("{why}: {}", fs::read_to_string(&file).unwrap_or_default()))?;
        let value: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = |key: &str| {
            let url = value.get(key).and_then(Value::as_str)?;
            url.strip_prefix("http://").map(str::to_owned)
        };
        let both = address("address").zip(address("control_address"));
        let (address, control) = both.ok_or_else(|| format!("a gateway says: {line}"))?;
        Ok(Gateway { process, address, control })
    }

    /// The first limit of a budget, as JSON.
    pub(super) fn budget(&self, store: Option<&str>, words: &[&str]) -> Result<Limit, String> {
        let shared = store.map(|store| ["--budget-store", store]);
        let all = ["budget", "me", "--json"].iter().chain(words).chain(shared.iter().flatten());
        let text = self.ask(all.copied())?;
        let value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let limit = value.pointer("/budgets/0/limits/0").ok_or("no budget is shown")?;
        let of = |key: &str| limit.get(key).and_then(picos).ok_or("a budget has no amount");
        Ok(Limit { spent: of("spent")?, held: of("held")? })
    }
}

/// The amounts of a budget, in pico-dollars.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) spent: u64,
    pub(super) held: u64,
}

fn has_setpriv() -> bool {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    *IS_THERE.get_or_init(|| {
        let asked = Command::new("setpriv").arg("--version").stdout(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    })
}

/// A process that ends when it is dropped, as by `kill -9`.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    /// Starts a command, and returns its first line.
    fn start(mut command: Command) -> Result<(Self, String), String> {
        let child = command.stdout(Stdio::piped()).spawn();
        let mut process = Self(child.map_err(|error| format!("cannot start: {error}"))?);
        let output = process.0.stdout.take().ok_or("no output")?;
        let (mut output, mut line) = (BufReader::new(output), String::new());
        output.read_line(&mut line).map_err(|error| error.to_string())?;
        if line.is_empty() {
            return Err("it ended immediately".to_owned());
        }
        // It prints more, which is dropped.
        thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Ok((process, line))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A scripted model.
#[derive(Debug)]
pub(super) struct Sim {
    _process: Process,
    pub(super) address: String,
}

/// The calls and tokens that a scripted model has answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) calls: u64,
    input: u64,
    output: u64,
}

impl Sim {
    pub(super) fn upstream(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn served(&self) -> Result<Served, String> {
        let answer = http::get(&self.address, "/sim/stats")?;
        let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let of = |key: &str| value.get(key).and_then(Value::as_u64).ok_or("no counts");
        Ok(Served { calls: of("calls")?, input: of("input_tokens")?, output: of("output_tokens")? })
    }
}

impl Served {
    /// Its cost at these prices.
    pub(super) const fn cost(self, prices: Prices) -> u64 {
        self.input * prices.input + self.output * prices.output
    }

    /// All tokens.
    pub(super) const fn tokens(self) -> u64 {
        self.input + self.output
    }
}

/// The prices of a token, in pico-dollars.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prices {
    pub(super) input: u64,
    pub(super) output: u64,
}

impl Prices {
    /// The prices of a model, as `endstop price` knows them for a short call: a long one can have others.
    pub(super) fn of(home: &Home, model: &str) -> Result<Self, String> {
        let thousand = ["--input", "1000", "--output", "1000"];
        let words = ["price", model, "--json"].into_iter().chain(thousand);
        let value: Value = serde_json::from_str(&home.ask(words)?).unwrap_or_default();
        let of = |key: &str| value.get(key).and_then(picos).map(|picos| picos / 1_000);
        let both = of("input_usd").zip(of("output_usd"));
        let (input, output) = both.ok_or_else(|| format!("no price of {model}"))?;
        Ok(Self { input, output })
    }
}

/// A gateway.
#[derive(Debug)]
pub(super) struct Gateway {
    process: Process,
    pub(super) address: String,
    pub(super) control: String,
}

impl Gateway {
    /// A run as the control API shows it.
    pub(super) fn run(&self, run: &str) -> Result<Value, String> {
        let answer = http::get(&self.control, &format!("/endstop/v1/runs/{run}"))?;
        serde_json::from_str(&answer.body).map_err(|error| format!("run {run}: {error}"))
    }

    /// The number of its process.
    pub(super) fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Asks it to end, and waits.
    pub(super) fn end(self) {
        Self::end_all(vec![self]);
    }

    /// Asks gateways to end, all at once, and waits.
    pub(super) fn end_all(mut gateways: Vec<Self>) {
        let ids: Vec<String> = gateways.iter().map(|gateway| gateway.id().to_string()).collect();
        if ids.is_empty() {
            return;
        }
        let _ = Command::new("kill").args(["-s", "TERM"]).args(ids).status();
        let last = Instant::now() + PATIENCE;
        for gateway in &mut gateways {
            while matches!(gateway.process.0.try_wait(), Ok(None)) && Instant::now() < last {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// An exact amount of dollars in pico-dollars.
pub(super) fn picos(amount: &Value) -> Option<u64> {
    let text = amount.as_str()?;
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.parse::<u64>().ok()?.checked_mul(1_000_000_000_000)?;
    whole.checked_add(format!("{rest:0<12}").parse::<u64>().ok()?)
}

/// Pico-dollars as dollars, rounded to six digits.
pub(super) fn dollars(picos: u64) -> String {
    let micros = (picos + 500_000) / 1_000_000;
    format!("${}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

pub(super) fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("`{}`: {error}", path.display())
}
