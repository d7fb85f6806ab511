//! The command of a run with what its adapter adds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use endstop::core::policy::Policy;
use endstop::store::RunId;
use endstop_gateway::Gateway;

use super::bundle::{self, Bundle};
use super::environment;
use crate::adapter::{
    Adaptation, InterceptEffect, Invocation, PrivateDirectory, ThisHost, executable,
};
use crate::budgets::DrawnBudgets;
use crate::defaults::{DRAWN_FILE_VARIABLE, DRAWN_VARIABLE};
use crate::error::{CliError, ExitMeaning};
use crate::output;

/// The part of an adapter that a run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdapterUse {
    /// All of it.
    Additions,
    /// Where the calls of the program go, with `--intercept`: nothing is added, and the program keeps its own addresses.
    Facts,
    /// The names of the keys that the program reads, with `--no-adapter`.
    Keys,
}

/// A command, and its adapter if its program has one.
pub(super) struct AdaptedCommand<'a> {
    command: &'a [OsString],
    invocation: Option<Invocation>,
    adapter_use: AdapterUse,
    /// For the files of the adapter; removed when this is dropped.
    directory: PrivateDirectory,
    is_sim: bool,
    /// The budgets that count the program's calls, for an Endstop that it starts.
    drawn: DrawnBudgets,
}

/// The command line and the variables to start with.
pub(super) struct Start {
    pub(super) command: Vec<OsString>,
    pub(super) variables: BTreeMap<&'static str, String>,
}

impl<'a> AdaptedCommand<'a> {
    pub(super) fn of(
        command: &'a [OsString],
        adapter_use: AdapterUse,
        is_sim: bool,
        id: &RunId,
    ) -> Self {
        let invocation = Invocation::of(command);
        let directory = Invocation::directory(&ThisHost, id.as_str());
        let drawn = DrawnBudgets::default();
        Self { command, invocation, adapter_use, directory, is_sim, drawn }
    }

    /// The same command, with the budgets that count its calls in its environment.
    pub(super) fn drawing_on(self, drawn: DrawnBudgets) -> Self {
        Self { drawn, ..self }
    }

    fn adaptation(&self, base: &str) -> Adaptation {
        let adapt = |invocation: &Invocation| {
            invocation.adapt(&ThisHost, base, self.directory.path(), self.is_sim)
        };
        let adaptation = self.invocation.as_ref().map(adapt).unwrap_or_default();
        match self.adapter_use {
            AdapterUse::Additions => adaptation,
            AdapterUse::Facts => adaptation.without_additions(),
            AdapterUse::Keys => Adaptation::default(),
        }
    }

