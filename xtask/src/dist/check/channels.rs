//! One trial for each way to install.

mod action;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::shelf::Shelf;
use super::{First, Outcome};
use crate::dist::image;
use crate::dist::sandbox::{Sandbox, exits};
use crate::dist::{Effort, Release};

/// One way to install.
#[derive(Debug)]
pub(super) struct Trial {
    /// The channel that it belongs to.
    pub(super) channel: &'static str,
    pub(super) name: &'static str,
    /// Whether it brings a binary, which has to be quick.
    pub(super) is_binary: bool,
    pub(super) run: fn(&Place<'_>) -> Result<Outcome, String>,
}

/// The things that a trial works with.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) root: &'a Path,
    pub(super) release: &'a Release,
    pub(super) shelf: &'a Shelf,
    pub(super) sandbox: &'a Sandbox,
    pub(super) first: &'a First,
}

/// Every way to install.
pub(super) const TRIALS: &[Trial] = &[
    binary("archive", "install.sh", installer),
    binary("wheel", "pip", pip),
    binary("wheel", "uvx", uvx),
    binary("npm", "npm install", npm),
    binary("npm", "npx", npx),
    binary("image", "image", image),
    Trial { is_binary: false, ..binary("cargo", "cargo install", cargo) },
    binary("action", "action", action::scripts),
];

const fn binary(
    channel: &'static str,
    name: &'static str,
    run: fn(&Place<'_>) -> Result<Outcome, String>,
) -> Trial {
    Trial { channel, name, is_binary: true, run }
}

impl Place<'_> {
    /// Runs the first command of an installation.
    fn first(&self, command: &mut Command) -> Result<(), String> {
        exits(command.args(self.first.words), self.first.code).map(drop)
    }

    /// The file of the release with this ending.
    fn file(&self, ending: &str) -> Result<PathBuf, String> {
        let name = self.release.files.iter().find(|name| name.ends_with(ending));
        name.map(|name| self.release.directory.join(name)).ok_or(format!("no file `..{ending}`"))
    }
}

fn gone(path: &Path) -> Result<(), String> {
    if path.exists() { Err(format!("`{}` is left behind", path.display())) } else { Ok(()) }
}

fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// The script as people run it; then with an archive that was changed on its way; then removal.
fn installer(place: &Place<'_>) -> Result<Outcome, String> {
    let started = Instant::now();
    let run = |files: &str, arguments: &str| {
        let mut sh = place.sandbox.command("sh");
        sh.env("ENDSTOP_DOWNLOAD", place.shelf.url(files));
        let script = place.shelf.url("files/install.sh");
        sh.args(["-c", &format!("curl -fsSL {script} | sh -s -- {arguments}")]);
        sh
    };
    exits(&mut run("files", ""), 0)?;
    let binary = place.sandbox.path("home/.local/bin/endstop");
    place.first(&mut place.sandbox.command(&binary))?;
    let time = started.elapsed();
    for page in ["man/man1/endstop-run.1", "bash-completion/completions/endstop"] {
        let page = place.sandbox.path("home/.local/share").join(page);
        fs::metadata(&page).map_err(|error| format!("`{}`: {error}", page.display()))?;
    }
    exits(&mut run("changed", ""), 1).map_err(|error| format!("a changed archive: {error}"))?;
    exits(&mut run("files", "--remove"), 0)?;
    gone(&binary)?;
    gone(&place.sandbox.path("home/.local/share/man/man1/endstop-run.1"))?;
    Ok(Outcome::Ran(time))
}

fn pip(place: &Place<'_>) -> Result<Outcome, String> {
    let started = Instant::now();
    let venv = place.sandbox.path("venv");
    exits(place.sandbox.command("python3").args(["-m", "venv"]).arg(&venv), 0)?;
    let pip = |words: &[&str]| {
        let mut pip = place.sandbox.command(venv.join("bin/pip"));
        pip.args(words);
        exits(&mut pip, 0)
    };
    let index = place.shelf.url("simple/");
    pip(&[
        "install",
        "--no-cache-dir",
        "--quiet",
        "--disable-pip-version-check",
        "--index-url",
        &index,
        "endstop",
    ])?;
    let binary = venv.join("bin/endstop");
    place.first(&mut place.sandbox.command(&binary))?;
    let time = started.elapsed();
    pip(&["uninstall", "--quiet", "--yes", "endstop"])?;
    gone(&binary)?;
    Ok(Outcome::Ran(time))
}

