//! The document and the golden files of the control API.

use std::path::Path;

use super::*;

/// The path in the document for the path of a request.
fn template(path: &str) -> String {
    let path = path.split('?').next().unwrap();
    for (all, one) in [
        ("/endstop/v1/runs/", "{run}"),
        ("/endstop/v1/budgets/", "{name}"),
        ("/endstop/v1/keys/", "{name}"),
    ] {
        if let Some(rest) = path.strip_prefix(all) {
            let act = rest.split_once('/').map(|(_, act)| format!("/{act}")).unwrap_or_default();
            return format!("{all}{one}{act}");
        }
    }
    path.to_owned()
}

/// Checks that a schema has every field of a value.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) {
    let named = schema["$ref"].as_str().map(|place| place.trim_start_matches('#'));
    let schema = named.map_or(schema, |place| document.pointer(place).unwrap());
    if let Some(parts) = schema["anyOf"].as_array() {
        if !value.is_null() {
            check(document, &parts[0], value, at);
        }
        return;
    }
    match (value, schema["properties"].as_object()) {
        (Value::Object(fields), Some(properties)) => {
            for (name, value) in fields {
                let of = properties.get(name);
                assert!(of.is_some(), "{at}: no field `{name}` in {schema}");
                check(document, of.unwrap(), value, &format!("{at}/{name}"));
            }
        }
        (Value::Array(all), _) => {
            all.iter().for_each(|value| check(document, &schema["items"], value, at));
        }
        _ => {}
    }
}

#[test]
fn every_request_answer_and_field_of_the_golden_files_is_in_the_document() {
    let document = control_openapi();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut checked = 0;
    for name in [
        "control-api.txt",
        "control-api-ends.txt",
        "control-api-total.txt",
        "control-api-budgets.txt",
        "control-api-keys.txt",
    ] {
        let text = std::fs::read_to_string(directory.join(name)).unwrap();
        let mut lines = text.lines();
        while let (Some(asked), Some(answered)) = (lines.next(), lines.next()) {
            let mut words = asked.trim_start_matches("> ").splitn(3, ' ');
            let (method, path) = (words.next().unwrap().to_lowercase(), words.next().unwrap());
            let (status, body) = answered.split_once(' ').unwrap();
            let operation = &document["paths"][&template(path)][&method];
            if operation.is_null() {
                assert!(matches!(status, "404" | "405"), "{asked} is not in the document");
                continue;
            }
            let json = "application/json";
            let answer = &operation["responses"][status]["content"][json]["schema"];
            assert!(answer.is_object(), "{asked}: no answer {status}");
            check(&document, answer, &serde_json::from_str(body).unwrap(), asked);
            if let Some(body) = words.next().filter(|_| status == "200") {
                let schema = &operation["requestBody"]["content"][json]["schema"];
                assert!(schema.is_object(), "{asked}: no body");
                check(&document, schema, &serde_json::from_str(body).unwrap(), asked);
            }
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked} requests");
}

#[test]
fn every_reference_of_the_document_has_a_place_in_it() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(all) => all.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = control_openapi();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > OPERATIONS.len());
    for place in found {
        let pointer = place.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some_and(Value::is_object), "{place}");
    }
}

#[test]
fn open_paths_have_the_errors_that_they_can_be_answered_with() {
    let document = control_openapi();
    let errors = |path: &str| -> Vec<String> {
        let responses = document["paths"][path]["get"]["responses"].as_object().unwrap();
        responses.keys().filter(|status| *status != "200").cloned().collect()
    };
    assert_eq!(errors("/endstop/health"), ["403"]);
    assert_eq!(errors(OPENAPI_PATH), ["403", "405"]);
    assert_eq!(errors("/endstop/v1/runs").len(), PROBLEMS.len());
}

#[test]
fn the_list_of_budgets_says_which_ones_are_not_in_it() {
    let document = control_openapi();
    let summary = document["paths"]["/endstop/v1/budgets"]["get"]["summary"].as_str().unwrap();
    assert!(summary.contains("`key-NAME`"), "{summary}");
}

#[test]
fn a_path_has_its_parameters() {
    let document = control_openapi();
    let names = |path: &str, method: &str| -> Vec<String> {
        let all = document["paths"][path][method]["parameters"].as_array().cloned();
        let name = |of: &Value| of["name"].as_str().unwrap().to_owned();
        all.unwrap_or_default().iter().map(name).collect()
    };
    assert_eq!(names("/endstop/v1/runs/{run}/wait", "get"), ["run", "events"]);
    assert_eq!(names("/endstop/v1/budgets", "get"), [""; 0]);
    assert_eq!(names("/endstop/v1/budgets/{name}", "get"), ["name"]);
    assert_eq!(names("/endstop/v1/budgets/{name}/adjust", "post"), ["name"]);
    assert_eq!(names("/endstop/v1/spend", "get"), ["by", "since", "timezone"]);
}
