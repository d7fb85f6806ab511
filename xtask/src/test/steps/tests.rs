//! Tests of `steps`.

use super::*;

#[test]
fn a_missing_tool_is_known() {
    assert!(!cargo_has("no-such-tool-anywhere"));
    assert!(answers("cargo", &["--version"]));
}

#[test]
fn model_checkers_are_built_with_their_feature_in_a_directory_of_their_own() {
    for (plan, name) in
        [(loom as fn(&Path) -> Plan, "loom"), (shuttle, "shuttle"), (long_shuttle, "shuttle")]
    {
        let Plan::Run(lines) = plan(Path::new(".")) else { panic!("{name} is not skipped") };
        let line = lines.concat();
        assert!(
            line.ends_with(
                &["--features", name, "--test", &format!("{name}_*")].map(str::to_owned)
            ),
            "{line:?}"
        );
        assert!(line.contains(&"target/checks".to_owned()), "{line:?}");
    }
}

#[test]
fn what_is_built_again_for_the_feature_models_is_optimized_elsewhere_and_not_there() {
    let root = crate::root::root();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let Plan::Run(lines) = tests(&root) else { panic!("tests are skipped") };
    let [others, of_models] = lines.as_slice() else { panic!("{lines:?}") };
    for name in BUILT_AGAIN {
        let table = format!("[profile.dev.package.{name}]\n");
        assert!(manifest.contains(&table), "`{name}` is not optimized anyway");
        let flag = format!("profile.dev.package.{name}.opt-level=0");
        assert!(of_models.contains(&flag) && !others.contains(&flag), "{of_models:?}");
    }
}

#[test]
fn a_project_without_fuzz_targets_skips_fuzzing() {
    let plan = fuzz(Path::new("no-such-directory"));
    assert_eq!(plan, Plan::Skip("there is no fuzz target".to_owned()));
}

#[test]
fn each_fuzzed_reader_is_also_tested_with_mutated_documents() {
    let root = crate::root::root();
    let tests = fs::read_to_string(root.join("crates/endstop-cli/tests/fuzzed.rs")).unwrap();
    for target in fuzz_targets(&root) {
        assert!(tests.contains(&format!("{target}::check")), "{target} is not in fuzzed.rs");
    }
}

#[test]
fn the_tests_of_shared_stores_run_on_valkey_where_it_is_installed() {
    match valkey(Path::new(".")) {
        Plan::Skip(why) => assert!(why.contains("`valkey-server` is not installed"), "{why}"),
        Plan::Run(lines) => {
            let line = lines.concat();
            for word in ["ENDSTOP_REDIS_SERVER=valkey-server", "account", "many_gateways"] {
                assert!(line.contains(&word.to_owned()), "{line:?}");
            }
        }
    }
}

#[test]
fn what_a_push_tries_some_of_is_tried_whole_each_night() {
    let root = crate::root::root();
    for (name, file, variable) in [
        ("every byte", "tests/readers/contract.rs", "ENDSTOP_EVERY_BYTE"),
        ("large files", "tests/memory.rs", "ENDSTOP_MEMORY_MIB"),
    ] {
        let tests = fs::read_to_string(root.join("crates/endstop-transcript").join(file)).unwrap();
        assert!(tests.contains(&format!("\"{variable}\"")), "{file} does not read {variable}");
        let step = STEPS.iter().find(|step| step.name == name).unwrap();
        assert!(matches!(step.depth, Depth::Nightly), "{name}");
        let Plan::Run(lines) = (step.plan)(&root) else { panic!("{name} is skipped") };
        let words = lines.concat();
        assert!(words.iter().any(|word| word.contains(variable)), "{words:?}");
    }
}

#[test]
fn speed_is_printed_each_night() {
    for name in ["budgets", "spend"] {
        let step = STEPS.iter().find(|step| step.name == name).unwrap();
        let Plan::Run(lines) = (step.plan)(Path::new(".")) else { panic!("{name} is skipped") };
        assert!(lines.concat().ends_with(&["bench", name].map(str::to_owned)), "{lines:?}");
        assert!(matches!(step.depth, Depth::Nightly), "{name}");
    }
}
