//! The certificate authority of one gateway. Its key is made at the start, stays in memory and ends with the gateway.
//!
//! Its certificate says that it speaks for the domains of model providers only, so that a program that goes on to trust it
//! after the run, or a thief of the key, could not use it for other hosts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use thiserror::Error;

use super::hosts;
use crate::limits::{AUTHORITY_AGE, AUTHORITY_LIFE};

/// Why there is no authority, or no certificate of it.
#[derive(Debug, Error)]
pub(crate) enum AuthorityError {
    /// It cannot be made.
    #[error(transparent)]
    Made(#[from] rcgen::Error),
    /// It cannot be used.
    #[error(transparent)]
    Used(#[from] rustls::Error),
}

/// A certificate authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The key of all certificates that it issues.
    key: KeyPair,
    pem: String,
}

impl std::fmt::Debug for Authority {
    /// Shows no key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    pub(super) fn new() -> Result<Self, AuthorityError> {
        let mut params = valid(CertificateParams::new(Vec::new())?);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "Endstop, this run only");
        let domains: BTreeSet<&str> = hosts::model_hosts().map(|(host, _)| domain(host)).collect();
        let domains = domains.into_iter().map(|it| GeneralSubtree::DnsName(it.to_owned()));
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: domains.collect(),
            excluded_subtrees: Vec::new(),
        });
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), key: KeyPair::generate()?, pem })
    }

    /// Its certificate, without its key.
    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// What answers TLS for a host, in HTTP/1.1.
    pub(super) fn answering_for(&self, host: &str) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut params = valid(CertificateParams::new(vec![host.to_owned()])?);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.distinguished_name.push(DnType::CommonName, "Endstop");
        let certificate = params.signed_by(&self.key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The domain that all hosts of a pattern are in.
fn domain(pattern: &str) -> &str {
    let after = pattern.rsplit_once('*').map_or(pattern, |(_, after)| after);
    match pattern.contains('*') {
        true => after.split_once('.').map_or(after, |(_, domain)| domain),
        false => after,
    }
}

/// With the time in which it is valid: from before now, for clocks that differ.
fn valid(mut params: CertificateParams) -> CertificateParams {
    let now = SystemTime::now();
    let at = |time: Option<SystemTime>| time.unwrap_or(now).into();
    params.not_before = at(now.checked_sub(AUTHORITY_AGE));
    params.not_after = at(now.checked_add(AUTHORITY_LIFE));
    params
}

#[cfg(test)]
mod tests;
