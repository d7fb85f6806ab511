//! The address of a store: `redis://USER:PASSWORD@HOST:PORT/DB?namespace=NAME&ca=FILE`.

use std::fmt;
use std::path::PathBuf;

use redis::{Client, ConnectionInfo, IntoConnectionInfo as _, TlsCertificates};

use super::super::store::BudgetStoreError;
use crate::limits::MAX_NAMESPACE_BYTES;
use crate::store::read_certificates;

/// The namespace of an address that names none.
const DEFAULT_NAMESPACE: &str = "default";
const EXAMPLE: &str =
    "write redis://HOST:6379, or rediss://USER:PASSWORD@HOST:6380/0?namespace=team";

/// An address that was read. It is shown without the password.
pub(super) struct Address {
    pub(super) client: Client,
    /// Without the user and the password.
    pub(super) shown: String,
    /// The beginning of all keys. The braces keep them together in one slot of a cluster.
    pub(super) prefix: String,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("shown", &self.shown).finish_non_exhaustive()
    }
}

impl Address {
    /// Reads an address. No error shows it, because it can have a password.
    pub(super) fn parse(text: &str) -> Result<Self, BudgetStoreError> {
        let bad = |why: String| BudgetStoreError::Address(why);
        let mut url = redis::parse_redis_url(text.trim()).ok_or_else(|| bad(EXAMPLE.to_owned()))?;
        let (mut namespace, mut ca) = (DEFAULT_NAMESPACE.to_owned(), None);
        for (name, value) in url.query_pairs() {
            match &*name {
                "namespace" => namespace = value.into_owned(),
                "ca" => ca = Some(PathBuf::from(value.into_owned())),
                other => return Err(bad(format!("`{other}` is not known; {EXAMPLE}"))),
            }
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_named = (1..=MAX_NAMESPACE_BYTES).contains(&namespace.len());
        if !is_named || !namespace.chars().all(is_plain) {
            let why = format!(
                "a namespace has 1 to {MAX_NAMESPACE_BYTES} letters, digits, `-`, `_` or `.`"
            );
            return Err(bad(why));
        }
        url.set_query(None);
        // Redis's `#insecure` would switch off the checks of certificates.
        if url.fragment().is_some() {
            return Err(bad(format!("`#` is not accepted; {EXAMPLE}")));
        }
        let is_tls = matches!(url.scheme(), "rediss" | "valkeys");
        let host = url.host_str().unwrap_or_default().to_owned();
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let database = url.path().trim_matches('/').to_owned();
        let mut shown = format!("{}://{host}{port}", url.scheme());
        if !database.is_empty() {
            shown = format!("{shown}/{database}");
        }
        if namespace != DEFAULT_NAMESPACE {
            shown = format!("{shown}?namespace={namespace}");
        }
        let info = url.into_connection_info().map_err(|error| bad(why(&error)))?;
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        let info = info.set_redis_settings(settings);
        let client = match is_tls {
            true => tls_client(info, ca)?,
            false if ca.is_some() => {
                return Err(bad("`ca` is for `rediss://` addresses".to_owned()));
            }
            false => Client::open(info).map_err(|error| bad(why(&error)))?,
        };
        Ok(Self { client, shown, prefix: format!("{{endstop:{namespace}}}") })
    }
}

/// A client that checks certificates by the roots of the system, or by a file.
fn tls_client(info: ConnectionInfo, ca: Option<PathBuf>) -> Result<Client, BudgetStoreError> {
    // Another part of the program may have chosen already; the first choice stands.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bad = |why: String| BudgetStoreError::Address(why);
    let root_cert = match ca {
        None => None,
        Some(file) => {
            let failed = |why: String| bad(format!("cannot read `{}`: {why}", file.display()));
            Some(read_certificates(&file).map_err(|error| failed(error.to_string()))?)
        }
    };
    let certificates = TlsCertificates { client_tls: None, root_cert };
    Client::build_with_tls(info, certificates).map_err(|error| bad(why(&error)))
}

/// An error in words.
pub(super) fn why(error: &redis::RedisError) -> String {
    match error.detail() {
        Some(detail) => match error.code() {
            Some(code) if !detail.starts_with(code) => format!("{code} {detail}"),
            _ => detail.to_owned(),
        },
        None => error.to_string(),
    }
}