/// uv itself is brought first, and not timed.
fn uvx(place: &Place<'_>) -> Result<Outcome, String> {
    let tools = place.root.join("target/dist-tools");
    if !tools.join("bin/uvx").exists() {
        let made = exits(Command::new("python3").args(["-m", "venv"]).arg(&tools), 0);
        let install = ["install", "--quiet", "--disable-pip-version-check", "uv"];
        if let Err(why) =
            made.and_then(|_| exits(Command::new(tools.join("bin/pip")).args(install), 0))
        {
            return Ok(Outcome::Skipped(format!("uv cannot be installed: {why}")));
        }
    }
    let started = Instant::now();
    let mut uvx = place.sandbox.command(tools.join("bin/uvx"));
    uvx.args(["--quiet", "--default-index", &place.shelf.url("simple/"), "endstop"]);
    place.first(&mut uvx)?;
    Ok(Outcome::Ran(started.elapsed()))
}

fn npm_command(place: &Place<'_>, program: &str) -> Command {
    let mut npm = place.sandbox.command(program);
    npm.env("npm_config_registry", place.shelf.url("npm/"));
    npm.env("npm_config_cache", place.sandbox.path("npm-cache"));
    npm.env("npm_config_update_notifier", "false");
    npm
}

/// The package, its exit codes, and a signal that reaches the binary.
fn npm(place: &Place<'_>) -> Result<Outcome, String> {
    if !has("npm") {
        return Ok(Outcome::Skipped("npm is not installed".to_owned()));
    }
    let started = Instant::now();
    let mut install = npm_command(place, "npm");
    exits(install.args(["install", "--no-audit", "--no-fund", "--silent", "endstop"]), 0)?;
    let program = place.sandbox.path("home/node_modules/.bin/endstop");
    place.first(&mut place.sandbox.command(&program))?;
    let time = started.elapsed();
    let mut run = place.sandbox.command(&program);
    run.args(["run", "--steps", "3", "--upstream", "sim", "--quiet", "--", "sh", "-c", "exit 7"]);
    exits(&mut run, 7)?;
    serves_until_told(&mut place.sandbox.command(&program))?;
    exits(npm_command(place, "npm").args(["uninstall", "--silent", "endstop"]), 0)?;
    gone(&program)?;
    Ok(Outcome::Ran(time))
}

fn npx(place: &Place<'_>) -> Result<Outcome, String> {
    if !has("npx") {
        return Ok(Outcome::Skipped("npx is not installed".to_owned()));
    }
    let started = Instant::now();
    let mut npx = npm_command(place, "npx");
    place.first(npx.args(["--yes", "endstop"]))?;
    Ok(Outcome::Ran(started.elapsed()))
}

/// Starts `serve`, waits until it listens, and asks it to end.
fn serves_until_told(command: &mut Command) -> Result<(), String> {
    command.args(["serve", "--listen", "127.0.0.1:0", "--steps", "3"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start `serve`: {error}"))?;
    let mut heard = Vec::new();
    // It is announced on one of the two.
    let (sender, receiver) = std::sync::mpsc::channel();
    let output = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn std::io::Read + Send>);
    let errors = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn std::io::Read + Send>);
    for pipe in [output, errors].into_iter().flatten() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
    }
    drop(sender);
    for line in &receiver {
        let listens = line.contains("listening on http://");
        heard.push(line);
        if listens {
            break;
        }
    }
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    told.map_err(|error| format!("cannot start `kill`: {error}"))?;
    // The lines end with the last process that could write them, so this also waits for a binary that was left behind.
    heard.extend(&receiver);
    let status = child.wait().map_err(|error| format!("`serve`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`serve`: {status}\n{}", heard.join("\n"))) }
}

