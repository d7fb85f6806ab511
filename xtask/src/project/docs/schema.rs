//! The JSON Schema of the policy file.

pub(crate) fn page() -> String {
    let schema = endstop_core::policy::schema();
    serde_json::to_string_pretty(&schema).map_or_else(|_| String::new(), |text| text + "\n")
}
