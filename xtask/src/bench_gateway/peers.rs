//! The other gateways: installed from their packages below `target/bench-gateway`, once.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Place;
use super::process::{Launch, free_address};

pub(crate) const LITELLM: &str = "1.106.2";
const PORTKEY: &str = "1.15.2";
/// How long an installation may take, in seconds.
const INSTALLATION: &str = "600";

/// Installs LiteLLM's proxy once, below the directory of the benchmark of gateways. Returns its program.
pub(crate) fn litellm_program(directory: &Path) -> Result<PathBuf, String> {
    let directory = directory.join("litellm");
    let venv = directory.join("venv");
    once(&directory, LITELLM, || {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let package = format!("litellm[proxy]=={LITELLM}");
        succeed(bounded(&venv.join("bin/pip")).args(["install", "--quiet", &package]))
    })?;
    Ok(venv.join("bin/litellm"))
}

/// LiteLLM's proxy: one worker, no database, no telemetry.
pub(super) fn litellm(place: &Place) -> Result<Launch, String> {
    let directory = place.directory.join("litellm");
    let program = litellm_program(&place.directory)?;
    // It refuses keys that are well known.
    let key = format!("sk-{}", random_word()?);
    let configuration = format!(
        "model_list:\n  - model_name: gpt-5.4\n    litellm_params:\n      model: openai/gpt-5.4\n      \
         api_base: http://{}/v1\n      api_key: upstream\n\
         general_settings:\n  master_key: {key}\n\
         litellm_settings:\n  telemetry: false\n  num_retries: 0\n",
        place.upstream
    );
    let file = directory.join("config.yaml");
    fs::write(&file, configuration).map_err(|error| format!("{}: {error}", file.display()))?;
    let address = free_address()?;
    let line =
        format!("--host {} --port {} --num_workers 1 --config", address.ip(), address.port());
    let mut arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
    arguments.push(file.display().to_string());
    Ok(Launch {
        program: Some(program),
        arguments,
        environment: vec![
            // Without, it fetches prices when it starts.
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True".to_owned()),
            ("LITELLM_LOG", "ERROR".to_owned()),
        ],
        address: Some(address),
        headers: vec![format!("authorization: Bearer {key}")],
        is_heavy: true,
        ..Launch::default()
    })
}

/// Portkey's open gateway, on Node.
pub(super) fn portkey(place: &Place) -> Result<Launch, String> {
    let directory = place.directory.join("portkey");
    let script = directory.join("node_modules/@portkey-ai/gateway/build/start-server.js");
    once(&directory, PORTKEY, || {
        let package = format!("@portkey-ai/gateway@{PORTKEY}");
        let mut npm = bounded(Path::new("npm"));
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]);
        succeed(npm.arg(&directory).arg(&package))
    })?;
    let address = free_address()?;
    Ok(Launch {
        program: Some(PathBuf::from("node")),
        arguments: vec![
            script.display().to_string(),
            format!("--port={}", address.port()),
            "--headless".to_owned(),
        ],
        address: Some(address),
        headers: vec![
            "authorization: Bearer upstream".to_owned(),
            "x-portkey-provider: openai".to_owned(),
            format!("x-portkey-custom-host: http://{}/v1", place.upstream),
        ],
        is_heavy: true,
        no_streams: Some("its streams fail on Node 20 (TypeError: immutable)"),
        ..Launch::default()
    })
}

/// nginx: that of the system, or otherwise that of its Debian package, unpacked.
pub(super) fn nginx_program(directory: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for program in ["nginx", "/usr/sbin/nginx"] {
        if Command::new(program).arg("-v").output().is_ok() {
            return Ok(PathBuf::from(program));
        }
    }
    let unpacked = directory.join("usr/sbin/nginx");
    once(directory, "package", || {
        succeed(bounded(Path::new("apt-get")).args(["download", "nginx"]).current_dir(directory))?;
        let package = fs::read_dir(directory)
            .map_err(|error| error.to_string())?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|ending| ending == "deb"))
            .ok_or("apt-get downloaded no package")?;
        succeed(Command::new("dpkg-deb").arg("-x").arg(package).arg(directory))
    })?;
    Ok(unpacked)
}

/// Does it, unless a mark says that it was done for this version.
fn once(
    directory: &Path,
    version: &str,
    install: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mark = directory.join(format!("installed-{version}"));
    if mark.exists() {
        return Ok(());
    }
    fs::create_dir_all(directory).map_err(failed)?;
    println!("installing into {}", directory.display());
    install()?;
    fs::write(mark, "").map_err(failed)
}

fn bounded(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg(INSTALLATION).arg(program);
    command
}

fn succeed(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}`: {status}", command.get_program().display())),
        Err(error) => Err(format!("`{}`: {error}", command.get_program().display())),
    }
}

/// Sixteen letters that are not predictable.
pub(crate) fn random_word() -> Result<String, String> {
    let mut bytes = [0_u8; 16];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| format!("/dev/urandom: {error}"))?;
    Ok(bytes.iter().map(|byte| char::from(b'a' + byte % 26)).collect())
}
