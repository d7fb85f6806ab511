//! Tests of `provider_api`.

use super::*;

#[test]
fn an_error_is_free_where_the_providers_own_api_gives_it() {
    for api in ProviderApi::all() {
        for status in [500, 502, 503, 504, 529] {
            let is_free = api.billing(status, true, b"") == ErrorBilling::Free;
            assert_eq!(is_free, api.free.contains(&status), "{}: {status}", api.provider);
            assert_eq!(api.billing(status, false, b""), ErrorBilling::Unknown);
        }
    }
    assert_eq!(ProviderApi::billing_of(None, 503, true, b""), ErrorBilling::OfApi);
    assert_eq!(ProviderApi::billing_of(None, 503, false, b""), ErrorBilling::Unknown);
}

#[test]
fn hosts_are_known_by_their_end_after_a_dot() {
    let provider = |host| ProviderApi::at(host).map(|api| api.provider);
    assert_eq!(provider("API.X.AI"), Some("x-ai"));
    assert_eq!(provider("max.ai"), None);
    assert_eq!(provider("one.openai.azure.com"), Some("azure"));
    assert_eq!(provider("api.openai.com.example.com"), None);
    assert_eq!(provider(""), None);
}

#[test]
fn what_azure_processed_before_it_refused_is_charged() {
    let azure = ProviderApi::of("azure").unwrap();
    let refused = br#"{"error":{"code":"content_filter"}}"#;
    assert_eq!(azure.billing(400, true, refused), ErrorBilling::Charged);
    assert_eq!(azure.billing(400, true, b"{}"), ErrorBilling::Unknown);
    assert_eq!(azure.billing(500, true, b"{}"), ErrorBilling::Unknown);
}

#[test]
fn each_api_has_one_row_whose_domains_hold_its_server() {
    let mut seen = std::collections::BTreeSet::new();
    for api in ProviderApi::all() {
        assert!(seen.insert(api.provider), "`{}` has two rows", api.provider);
        let Some(server) = api.server else { continue };
        assert!(server.ends_with('/'), "{server}");
        let host = server.strip_prefix("https://").and_then(|rest| rest.split('/').next());
        let found = host.and_then(ProviderApi::at).map(|it| it.provider);
        assert_eq!(found, host.map(|_| api.provider), "{server}");
    }
}

#[test]
fn fast_providers_are_held_to_more_and_nobody_to_less() {
    let providers = ["cerebras", "openai", "anthropic", "", "cerebras.ai"];
    let rates = providers.map(ProviderApi::fastest_output_of);
    assert_eq!(rates, [6_000, 2_000, USUAL_OUTPUT, USUAL_OUTPUT, USUAL_OUTPUT]);
    assert!(ProviderApi::all().all(|api| api.fastest_output >= USUAL_OUTPUT));
}
