//! Files by which someone outside acts on a live run: a pause, external signals.

use std::convert::Infallible;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use endstop::core::policy::Policy;

use crate::limits::{CONTROL_LOOK, MAX_REASON_BYTES};
use crate::output;

/// Files by which someone outside acts on a run.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ControlFiles {
    /// Pause the run while FILE exists
    ///
    /// No model call begins, and calls in flight finish. The first line of the file is the reason.
    #[arg(long, value_name = "FILE")]
    pause_file: Option<PathBuf>,
    /// Set signal NAME when FILE exists (repeatable)
    ///
    /// For a rule such as `signal("NAME")`.
    #[arg(long = "signal", value_name = "NAME=FILE", value_parser = signal_file)]
    signals: Vec<SignalFile>,
}

/// An external signal, and the file that sets it.
#[derive(Clone, Debug)]
struct SignalFile {
    name: String,
    file: PathBuf,
}

fn signal_file(text: &str) -> Result<SignalFile, String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok(SignalFile { name: name.to_owned(), file: file.into() })
        }
        _ => Err("expected NAME=FILE, such as review=/tmp/review".to_owned()),
    }
}

/// An act of someone outside.
pub(super) enum OutsideAct<'a> {
    Pause { by: &'a str, why: &'a str },
    Resume { by: &'a str },
    Signal { name: &'a str, by: &'a str },
}

impl ControlFiles {
    /// Watches the files until it is dropped, and passes their signals on.
    ///
    /// # Cancel safety
    /// Calling it again starts from the beginning: setting a signal twice changes nothing.
    pub(super) async fn watch(&self, act: impl Fn(OutsideAct<'_>)) -> Infallible {
        if self.pause_file.is_none() && self.signals.is_empty() {
            return std::future::pending().await;
        }
        let mut is_paused = false;
        let mut waiting: Vec<&SignalFile> = self.signals.iter().collect();
        loop {
            if let Some(file) = &self.pause_file
                && file.exists() != is_paused
            {
                is_paused = !is_paused;
                let by = file.display().to_string();
                match is_paused {
                    true => act(OutsideAct::Pause { by: &by, why: &first_line(file) }),
                    false => act(OutsideAct::Resume { by: &by }),
                }
            }
            waiting.retain(|signal| {
                let is_set = signal.file.exists();
                if is_set {
                    let by = signal.file.display().to_string();
                    act(OutsideAct::Signal { name: &signal.name, by: &by });
                }
                !is_set
            });
            tokio::time::sleep(CONTROL_LOOK).await;
        }
    }

    /// Prints how the external signals of a policy are set here.
    pub(super) fn tell_of_signals(&self, policy: &Policy) {
        for rule in &policy.rules {
            for name in rule.external_signals() {
                let id = &rule.id;
                match self.signals.iter().find(|signal| signal.name == name) {
                    Some(SignalFile { file, .. }) => output::note(&format!(
                        "rule {id} waits for the signal `{name}`: create `{}` to set it",
                        file.display()
                    )),
                    None => output::warn(&format!(
                        "rule {id} waits for the signal `{name}`, and nothing sets it: add --signal {name}=FILE"
                    )),
                }
            }
        }
    }
}

/// The reason that a pause file gives, which may be none.
fn first_line(file: &Path) -> String {
    let mut bytes = Vec::new();
    // The pause stands, whatever the file says.
    if let Ok(file) = std::fs::File::open(file) {
        let _ = file.take(MAX_REASON_BYTES).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    text.lines().next().unwrap_or_default().trim().to_owned()
}
