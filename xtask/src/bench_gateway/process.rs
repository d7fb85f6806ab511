//! Processes of the benchmark: each is pinned to a core, and all end with the command, however it ends.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Place;

/// The core of the gateway under test.
const GATEWAY_CORE: &str = "0";
/// The core of clients and upstream.
const OTHER_CORE: &str = "1";
/// How long a gateway may take until it listens.
const START: Duration = Duration::from_secs(90);
/// The time that a process may take to end on its own.
const END: Duration = Duration::from_secs(3);
/// Pins a program, lifts its limit of open files, and has it ended when this command ends.
const PINNED: &str = "ulimit -n 8192 2>/dev/null; \
    command -v setpriv >/dev/null && set -- setpriv --pdeathsig TERM taskset -c \"$@\" \
    || set -- taskset -c \"$@\"; exec \"$@\"";

/// Process groups that have to end.
static GROUPS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// How a gateway is started and called.
#[derive(Clone, Debug, Default)]
pub(super) struct Launch {
    /// The program; none where the upstream itself is called.
    pub(super) program: Option<PathBuf>,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(&'static str, String)>,
    /// Where it will listen.
    pub(super) address: Option<SocketAddr>,
    /// The path of a call.
    pub(super) path: Option<&'static str>,
    /// Headers of a call.
    pub(super) headers: Vec<String>,
    /// Whether it starts and answers so slowly that a thousand slow streams are too much, and a start for each round.
    pub(super) is_heavy: bool,
    /// Why it is not asked for streams.
    pub(super) no_streams: Option<&'static str>,
}

/// A process that listens. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    /// `None` if another part of the code ends it.
    child: Option<Child>,
    pub(super) id: u32,
    pub(super) address: SocketAddr,
    pub(super) launch: Launch,
}

impl Running {
    /// Starts the upstream.
    pub(super) fn upstream(place: &Place) -> Result<Self, String> {
        let launch = Launch {
            program: Some(place.ends.clone()),
            arguments: vec!["upstream".into(), "--listen".into(), place.upstream.to_string()],
            address: Some(place.upstream),
            ..Launch::default()
        };
        Self::spawn(place, "upstream", launch, OTHER_CORE)
    }

    /// Starts a gateway, or takes the upstream if there is none.
    pub(super) fn start(
        place: &Place,
        name: &str,
        launch: Launch,
        upstream: &Self,
    ) -> Result<Self, String> {
        // The log of an earlier benchmark.
        let _ = fs::remove_file(log_of(place, name));
        if launch.program.is_none() {
            return Ok(Self { child: None, id: upstream.id, address: upstream.address, launch });
        }
        Self::spawn(place, name, launch, GATEWAY_CORE)
    }

    /// Whether it is a process that starts quickly.
    pub(super) const fn can_restart(&self) -> bool {
        self.child.is_some() && !self.launch.is_heavy
    }

    /// Ends it, and starts it again at the same address.
    pub(super) fn restarted(self, place: &Place, name: &str) -> Result<Self, String> {
        let launch = self.launch.clone();
        drop(self);
        Self::spawn(place, name, launch, GATEWAY_CORE)
    }

    fn spawn(place: &Place, name: &str, launch: Launch, core: &str) -> Result<Self, String> {
        let program = launch.program.as_ref().ok_or("nothing to start")?;
        let address = launch.address.ok_or("nowhere to listen")?;
        let log = log_of(place, name);
        let output = File::options().create(true).append(true).open(&log);
        let output = output.map_err(|error| format!("{}: {error}", log.display()))?;
        let errors = output.try_clone().map_err(|error| error.to_string())?;
        let child = Command::new("sh")
            .args(["-c", PINNED, "pinned", core])
            .arg(program)
            .args(&launch.arguments)
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&place.directory)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start: {error}"))?;
        let id = child.id();
        groups(|groups| groups.push(id));
        let mut running = Self { child: Some(child), id, address, launch };
        running.wait_until_it_listens().map_err(|why| format!("{why}; see {}", log.display()))?;
        Ok(running)
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let last = Instant::now() + START;
        while TcpStream::connect(self.address).is_err() {
            if let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) {
                return Err(format!("it ended immediately ({status})"));
            }
            if Instant::now() > last {
                return Err(format!("it does not listen after {} s", START.as_secs()));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

fn log_of(place: &Place, name: &str) -> PathBuf {
    place.directory.join(format!("{name}.log"))
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        signal("TERM", self.id);
        let last = Instant::now() + END;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < last {
            thread::sleep(Duration::from_millis(20));
        }
        // Children of it that are left.
        signal("KILL", self.id);
        let _ = child.wait();
        groups(|groups| groups.retain(|&group| group != self.id));
    }
}

/// Runs one of the two ends to its end and gives what it printed.
pub(super) fn end_of(place: &Place, words: &[String]) -> Result<String, String> {
    let output = Command::new("sh")
        .args(["-c", PINNED, "pinned", OTHER_CORE])
        .arg(&place.ends)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start the clients: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().next().unwrap_or("the clients failed").to_owned())
}

/// Ends everything, this command too, unless it has ended before.
pub(super) fn end_all_after(time: Duration) {
    thread::spawn(move || {
        thread::sleep(time);
        eprintln!("error: not done after {} s; everything is ended", time.as_secs());
        for group in groups(|groups| groups.clone()) {
            signal("KILL", group);
        }
        std::process::exit(1);
    });
}

/// An address that no process listens on.
pub(crate) fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|error| format!("no free port: {error}"))
}

/// Memory that a process holds, without its children, in MiB.
pub(super) fn resident_mib(running: &Running) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", running.id)).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().split(' ').next()?.parse().ok()?;
    Some(kib / 1024.0)
}

fn groups<T>(change: impl FnOnce(&mut Vec<u32>) -> T) -> T {
    change(&mut GROUPS.lock().unwrap_or_else(PoisonError::into_inner))
}

fn signal(name: &str, group: u32) {
    let _ = Command::new("kill")
        .args(["-s", name, "--", &format!("-{group}")])
        .stderr(Stdio::null())
        .status();
}
