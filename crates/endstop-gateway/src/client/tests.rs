//! Tests of `client`.

use super::*;

#[test]
fn a_client_is_an_address_or_a_network_that_is_not_loopback() {
    let at = |text: &str| ClientId::at(text.parse().unwrap());
    for own in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(at(own), None, "{own}");
    }
    assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:2"));
    assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
    assert_eq!(at("192.0.2.1"), at("::ffff:192.0.2.1"));
    assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
}

#[test]
fn each_client_has_its_share_and_what_is_given_back_is_free() {
    let shares = Arc::<Shares>::default();
    let (one, other) = (ClientId::Key(0), ClientId::Key(1));
    let held: Vec<_> = (0..2).map(|_| shares.take(one, 2).unwrap()).collect();
    assert!(shares.take(one, 2).is_none() && shares.take(other, 2).is_some());
    drop(held);
    assert!(shares.take(one, 1).is_some());
    assert!(shares.counts().is_empty());
}
