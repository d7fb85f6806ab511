//! A real server of Redis or Valkey for one test, on a free port of loopback, with a separate directory.
#![allow(dead_code, reason = "each test has its part of these")]
#![allow(clippy::print_stderr, reason = "a test that is skipped has to be seen")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The variable that names the program of the server, such as `valkey-server`.
const VARIABLE: &str = "ENDSTOP_REDIS_SERVER";

/// A server that ends with the test.
pub(crate) struct RedisServer {
    program: String,
    child: Child,
    port: u16,
    directory: PathBuf,
    options: Vec<String>,
}

impl RedisServer {
    /// A server that writes every change to the disk before it answers. `None` if no server is installed: then the test is
    /// skipped, which standard error says.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// The same with other options.
    pub(crate) fn start_with(options: &[&str]) -> Option<Self> {
        let Some(program) = Self::installed() else {
            eprintln!(
                "SKIPPED: neither redis-server nor valkey-server is installed; Debian has `redis-server`"
            );
            return None;
        };
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        // Another process can take the port before the server does.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let directory =
                std::env::temp_dir().join(format!("endstop-redis-{}-{port}", std::process::id()));
            std::fs::create_dir_all(&directory).unwrap();
            let child = spawn(&program, port, &directory, &options);
            let (program, options) = (program.clone(), options.clone());
            let mut server = Self { program, child, port, directory, options };
            if server.is_up() {
                return Some(server);
            }
        }
        panic!("{program} does not start");
    }

    /// The same with another port for TLS, with a certificate and its key in PEM. Returns that port too.
    pub(crate) fn start_tls(certificate: &str, key: &str) -> Option<(Self, u16)> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self::start_with(&[
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            certificate,
            "--tls-key-file",
            key,
            "--tls-ca-cert-file",
            certificate,
            "--tls-auth-clients",
            "no",
        ])?;
        Some((server, port))
    }

    /// Writes a snapshot, and returns its file as a backup.
    pub(crate) fn back_up(&self) -> Vec<u8> {
        let file = self.directory.join("dump.rdb");
        // One of before.
        let _ = std::fs::remove_file(&file);
        let answer = self.send(&["BGSAVE"]);
        assert!(answer.starts_with("+Background saving started"), "{answer}");
        // It has this name once it is complete.
        let begun = Instant::now();
        loop {
            match std::fs::read(&file) {
                Ok(snapshot) => return snapshot,
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "{error}"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts it with a snapshot alone, after it was killed.
    pub(crate) fn restore(&mut self, snapshot: &[u8]) {
        std::fs::write(self.directory.join("dump.rdb"), snapshot).unwrap();
        self.restart();
    }

    /// The program that is started: the one that `ENDSTOP_REDIS_SERVER` names, otherwise the first one that is installed.
    /// A named one that does not start is not a reason to skip a test.
    pub(crate) fn installed() -> Option<String> {
        let starts = |program: &str| {
            let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        };
        if let Ok(named) = std::env::var(VARIABLE) {
            assert!(starts(&named), "{VARIABLE} names `{named}`, which does not start");
            return Some(named);
        }
        ["redis-server", "valkey-server"].into_iter().find(|it| starts(it)).map(str::to_owned)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again with what it has on its disk.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.program, self.port, &self.directory, &self.options);
        assert!(self.is_up(), "it does not start again");
    }

    /// Sends commands of one line each, and returns the answers.
    pub(crate) fn send(&self, commands: &[&str]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let lines: String = commands.iter().map(|command| format!("{command}\r\n")).collect();
        stream.write_all(format!("{lines}QUIT\r\n").as_bytes()).unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        answers
    }

    /// Makes it answer no client for some time.
    pub(crate) fn hang(&self, time: Duration) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("CLIENT PAUSE {} ALL\r\n", time.as_millis()).as_bytes()).unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).unwrap();
    }

    fn is_up(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            let mut answer = [0; 5];
            let asked = stream.write_all(b"PING\r\n");
            // A server that loads its data says so.
            if asked.and_then(|()| stream.read_exact(&mut answer)).is_ok() && &answer != b"-LOAD" {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

fn spawn(program: &str, port: u16, directory: &PathBuf, options: &[String]) -> Child {
    Command::new(program)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .arg("--dir")
        .arg(directory)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