/// Unpacks the layers as the manifest names them, and runs the program in them as the image's user.
fn image(place: &Place<'_>) -> Result<Outcome, String> {
    let started = Instant::now();
    let Ok(file) = place.file(".tar") else {
        return Ok(Outcome::Skipped("it is made on Linux".to_owned()));
    };
    let (layout, root) = (place.sandbox.path("layout"), place.sandbox.path("root"));
    for directory in [&layout, &root] {
        fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    }
    exits(Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(&layout), 0)?;
    let index = json(&layout.join("index.json"))?;
    let manifest = json(&blob(&layout, index.pointer("/manifests/0"))?)?;
    let config = json(&blob(&layout, manifest.get("config"))?)?;
    let layer = blob(&layout, manifest.pointer("/layers/0"))?;
    let id = exits(Command::new("id").arg("-u"), 0)?;
    if id.trim() != "0" {
        return Ok(Outcome::Skipped("only root may use chroot".to_owned()));
    }
    exits(Command::new("tar").arg("-xzf").arg(&layer).arg("-C").arg(&root), 0)?;
    // As an engine does, with `/proc`, in a mount namespace that ends with the command.
    let inside = || {
        let mut chroot = Command::new("unshare");
        chroot.args(["--mount", "sh", "-c", INSIDE, "sh"]).arg(&root);
        let user = config.pointer("/config/User").and_then(Value::as_str).unwrap_or_default();
        chroot.arg(format!("--userspec={user}")).arg(&root).arg(format!("/{}", image::PROGRAM));
        let variables = config.pointer("/config/Env").and_then(Value::as_array);
        let pairs = variables.into_iter().flatten().filter_map(|it| it.as_str()?.split_once('='));
        // `PATH` is needed to find `chroot` itself.
        chroot.env_clear().envs(pairs.filter(|(name, _)| *name != "PATH"));
        chroot.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        chroot
    };
    if config.pointer("/config/User").is_none_or(|user| user != image::USER) {
        return Err("the image runs as root".to_owned());
    }
    place.first(&mut inside())?;
    let time = started.elapsed();
    serves_until_told(&mut inside())?;
    Ok(Outcome::Ran(time))
}

fn json(path: &Path) -> Result<Value, String> {
    let failed = |error: &dyn std::fmt::Display| format!("`{}`: {error}", path.display());
    let bytes = fs::read(path).map_err(|error| failed(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| failed(&error))
}

/// The file that a descriptor points to, if it has the digest and the size that it says.
fn blob(layout: &Path, descriptor: Option<&Value>) -> Result<PathBuf, String> {
    let descriptor = descriptor.ok_or("the image has another form")?;
    let digest = descriptor.get("digest").and_then(Value::as_str).unwrap_or_default();
    let digest = digest.strip_prefix("sha256:").ok_or("a blob without a SHA-256")?;
    let path = layout.join("blobs/sha256").join(digest);
    let bytes = fs::read(&path).map_err(|error| format!("`{}`: {error}", path.display()))?;
    let size = descriptor.get("size").and_then(Value::as_u64);
    if crate::dist::digest::hex(&bytes) != digest || u64::try_from(bytes.len()).ok() != size {
        return Err(format!("blob {digest} is not what its descriptor says"));
    }
    Ok(path)
}

const INSIDE: &str = r#"mount -t proc proc "$1/proc" && shift && exec chroot "$@""#;

/// The list of files that are published for `cargo install`, and an installation from the checkout, which builds
/// without a profile; `cargo xtask nightly` builds from the packages.
fn cargo(place: &Place<'_>) -> Result<Outcome, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["package", "--list", "--allow-dirty", "--package", "endstop-cli"]);
    let list = exits(cargo.current_dir(place.root), 0)?;
    for file in ["Cargo.toml", "Cargo.lock", "src/main.rs", "README.md"] {
        if !list.lines().any(|line| line == file) {
            return Err(format!("the package of `endstop-cli` has no `{file}`"));
        }
    }
    let started = Instant::now();
    let installed = place.sandbox.path("cargo");
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| place.root.join("target"), PathBuf::from);
    // The tools of Rust are in the home directory of the user, and not in that of the sandbox.
    let mut install = Command::new("cargo");
    install.args(["install", "--quiet", "--locked", "--path", "crates/endstop-cli"]);
    install.arg("--root").arg(&installed).arg("--target-dir").arg(target);
    if place.release.effort == Effort::Trial {
        install.arg("--debug");
    }
    exits(install.current_dir(place.root), 0)?;
    let binary = installed.join("bin/endstop");
    place.first(&mut place.sandbox.command(&binary))?;
    let time = started.elapsed();
    let mut uninstall = Command::new("cargo");
    uninstall.args(["uninstall", "--quiet", "endstop-cli", "--root"]).arg(&installed);
    exits(&mut uninstall, 0)?;
    gone(&binary)?;
    Ok(Outcome::Ran(time))
}
