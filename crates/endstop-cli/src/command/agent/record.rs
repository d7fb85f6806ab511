//! `--record`: the trace of a run, its stored part included.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use endstop::agent::AgentState;
use endstop::model::Model;
use endstop::observe::{RunInfo, TraceRecorder, trace_header};
use endstop::store::{Store, stored_lines};
use endstop_price::PriceTable;

use super::keep;
use crate::error::CliError;
use crate::output;

/// A file that is created once everything else is known to be right: a run that cannot begin does not destroy an
/// existing file.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    file: Late,
    pub(super) recorder: Arc<TraceRecorder>,
    prices: &'static PriceTable,
}

#[derive(Clone, Debug, Default)]
struct Late(Arc<OnceLock<File>>);

impl Write for Late {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.get() {
            Some(mut file) => file.write(bytes),
            None => Err(io::Error::other("the file has not been created")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Record {
    /// A record that is not begun.
    ///
    /// # Errors
    /// Returns an error if the file is one of `sources`, which the run reads.
    pub(super) fn new(
        path: &Path,
        sources: &[&Path],
        prices: &'static PriceTable,
    ) -> Result<Self, CliError> {
        let real = path.canonicalize().ok();
        let is_same = |source: &Path| real.is_some() && source.canonicalize().ok() == real;
        if sources.iter().any(|source| is_same(source)) {
            let problem = format!("`{}` is read by this run and would be lost", path.display());
            return Err(CliError::new(problem).with_hint("name another file after --record"));
        }
        let file = Late::default();
        let recorder = TraceRecorder::one_file(file.clone()).prices(prices.version());
        let recorder = Arc::new(recorder.continues(true));
        Ok(Self { path: path.to_owned(), file, recorder, prices })
    }

    /// Creates the file, and writes the stored part of a resumed run.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written or the store cannot be read.
    pub(super) async fn begin(
        &self,
        state: &AgentState,
        model: &dyn Model,
        store: Option<&dyn Store>,
    ) -> Result<(), CliError> {
        let failed = |error: io::Error| CliError::cannot_write(&self.path, &error);
        let mut out = io::BufWriter::new(output::create_private(&self.path).map_err(failed)?);
        if let (Some(store), true) = (store, state.execution.core.is_some()) {
            let info = RunInfo {
                id: state.id.clone(),
                parent: None,
                agent: String::new(),
                model: model.name().to_owned(),
                provider: model.provider().to_owned(),
                depth: 0,
                is_resumed: true,
            };
            let header = trace_header(&info, Some(self.prices.version()));
            out.write_all(header.as_bytes()).map_err(failed)?;
            let lines = stored_lines(store, &state.id, 0).await;
            for line in lines.map_err(|error| keep::failed(&error))? {
                writeln!(out, "{line}").map_err(failed)?;
            }
        }
        let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        self.file.0.get_or_init(|| file);
        Ok(())
    }

    /// Reports problems in writing it.
    pub(super) fn tell_of_problems(&self) {
        if let Some((run, error)) = self.recorder.problems().first {
            output::warn(&format!("the record of run `{run}` is cut short: {error}"));
        }
    }
}

/// The file that a replayed model answers from.
pub(super) fn replayed(model: &str) -> Option<&Path> {
    model.strip_prefix("replay:").map(Path::new)
}
