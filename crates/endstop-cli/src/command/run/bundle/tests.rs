//! Tests of `bundle`.

use super::*;

#[test]
fn the_roots_of_before_stay_and_each_variable_has_its_own() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let own = directory.to_str().unwrap().to_owned();
    let get = |name: &str| (name == "REQUESTS_CA_BUNDLE").then(|| own.clone());
    let bundle = Bundle::new("AUTHORITY\n", get).unwrap();
    let text = |variable: &str| {
        let name = &bundle.variables[variable];
        let file = bundle.files.iter().find(|(file, _)| file == name);
        file.map(|(_, text)| text.clone()).unwrap()
    };
    assert!(text("REQUESTS_CA_BUNDLE").contains("endstop-cli"));
    assert!(!text("CURL_CA_BUNDLE").contains("endstop-cli"));
    assert_eq!(text("NODE_EXTRA_CA_CERTS").trim(), "AUTHORITY");
    for variable in bundle.variables.keys() {
        assert!(text(variable).ends_with("\nAUTHORITY\n"), "{variable}");
    }
    assert!(!bundle.variables.contains_key("GIT_SSL_CAINFO"));
}

#[test]
fn a_file_that_cannot_be_read_is_told() {
    let get = |name: &str| (name == "SSL_CERT_FILE").then(|| "/dev/null/none".to_owned());
    let (path, _) = Bundle::new("", get).unwrap_err();
    assert_eq!(path, Path::new("/dev/null/none"));
}

#[test]
#[cfg(unix)]
fn a_device_without_an_end_is_not_read_as_roots() {
    let get = |name: &str| (name == "SSL_CERT_FILE").then(|| "/dev/zero".to_owned());
    let (path, error) = Bundle::new("", get).unwrap_err();
    assert_eq!(
        (path.as_path(), error.kind()),
        (Path::new("/dev/zero"), io::ErrorKind::FileTooLarge)
    );
    assert!(error.to_string().contains("it has more than 4194304 bytes"), "{error}");
}

#[test]
fn base_urls_stay_if_they_name_nothing_or_an_intercepted_host() {
    let get = |name: &str| match name {
        "OPENAI_BASE_URL" => Some("http://127.0.0.1:11434/v1".to_owned()),
        "ANTHROPIC_BASE_URL" => Some("https://api.anthropic.com".to_owned()),
        "GEMINI_API_BASE" => Some("https://models.corp.example/v1beta".to_owned()),
        _ => None,
    };
    let kept = ["OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"];
    assert_eq!(kept_bases(get), kept);
}
