//! The JSON Schema of the policy file, and the OpenAPI document of the control API.

use serde_json::Value;

pub(crate) fn page() -> String {
    pretty(&endstop_core::policy::schema())
}

pub(crate) fn control_api() -> String {
    pretty(&endstop_gateway::control_openapi())
}

fn pretty(document: &Value) -> String {
    serde_json::to_string_pretty(document).map_or_else(|_| String::new(), |text| text + "\n")
}
