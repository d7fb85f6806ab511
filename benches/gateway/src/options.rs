//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use crate::bodies::Kind;

/// The options of the command line.
#[derive(Clone, Debug)]
pub struct Options {
    listen: Option<SocketAddr>,
    target: Option<SocketAddr>,
    upstream: Option<SocketAddr>,
    process: Option<u32>,
    /// The path of a call; `{connection}` stands for the number of the connection.
    pub path: String,
    /// Header lines in addition to those of every call, without line ends.
    pub headers: Vec<String>,
    /// The kind of request.
    pub kind: Kind,
    /// Microseconds between the events of a stream; 0 writes all of them at once.
    pub gap_us: u64,
    /// Connections that are open at the same time, with one call in flight each.
    pub connections: usize,
    /// The warm-up before the window.
    pub warmup: Duration,
    /// The measurement.
    pub window: Duration,
    /// Whether slow streams are held too.
    pub streams: bool,
}

impl Options {
    /// # Errors
    /// Where a word is unknown, or a value is missing or wrong.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let mut options = Self {
            listen: None,
            target: None,
            upstream: None,
            process: None,
            path: "/v1/chat/completions".to_owned(),
            headers: Vec::new(),
            kind: Kind::Json,
            gap_us: 0,
            connections: 1,
            warmup: Duration::from_millis(200),
            window: Duration::from_secs(1),
            streams: true,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--no-streams" {
                options.streams = false;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("`{word}` has no value"))?;
            options.take(word, value)?;
        }
        Ok(options)
    }

    fn take(&mut self, word: &str, value: &str) -> Result<(), String> {
        let wrong = || format!("`{word}` cannot be `{value}`");
        let number = || value.parse::<u64>().map_err(|_| wrong());
        let address = || value.parse::<SocketAddr>().map_err(|_| wrong());
        match word {
            "--listen" => self.listen = Some(address()?),
            "--target" => self.target = Some(address()?),
            "--upstream" => self.upstream = Some(address()?),
            "--process" => self.process = Some(value.parse().map_err(|_| wrong())?),
            "--path" => value.clone_into(&mut self.path),
            "--header" => self.headers.push(value.to_owned()),
            "--kind" => self.kind = Kind::named(value).ok_or_else(wrong)?,
            "--gap-us" => self.gap_us = number()?,
            "--connections" => self.connections = value.parse().map_err(|_| wrong())?,
            "--warmup-ms" => self.warmup = Duration::from_millis(number()?),
            "--window-ms" => self.window = Duration::from_millis(number()?),
            _ => return Err(format!("`{word}` is unknown")),
        }
        Ok(())
    }

    /// Where the upstream listens.
    pub fn listen(&self) -> Result<SocketAddr, String> {
        self.listen.ok_or_else(|| "--listen is missing".to_owned())
    }

    /// The server that is called: a gateway, or the upstream itself.
    pub fn target(&self) -> Result<SocketAddr, String> {
        self.target.ok_or_else(|| "--target is missing".to_owned())
    }

    /// Where the upstream's control paths are.
    pub fn upstream(&self) -> Result<SocketAddr, String> {
        self.upstream.ok_or_else(|| "--upstream is missing".to_owned())
    }

    /// The process that is measured, with its children.
    pub fn process(&self) -> Result<u32, String> {
        self.process.ok_or_else(|| "--process is missing".to_owned())
    }
}
