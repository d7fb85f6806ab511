//! Secrets: random ones, and their comparison.
//!
//! A separate file because keys of clients, the password of tunnels and the token of the control API all need it.

use std::hint::black_box;

/// Random bytes for a secret.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let random = rustls::crypto::ring::default_provider().secure_random;
    #[expect(clippy::expect_used, reason = "without random numbers there is no TLS either")]
    random.fill(&mut bytes).expect("the system has random numbers");
    bytes
}

/// Whether two secrets are equal, in a time that does not show where they differ.
pub(crate) fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differs = a.iter().zip(b).fold(0u8, |seen, (a, b)| black_box(seen | (a ^ b)));
    a.len() == b.len() && black_box(differs) == 0
}
