//! Tests of `convert`.

use super::*;

#[test]
fn names_of_files_are_safe_and_their_own() {
    let mut directory =
        Directory { path: PathBuf::new(), ending: "json", runs: 0, names: BTreeMap::new() };
    let ids = ["3/0", "3-0", "3-0-2", "../../x", "", "A b", "a b", "a b"];
    let names: Vec<String> = ids.iter().map(|id| directory.name(id)).collect();
    let mut lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    lower.sort();
    lower.dedup();
    assert_eq!(lower.len(), ids.len(), "{names:?}");
    assert_eq!(names[..2], ["3-0.json", "3-0-2.json"]);
    assert_eq!(names[3..5], ["-..-x.json", "run.json"]);
    assert!(file_name(&"x".repeat(1_000)).len() == MAX_FILE_NAME_CHARS);
}
