//! Additions of `endstop run --intercept` to the command's environment: the certificates for the gateway, in addition
//! to those that it trusted before.
//!
//! Each variable replaces the roots of some runtimes, so its file has the roots of before too: those of the file that it named,
//! or else those of the system.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use endstop::store::read_certificates;
use endstop_gateway::model_provider;

/// Files of the system's roots, of Debian, Fedora, openSUSE, Alpine and macOS.
const SYSTEM_ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];
/// Variables that replace the roots of a runtime. Git's own is left alone: git calls no model.
const REPLACING: [&str; 6] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "CODEX_CA_CERTIFICATE",
    "DENO_CERT",
];
/// Node's adds to the roots.
const ADDING: &str = "NODE_EXTRA_CA_CERTS";
/// Variables of base URLs that a command keeps if they name an intercepted host, or nothing.
const BASES: [&str; 5] = [
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "ANTHROPIC_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "GEMINI_API_BASE",
];

/// The files to write, and the variables that name them.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    /// By their names in the directory of the run.
    pub(super) files: Vec<(String, String)>,
    /// The file of each variable.
    pub(super) variables: BTreeMap<&'static str, String>,
    /// Whether the system has no file of roots. Programs then trust nothing but the gateway.
    pub(super) lacks_roots: bool,
}

impl Bundle {
    /// Puts the certificate of the gateway behind the roots of before.
    ///
    /// # Errors
    /// A file that a variable names and that cannot be read.
    pub(super) fn new(
        authority: &str,
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, (PathBuf, io::Error)> {
        let system = SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.is_file());
        let mut bundle = Self { lacks_roots: system.is_none(), ..Self::default() };
        let mut names = BTreeMap::<Option<PathBuf>, String>::new();
        let general = get("SSL_CERT_FILE").filter(|path| !path.is_empty());
        for variable in variables() {
            let own = get(variable).filter(|path| !path.is_empty());
            // Codex reads the general one if its own is not set.
            let own =
                own.or_else(|| general.clone().filter(|_| variable == "CODEX_CA_CERTIFICATE"));
            let before = match own {
                Some(path) => Some(PathBuf::from(path)),
                None if variable == ADDING => None,
                None => system.map(Path::to_path_buf),
            };
            if !names.contains_key(&before) {
                let roots = match &before {
                    Some(path) => roots_of(path).map_err(|error| (path.clone(), error))?,
                    None => String::new(),
                };
                let name = format!("roots-{}.pem", names.len());
                bundle.files.push((name.clone(), format!("{}\n{authority}", roots.trim_end())));
                names.insert(before.clone(), name);
            }
            bundle.variables.extend(names.get(&before).map(|name| (variable, name.clone())));
        }
        Ok(bundle)
    }
}

/// The variables that name the files.
pub(in crate::command) fn variables() -> impl Iterator<Item = &'static str> {
    REPLACING.into_iter().chain([ADDING])
}

/// The variables of base URLs that stay as they are, so that the command sees its provider's own host.
pub(in crate::command) fn kept_bases(get: impl Fn(&str) -> Option<String>) -> Vec<&'static str> {
    let is_intercepted = |variable: &&str| {
        let Some(base) = get(variable).filter(|base| !base.trim().is_empty()) else { return true };
        let rest = base.trim().strip_prefix("https://");
        let host = rest.and_then(|rest| rest.split(['/', ':', '?']).next());
        host.is_some_and(|host| model_provider(host).is_some())
    };
    BASES.into_iter().filter(|variable| is_intercepted(variable)).collect()
}

fn roots_of(path: &Path) -> io::Result<String> {
    let bytes = read_certificates(path)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests;
