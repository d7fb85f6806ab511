//! Tests of `report`.

use super::*;

#[test]
fn a_connection_without_a_request_is_distrust_only_of_a_client_that_never_asked() {
    let mut report = TunnelReport::default();
    let (name, pattern) = ("api.openai.com".to_owned(), "api.openai.com".to_owned());
    let host = ModelHost { name, pattern, provider: "OpenAI", is_listed: true };
    report.distrust_if_never_asked(&host);
    assert_eq!((report.untrusted(), report.last_refused.len()), (1, 1));
    report.intercept(&host);
    report.distrust_if_never_asked(&host);
    assert_eq!((report.untrusted(), report.intercepted()), (1, 1));
}

#[test]
fn a_program_that_uses_many_hosts_fills_no_memory() {
    let mut report = TunnelReport::default();
    for n in 0..1_000 {
        let pattern = "*-aiplatform.googleapis.com".to_owned();
        let name = pattern.replace('*', &format!("r{n}"));
        report.refuse(&ModelHost { name, pattern, provider: "Google Vertex AI", is_listed: true });
    }
    assert_eq!((report.model_hosts.len(), report.refused()), (MAX_REPORTED_HOSTS + 1, 1_000));
    assert_eq!(report.last_refused.len(), MAX_REFUSAL_TIMES);
    assert!(report.many_refused_since().is_some() && report.first_refused.is_some());
}
