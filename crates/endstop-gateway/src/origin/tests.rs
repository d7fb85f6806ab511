//! Foreign requests, and others.

use super::*;

fn is_taken(host: &str, origin: Option<&str>) -> bool {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, host.parse().unwrap());
    if let Some(origin) = origin {
        headers.insert(ORIGIN, origin.parse().unwrap());
    }
    check(&Uri::from_static("/v1/messages"), &headers).is_ok()
}

#[test]
fn only_programs_and_pages_on_loopback_are_taken() {
    for host in
        ["127.0.0.1:80", "127.9.9.9", "localhost:4000", "[::1]:80", "a.localhost", "LOCALHOST."]
    {
        assert!(is_taken(host, None), "{host}");
    }
    for host in
        ["example.com", "127.0.0.1.example.com", "localhost.example.com:80", "192.168.0.1", ""]
    {
        assert!(!is_taken(host, None), "{host}");
    }
    for origin in ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:1"] {
        assert!(is_taken("localhost", Some(origin)), "{origin}");
    }
    for origin in ["https://example.com", "null", "http://localhost.example.com", "file://"] {
        assert!(!is_taken("localhost", Some(origin)), "{origin}");
    }
    let absolute = Uri::from_static("http://example.com/v1/messages");
    assert!(check(&absolute, &HeaderMap::new()).is_err());
    assert!(check(&Uri::from_static("/"), &HeaderMap::new()).is_ok(), "HTTP/1.0 names no host");
}
