//! A shell script under `endstop run`, with no proxy and no certificates but those of the test.
#![allow(dead_code, reason = "each test has its part of these")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Variables of the machine that would lead calls elsewhere.
const OF_MACHINE: [&str; 15] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "NODE_USE_ENV_PROXY",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "OPENAI_BASE_URL",
    "ENDSTOP_BASE_URL",
];

/// A run that has ended.
pub(crate) struct Run {
    pub(crate) output: Output,
    /// The file of `--json-file`.
    pub(crate) told: Value,
}

impl Run {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// In one line.
    pub(crate) fn stderr(&self) -> String {
        let text = String::from_utf8_lossy(&self.output.stderr);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }
}

/// A new directory of a test.
pub(crate) fn directory(group: &str, test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(group).join(test);
    drop(std::fs::remove_dir_all(&directory));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// The command, without the variables of the machine.
pub(crate) fn endstop() -> Command {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    for name in OF_MACHINE {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs a script by `command`, which has the flags of `endstop run` except `--json-file`. In the script, the function
/// `function` runs the program of these lines, in Python.
pub(crate) fn run(
    mut command: Command,
    directory: &Path,
    function: &str,
    python: &str,
    script: &str,
) -> Run {
    let (file, helper) = (directory.join("run.json"), directory.join("helper.py"));
    std::fs::write(&helper, python).unwrap();
    command.env("HELPER", &helper).arg("--json-file").arg(&file);
    let script = format!("{function}() {{ python3 \"$HELPER\" \"$@\"; }}\n{script}");
    let output = command.args(["--", "/bin/sh", "-c", &script]).output().unwrap();
    let text = std::fs::read_to_string(&file);
    let text = text.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    Run { output, told: serde_json::from_str(&text).unwrap() }
}
