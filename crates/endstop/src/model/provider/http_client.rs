//! The HTTP client of `genai`.
//!
//! A separate file because TLS is configured nowhere else in this crate.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls_platform_verifier::BuilderVerifierExt;

use super::OpenModelError;

/// Returns a client that trusts what the system trusts, and asks for HTTP/2.
///
/// The cryptography is what the process has installed for `rustls`, or `ring`: the gateway and the store in Redis use
/// it too, and the default of `reqwest` takes a minute longer to build.
///
/// # Errors
///
/// Returns [`OpenModelError::Client`] if the certificates of the system cannot be read.
pub(super) fn http_client() -> Result<reqwest::Client, OpenModelError> {
    let cannot = |error: &dyn std::error::Error| OpenModelError::Client(error.to_string());
    let crypto = CryptoProvider::get_default().cloned();
    let crypto = crypto.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let mut tls = ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| cannot(&error))?
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    genai::WebConfig::default()
        .apply_to_builder(reqwest::Client::builder())
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| cannot(&error))
}
