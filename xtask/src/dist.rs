//! `cargo xtask dist`: everything that people install, made into `target/dist`.
//!
//! Archives are reproducible: their entries are sorted and have one fixed time. `--check` then installs each channel in a
//! clean environment, from packages that this task serves on loopback ([`check`]).

mod archive;
mod binary;
mod check;
mod content;
mod digest;
mod image;
mod licenses;
mod npm;
mod platform;
mod profile;
mod rustc;
mod sandbox;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use binary::{Binary, Build};
use content::Content;

/// The ways to install Endstop, by the names of `--channel`.
const CHANNELS: [&str; 6] = ["archive", "wheel", "npm", "image", "cargo", "action"];

/// How hard archives are compressed: well for releases, quickly for a binary that is only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    Release,
    Trial,
}

impl Effort {
    const fn level(self) -> u32 {
        match self {
            Self::Release => 9,
            Self::Trial => 1,
        }
    }
}

#[derive(Debug)]
struct Options<'a> {
    is_checked: bool,
    build: Build<'a>,
    channels: Vec<&'a str>,
}

/// The release: its files, and where they are.
#[derive(Debug)]
struct Release {
    version: String,
    /// `target/dist`.
    directory: PathBuf,
    /// Names of files in `directory`, in the order in which they were made.
    files: Vec<String>,
    effort: Effort,
}

impl Release {
    /// Writes a file of the release.
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.directory.join(name);
        fs::write(&path, bytes).map_err(|error| format!("`{}`: {error}", path.display()))?;
        println!("{:>9.1} MB  {name}", bytes.len() as f64 / 1e6);
        self.files.push(name.to_owned());
        Ok(())
    }
}

/// Makes the channels, and tries them with `--check`.
///
/// # Errors
/// If one cannot be made, or does not install and run.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let options = options(words)?;
    let binaries = binary::binaries(root, &options.build)?;
    let version = Binary::common_version(&binaries)?;
    let directory = root.join("target/dist");
    // Files of another version must not be published with these.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).map_err(|error| format!("`target/dist`: {error}"))?;
    let effort = match options.build {
        Build::Debug => Effort::Trial,
        _ => Effort::Release,
    };
    let mut release = Release { version, directory, files: Vec::new(), effort };
    let packaged = binaries.iter().find(|binary| !binary.is_static()).or(binaries.first());
    let archived = binaries.iter().find(|binary| binary.is_static()).or(binaries.first());
    let (Some(packaged), Some(archived)) = (packaged, archived) else {
        return Err("no binary".to_owned());
    };
    println!("wheel and npm packages: {packaged}\narchive and image: {archived}");
    let content = Content::collect(root, archived)?;
    for channel in &options.channels {
        match *channel {
            "archive" => archive::make(root, &mut release, archived, &content)?,
            "wheel" => wheel::make(root, &mut release, packaged, &content)?,
            "npm" => npm::make(root, &mut release, packaged, &content)?,
            "image" => image::make(&mut release, archived, &content)?,
            _ => {}
        }
    }
    digest::write_sums(&mut release)?;
    if options.is_checked {
        check::run(root, &release, &options.channels)?;
    }
    Ok(())
}

fn options<'a>(words: &[&'a str]) -> Result<Options<'a>, String> {
    let mut options =
        Options { is_checked: false, build: Build::Release(None), channels: Vec::new() };
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
        match word {
            "--check" => options.is_checked = true,
            "--debug" => options.build = Build::Debug,
            "--target" => options.build = Build::Release(Some(value()?)),
            "--binary" => {
                let file = value()?;
                match &mut options.build {
                    Build::Given(files) => files.push(file),
                    other => *other = Build::Given(vec![file]),
                }
            }
            "--channel" => {
                let name = value()?;
                if !CHANNELS.contains(&name) {
                    return Err(format!("no channel `{name}`; they are {}", CHANNELS.join(", ")));
                }
                options.channels.push(name);
            }
            other => return Err(format!("`{other}` is no option of `dist`")),
        }
    }
    if options.channels.is_empty() {
        options.channels = CHANNELS.to_vec();
    }
    Ok(options)
}

#[cfg(test)]
mod tests;
