//! `endstop agent` in a separate directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A separate directory for a test's runs.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME")).join(test);
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        command.env("XDG_STATE_HOME", &self.0).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        command.current_dir(&self.0).stdin(Stdio::null()).arg("agent").args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn ends_with(&self, code: i32, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{stdout}\n{stderr}");
        (stdout, stderr)
    }

    pub(crate) fn json(&self, code: i32, arguments: &[&str]) -> Value {
        let (stdout, _) = self.ends_with(code, &[&["--json"], arguments].concat());
        let value: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(
            (value["version"].as_i64(), value["exit_code"].as_i64()),
            (Some(1), Some(code.into()))
        );
        value
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Output as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
