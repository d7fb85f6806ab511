//! Tests of `password`.

use http::HeaderValue;

use super::*;

fn is_sent(password: &ProxyPassword, header: &str) -> bool {
    let value = HeaderValue::from_str(header).unwrap();
    password.is_sent_in(&HeaderMap::from_iter([(PROXY_AUTHORIZATION, value)]))
}

#[test]
fn only_the_password_of_this_gateway_is_taken_and_none_is_shown() {
    let (own, other) = (ProxyPassword::new(), ProxyPassword::new());
    assert_eq!(encoded("secret").unwrap(), "ZW5kc3RvcDpzZWNyZXQ=");
    for (password, is_taken) in [(&own, true), (&other, false)] {
        for scheme in ["Basic", "basic"] {
            let header = format!("{scheme} {}", password.encoded.expose());
            assert_eq!(is_sent(&own, &header), is_taken);
        }
    }
    for header in ["", "Basic", "Basic ", "Basic ZW5kc3RvcDpzZWNyZXQ="] {
        assert!(!is_sent(&own, header), "{header}");
    }
    assert!(!is_sent(&own, &format!("Bearer {}", own.encoded.expose())));
    assert!(!own.is_sent_in(&HeaderMap::new()));
    let address = own.address(SocketAddr::from(([127, 0, 0, 1], 8080)));
    assert!(address.starts_with("http://endstop:") && address.ends_with("@127.0.0.1:8080"));
    assert!(!format!("{own:?}").contains(own.password.expose()));
}