    /// The upstreams that the program's calls go to, by their variables.
    pub(super) fn upstreams(&self) -> BTreeMap<&'static str, String> {
        self.adaptation("").upstreams
    }

    /// Whether the program's calls do not come to the gateway.
    pub(super) fn goes_elsewhere(&self) -> bool {
        self.adaptation("").elsewhere.is_some()
    }

    /// Refuses a program whose calls go elsewhere under rules that then hold nothing.
    ///
    /// # Errors
    /// Returns an error if the policy limits steps, tokens or money, and this is not a dry run.
    pub(super) fn check(&self, policy: &Policy, is_dry_run: bool) -> Result<(), CliError> {
        let Some(elsewhere) = self.adaptation("").elsewhere else { return Ok(()) };
        let intercepts = self.adapter_use == AdapterUse::Facts;
        if intercepts && elsewhere.intercepted == InterceptEffect::Unknown {
            output::warn(&format!(
                "{}; --intercept limits only those to addresses of model providers",
                elsewhere.what
            ));
            return Ok(());
        }
        let bounds = policy.bounds();
        let is_limited = bounds.cost.is_some() || bounds.tokens.is_some() || bounds.steps.is_some();
        if is_limited && !is_dry_run {
            let either = if intercepts { "; --intercept does not help" } else { "" };
            let error =
                CliError::new(format!("{}{either}, so no limit would apply", elsewhere.what));
            return Err(error.with_hint(elsewhere.hint).with_exit(ExitMeaning::OwnFailure));
        }
        output::warn(&format!("{}: none is counted", elsewhere.what));
        Ok(())
    }

    fn cannot_write(&self, name: &str, error: &io::Error) -> CliError {
        let path = self.directory.path().display();
        CliError::new(format!("cannot write the settings of {name} to `{path}`: {error}"))
            .with_hint("pass --no-adapter to run the command as it is")
    }

    /// Has the command trust the gateway, and see its provider's own addresses.
    fn intercept(
        &mut self,
        authority: &str,
        variables: &mut BTreeMap<&'static str, String>,
        is_verbose: bool,
    ) -> Result<(), CliError> {
        let get = |name: &str| std::env::var(name).ok();
        let bundle = Bundle::new(authority, get).map_err(|(path, error)| {
            CliError::new(format!("cannot read the certificates of `{}`: {error}", path.display()))
                .with_hint("--intercept adds its certificate to those that a variable such as SSL_CERT_FILE names")
        })?;
        if bundle.lacks_roots {
            output::warn(
                "--intercept: this system has no file of root certificates; programs may trust no other host",
            );
        }
        let written = self.directory.create();
        let written = written.and_then(|()| self.directory.fill(&bundle.files, &[]));
        written.map_err(|error| {
            let path = self.directory.path().display();
            CliError::new(format!(
                "cannot write the certificates of --intercept to `{path}`: {error}"
            ))
        })?;
        let kept = bundle::kept_bases(get);
        for name in &kept {
            variables.remove(name);
        }
        if is_verbose {
            let set: Vec<&str> = bundle.variables.keys().copied().collect();
            output::note(&format!("endstop: --intercept: sets {}", set.join(", ")));
            if !kept.is_empty() {
                output::note(&format!(
                    "endstop: --intercept: leaves {} as before",
                    kept.join(", ")
                ));
            }
        }
        let path = |name: &String| self.directory.path().join(name).display().to_string();
        variables.extend(bundle.variables.iter().map(|(name, file)| (*name, path(file))));
        Ok(())
    }

    /// Writes settings for a Gemini CLI that the command may start, and returns the variable that names them. Without a
    /// place for them the command still starts.
    fn settings_of_gemini(&mut self) -> BTreeMap<&'static str, String> {
        let starter = self.invocation.as_ref().map(|invocation| invocation.program.name);
        let settings = |path: &Path| Adaptation::of_started_gemini(starter, &ThisHost, path);
        let is_wanted = self.adapter_use == AdapterUse::Additions;
        if !is_wanted
            || settings(self.directory.path()).is_none()
            || self.directory.create().is_err()
        {
            return BTreeMap::new();
        }
        // With the path that it has now.
        let settings = settings(self.directory.path()).unwrap_or_default();
        match self.directory.fill(&settings.files, &settings.links) {
            Ok(()) => settings.values(),
            Err(_) => BTreeMap::new(),
        }
    }

    /// Makes the files, and returns what to start.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub(super) fn prepare(
        &mut self,
        gateway: &Gateway,
        id: &RunId,
        is_verbose: bool,
    ) -> Result<Start, CliError> {
        self.directory.remove_dead();
        let get = |name: &str| std::env::var(name).ok();
        let keys = match &self.invocation {
            _ if !self.is_sim => Vec::new(),
            Some(invocation) => invocation.missing_keys(&ThisHost),
            None => environment::missing_keys(get),
        };
        let base = format!("http://{}", gateway.addr());
        let proxy = gateway.proxy_address();
        let mut variables =
            environment::variables(&base, id.as_str(), &keys, proxy.as_deref(), get);
        variables.insert(DRAWN_VARIABLE, self.drawn.names.clone());
        variables.insert(DRAWN_FILE_VARIABLE, self.drawn.file.clone());
        if let Some(authority) = gateway.authority() {
            self.intercept(authority, &mut variables, is_verbose)?;
        }
        variables.extend(self.settings_of_gemini());
        let is_known = self.adapter_use != AdapterUse::Keys;
        let Some(invocation) = self.invocation.as_ref().filter(|_| is_known) else {
            return Ok(Start { command: self.command.to_vec(), variables });
        };
        let name = invocation.program.name;
        let mut adaptation = self.adaptation(&base);
        if adaptation.needs_directory() {
            self.directory.create().map_err(|error| self.cannot_write(name, &error))?;
            // With the path that it has now.
            adaptation = self.adaptation(&base);
            let filled = self.directory.fill(&adaptation.files, &adaptation.links);
            filled.map_err(|error| self.cannot_write(name, &error))?;
        }
        // A program that is missing needs no advice on its login.
        if self.command.first().is_some_and(|program| executable(program).is_some()) {
            adaptation.notes.iter().for_each(|note| output::note(&format!("endstop: {note}")));
        }
        if is_verbose && self.adapter_use == AdapterUse::Additions {
            let added = adaptation.in_words();
            let added = if added.is_empty() { vec!["nothing".to_owned()] } else { added };
            added.iter().for_each(|line| output::note(&format!("endstop: {name}: adds {line}")));
        }
        let command = invocation.with(self.command, &adaptation);
        variables.extend(adaptation.values());
        Ok(Start { command, variables })
    }
}
