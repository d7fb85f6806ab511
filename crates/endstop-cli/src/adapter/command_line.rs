//! Which known program a command line starts, and where its own arguments begin.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::{AgentProgram, PROGRAMS};

/// A command line that starts a known program.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    pub(crate) program: &'static AgentProgram,
    /// The index of the program's first own argument.
    pub(super) insert_at: usize,
    /// The program's own arguments.
    pub(super) arguments: Vec<OsString>,
    /// Variables that `env` sets before the program.
    pub(super) assigned: Vec<(String, String)>,
}

/// The runner that takes options from anywhere before `--`.
const NPM: &str = "npm";
/// Programs that start one of a package, and what stands between their name and the package.
const RUNNERS: &[(&str, &[&str])] = &[
    ("npx", &[]),
    ("pnpx", &[]),
    ("bunx", &[]),
    ("uvx", &[]),
    (NPM, &["exec"]),
    (NPM, &["x"]),
    ("pnpm", &["dlx"]),
    ("pnpm", &["exec"]),
    ("yarn", &["dlx"]),
    ("yarn", &["exec"]),
    ("bun", &["x"]),
    ("pipx", &["run"]),
    ("uv", &["tool", "run"]),
    ("uv", &["run"]),
    ("poetry", &["run"]),
];
/// Programs that start another one, and take no arguments themselves.
const WRAPPERS: &[&str] = &["nohup", "time", "command"];
/// Programs that end another one after a time, which goes before it.
const TIMERS: &[&str] = &["timeout", "gtimeout"];
/// Options of these that take the next word.
const TIMER_VALUES: &[&str] = &["-s", "--signal", "-k", "--kill-after"];
/// Options of runners that take the next word.
const WITH_VALUE: &[&str] = &["-p", "--package", "--from", "--with", "--python", "--project"];
/// Options of runners whose next word is a whole command line.
const CALLS: &[&str] = &["-c", "--call"];
const INTERPRETERS: &[&str] = &["node", "bun", "deno"];
const SCRIPT_ENDINGS: &[&str] = &["js", "mjs", "cjs"];

impl Invocation {
    /// Reads a command line. `None` if it starts no known program, or in a way that is not read.
    pub(crate) fn of(command: &[OsString]) -> Option<Self> {
        let words: Vec<&str> = command.iter().map(|word| word.to_str().unwrap_or("")).collect();
        let mut assigned = Vec::new();
        let mut at = 0;
        loop {
            let name = file_name(words.get(at)?);
            if name == "env" {
                at = after_env(&words, at.saturating_add(1), &mut assigned)?;
            } else if TIMERS.contains(&name) {
                at = after_time(&words, at.saturating_add(1))?;
            } else if WRAPPERS.contains(&name) {
                at = at.saturating_add(1);
            } else {
                break;
            }
        }
        let (program, last) = program_at(&words, at)?;
        let insert_at = last.saturating_add(1);
        let arguments = command.get(insert_at..).unwrap_or_default().to_vec();
        Some(Self { program, insert_at, arguments, assigned })
    }
}

/// The program, and the index of the word that names it.
fn program_at(words: &[&str], at: usize) -> Option<(&'static AgentProgram, usize)> {
    let word = *words.get(at)?;
    let name = file_name(word);
    let rest = words.get(at.saturating_add(1)..).unwrap_or_default();
    if let Some((_, between)) =
        RUNNERS.iter().find(|(runner, between)| *runner == name && rest.starts_with(between))
    {
        let begin = at.saturating_add(between.len()).saturating_add(1);
        let package = after_options(words, begin)?;
        let spec = words.get(package)?;
        let program = PROGRAMS.iter().find(|program| has_package(program, spec))?;
        let last = if name == NPM { after_dashes(words, begin, package)? } else { package };
        return Some((program, last));
    }
    if INTERPRETERS.contains(&name) {
        let script = at.saturating_add(1);
        let path = Path::new(words.get(script)?);
        let is_script = path.extension().and_then(OsStr::to_str);
        let is_script = is_script.is_some_and(|ending| SCRIPT_ENDINGS.contains(&ending));
        return PROGRAMS
            .iter()
            .find(|program| is_script && has_script(program, path))
            .map(|it| (it, script));
    }
    PROGRAMS.iter().find(|program| program.commands.contains(&name)).map(|it| (it, at))
}

/// The name of a program, without its directory.
fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The index of the first word after the options and assignments of `env`. `None` with options that change more than
/// variables.
fn after_env(words: &[&str], mut at: usize, assigned: &mut Vec<(String, String)>) -> Option<usize> {
    loop {
        let word = words.get(at)?;
        match word.split_once('=') {
            _ if *word == "-u" || *word == "--unset" => {
                let name = (*words.get(at.saturating_add(1))?).to_owned();
                assigned.push((name, String::new()));
                at = at.saturating_add(2);
            }
            _ if *word == "--" => at = at.saturating_add(1),
            _ if word.starts_with('-') => return None,
            Some((name, value)) => {
                assigned.push((name.to_owned(), value.to_owned()));
                at = at.saturating_add(1);
            }
            None => return Some(at),
        }
    }
}

/// The index of the first word after the options and the time of `timeout`.
fn after_time(words: &[&str], mut at: usize) -> Option<usize> {
    loop {
        let word = words.get(at)?;
        let step = match word {
            word if TIMER_VALUES.contains(word) => 2,
            word if word.starts_with('-') => 1,
            _ => return Some(at.saturating_add(1)),
        };
        at = at.saturating_add(step);
    }
}

/// The index of the last word before the program's own arguments, for a package that npm starts. `None` if npm would take
/// options among these as its own.
fn after_dashes(words: &[&str], begin: usize, package: usize) -> Option<usize> {
    let has_dashes = words.get(begin..package)?.contains(&"--");
    let next = package.saturating_add(1);
    match words.get(next) {
        _ if has_dashes => Some(package),
        Some(&"--") => Some(next),
        _ => None,
    }
}

/// The index of the first word that is no option of a runner.
fn after_options(words: &[&str], mut at: usize) -> Option<usize> {
    loop {
        let word = words.get(at)?;
        if CALLS.contains(word) {
            return None;
        }
        let step = match word {
            word if WITH_VALUE.contains(word) => 2,
            word if word.starts_with('-') => 1,
            _ => return Some(at),
        };
        at = at.saturating_add(step);
    }
}

/// Whether `NAME`, `NAME@VERSION` or `NAME==VERSION` is a package or a command of the program.
fn has_package(program: &AgentProgram, spec: &str) -> bool {
    let name = spec.split_once("==").map_or(spec, |(name, _)| name);
    // The first character of a scoped package is an `@` too.
    let at = name.char_indices().skip(1).find(|(_, letter)| *letter == '@').map(|(at, _)| at);
    let name = name.get(..at.unwrap_or(name.len())).unwrap_or(name);
    program.packages.contains(&name) || program.commands.contains(&name)
}

/// Whether a script is the program's: by its name, or by the package that it lies in.
fn has_script(program: &AgentProgram, script: &Path) -> bool {
    let stem = script.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    if program.commands.contains(&stem) {
        return true;
    }
    let path = script.to_string_lossy();
    program.packages.iter().any(|package| path.contains(&format!("/node_modules/{package}/")))
}

#[cfg(test)]
mod tests;
