//! Defaults from files and variables.

use std::path::Path;

use super::*;

/// The defaults of a file and of variables.
fn load(file: &str, variables: &[(&str, &str)]) -> Result<Defaults, CliError> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/defaults");
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join(format!("{}.toml", endstop::store::RunId::new()));
    std::fs::write(&path, file).unwrap();
    let variable = |name: &str| match name {
        FILE_VARIABLE => Some(path.clone().into()),
        name => variables.iter().find(|(it, _)| *it == name).map(|(_, value)| value.into()),
    };
    let defaults = Defaults::load(&crate::command(), variable);
    std::fs::remove_file(&path).unwrap();
    defaults
}

/// The value of an option of `endstop run`, by the words of the command line.
fn of_run(defaults: &Defaults, option: &str, words: &str) -> Option<String> {
    let line = format!("endstop run {words} -- agent");
    let args: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
    let command = defaults.apply(crate::command(), &args);
    let matches = command.try_get_matches_from(line.split_whitespace()).unwrap();
    let (_, of_run) = matches.subcommand().unwrap();
    let raw = of_run.get_raw(option)?;
    let values: Vec<String> = raw.map(|it| it.to_string_lossy().into_owned()).collect();
    Some(values.join("|"))
}

#[test]
fn the_command_line_goes_before_variables_and_these_before_the_file() {
    let file = "steps = 1\n[run]\nsteps = 2\nusd = 0.10\n";
    let value = |variables: &[(&str, &str)], words: &str| {
        of_run(&load(file, variables).unwrap(), "steps", words).unwrap()
    };
    assert_eq!(value(&[], ""), "2");
    assert_eq!(value(&[("ENDSTOP_STEPS", "3")], ""), "3");
    assert_eq!(value(&[("ENDSTOP_STEPS", "3"), ("ENDSTOP_RUN_STEPS", "4")], ""), "4");
    assert_eq!(value(&[("ENDSTOP_RUN_STEPS", "4")], "--steps 5"), "5");
    assert_eq!(value(&[("ENDSTOP_RUN_STEPS", "")], ""), "2");
    let usd = of_run(&load(file, &[]).unwrap(), "usd", "");
    assert_eq!(usd.as_deref(), Some("0.10"), "as it is written");
    let agent = load(file, &[]).unwrap();
    let agent = agent.all().iter().find(|it| it.command == "agent" && it.option == "steps");
    assert_eq!(agent.unwrap().values, ["1"]);
}

#[test]
fn a_default_gives_way_to_an_option_that_contradicts_it() {
    let defaults = load("policy = \"a.toml\"\n", &[]).unwrap();
    assert_eq!(of_run(&defaults, "policy", "").as_deref(), Some("a.toml"));
    assert_eq!(of_run(&defaults, "policy", "--stop steps>=1"), None);
    let defaults = load("stop = \"steps >= 1\"\n", &[]).unwrap();
    assert_eq!(of_run(&defaults, "stop", "--policy b.toml"), None);
    let defaults = load("[run]\nintercept = true\n", &[]).unwrap();
    assert_eq!(of_run(&defaults, "intercept", "").as_deref(), Some("true"));
    let defaults = load("[run]\nno-guard = true\n", &[]).unwrap();
    assert_eq!(of_run(&defaults, "intercept", "--intercept").as_deref(), Some("true"));
}

#[test]
fn of_two_defaults_that_contradict_each_other_the_one_before_the_other_holds() {
    let variables = [("ENDSTOP_STOP", "cost >= $1")];
    let defaults = load("policy = \"a.toml\"\n", &variables).unwrap();
    assert_eq!(of_run(&defaults, "stop", "").as_deref(), Some("cost >= $1"));
    assert_eq!(of_run(&defaults, "policy", ""), None);
    let defaults = load("policy = \"a.toml\"\n[run]\nstop = \"steps >= 2\"\n", &[]).unwrap();
    assert_eq!(of_run(&defaults, "stop", "").as_deref(), Some("steps >= 2"));
    let defaults = load("[run]\nallow_direct = \"api.example\"\n", &[]).unwrap();
    assert_eq!(of_run(&defaults, "allow_direct", "").as_deref(), Some("api.example"));
}

#[test]
fn flags_and_lists_have_defaults() {
    let file = "quiet = true\n[run]\ndry_run = true\nallow-unmetered = [\"images\", \"audio\"]\n";
    let defaults = load(file, &[("ENDSTOP_RUN_VERBOSE", "1")]).unwrap();
    assert_eq!(of_run(&defaults, "dry_run", "").as_deref(), Some("true"));
    assert_eq!(of_run(&defaults, "verbose", "").as_deref(), Some("true"));
    assert_eq!(of_run(&defaults, "quiet", "").as_deref(), Some("true"));
    assert_eq!(of_run(&defaults, "allow_unmetered", "").as_deref(), Some("images|audio"));
    let off = load(file, &[("ENDSTOP_QUIET", "false")]).unwrap();
    assert_eq!(of_run(&off, "quiet", "").as_deref(), Some("false"));
}

#[test]
fn every_option_of_every_command_can_have_a_default() {
    fn every(command: &Command, path: &mut Vec<String>, names: &mut Vec<String>) {
        let options = command.get_arguments().filter(|arg| has_default(arg));
        names.extend(options.filter_map(Arg::get_long).map(|long| variable_of(path, long)));
        for sub in command.get_subcommands() {
            path.push(sub.get_name().to_owned());
            every(sub, path, names);
            path.pop();
        }
    }
    let mut names = Vec::new();
    every(&crate::command(), &mut Vec::new(), &mut names);
    assert!(names.len() > 100);
    for name in names {
        // No parser takes this, so an error shows that the value has arrived.
        let is_asked = std::cell::Cell::new(false);
        let variable = |it: &str| {
            is_asked.set(is_asked.get() || it == name);
            (it == FILE_VARIABLE).then(OsString::new)
        };
        Defaults::load(&crate::command(), variable).unwrap();
        assert!(is_asked.get(), "{name}");
    }
}

#[test]
fn wrong_names_and_values_are_errors_with_a_place_and_a_hint() {
    for (file, message, hint) in [
        ("\nstepz = 5\n", ":2: unknown option `stepz`", "did you mean `steps`?"),
        ("[rum]\nsteps = 5\n", ":1: unknown command `rum`", "did you mean `run`?"),
        ("\n[stop]\nx = 'steps >= 5'\n", ":2: `[stop]` is a section of a policy file", "policy ="),
        ("[run]\ninput = 5\n", ":2: unknown option `input`", "see `endstop --help`"),
        ("[run]\nsteps = \"many\"\n", "`many` is not a value of --steps: write a whole number", ""),
        ("color = \"red\"\n", "possible values: auto, always, never", ""),
        ("usd = { a = 1 }\n", "unknown command `usd`", ""),
        ("steps = [[1]]\n", "`steps` needs a text, a number", ""),
        ("steps = \n", ":1: ", ""),
    ] {
        let error = load(file, &[]).unwrap_err();
        assert!(error.message.contains(message), "{error:?}");
        assert!(error.hint.clone().unwrap_or_default().contains(hint), "{error:?}");
    }
    let error = load("", &[("ENDSTOP_USD", "much")]).unwrap_err();
    assert!(error.message.starts_with("ENDSTOP_USD: `much` is not a value of --usd"), "{error:?}");
}

#[test]
fn budgets_are_no_defaults_and_other_variables_are_none_of_ours() {
    let file = "[budget.me]\nlimit = [\"$5 per day\"]\n";
    assert!(load(file, &[("ENDSTOP_RUN", "x"), ("ENDSTOP_ELSE", "y")]).unwrap().all().is_empty());
}

#[test]
fn a_key_is_changed_only_by_defaults_that_are_meant_for_it() {
    let file = "[key]\nexpires = \"90d\"\nusd = 20\nbudget = \"me\"\nkeys = \"k.jsonl\"\n";
    let of_set = |file: &str, variables: &[(&str, &str)]| {
        let defaults = load(file, variables).unwrap();
        let of_set = defaults.all().iter().filter(|it| it.command == "key set");
        of_set.map(|it| format!("{} {}", it.option, it.values.join("|"))).collect::<Vec<_>>()
    };
    let variables = [("ENDSTOP_KEY_USD", "30"), ("ENDSTOP_MODELS", "o3")];
    assert_eq!(of_set(file, &variables), ["keys k.jsonl"]);
    let defaults = load(file, &variables).unwrap();
    let usd = defaults.all().iter().find(|it| it.command == "key new" && it.option == "usd");
    assert_eq!(usd.unwrap().values, ["30"]);
    let own = of_set("[key.set]\nusd = 20\n", &[("ENDSTOP_KEY_SET_EXPIRES", "never")]);
    assert_eq!(own, ["usd 20", "expires never"]);
}

#[test]
fn a_store_for_every_command_is_that_of_the_keys_too_and_no_run_is_killed_by_it() {
    let defaults = load("", &[("ENDSTOP_BUDGET_STORE", "redis://127.0.0.1")]).unwrap();
    let of = |command: &str| {
        let all = defaults.all().iter();
        all.filter(|it| it.command == command && it.option == "budget-store").count()
    };
    for command in ["key new", "key list", "key set", "key revoke", "key rotate", "serve"] {
        assert_eq!(of(command), 1, "{command}");
    }
    assert_eq!(of("kill"), 0);
}

#[test]
fn the_file_is_in_the_configuration_directory() {
    let of = |variables: &'static [(&str, &str)]| {
        file_of(&|name: &str| {
            variables.iter().find(|(it, _)| *it == name).map(|(_, value)| value.into())
        })
    };
    let file = |path: &str| Some(PathBuf::from(path));
    assert_eq!(of(&[("HOME", "/h")]), file("/h/.config/endstop/config.toml"));
    assert_eq!(of(&[("XDG_CONFIG_HOME", "/c"), ("HOME", "/h")]), file("/c/endstop/config.toml"));
    assert_eq!(of(&[("ENDSTOP_CONFIG", "x.toml"), ("HOME", "/h")]), file("x.toml"));
    assert_eq!(of(&[("ENDSTOP_CONFIG", ""), ("HOME", "/h")]), None);
    assert_eq!(of(&[("XDG_CONFIG_HOME", "relative")]), None);
}

#[test]
fn a_place_that_cannot_be_read_is_an_error_and_not_a_missing_file() {
    let file = std::env::temp_dir().join(format!("endstop-{}", endstop::store::RunId::new()));
    std::fs::write(&file, "").unwrap();
    // Below a file, nothing can be looked for.
    let path = file.join("config.toml");
    let load = || {
        let variable = |name: &str| (name == FILE_VARIABLE).then(|| path.clone().into());
        Defaults::load(&crate::command(), variable)
    };
    let error = load().unwrap_err();
    assert!(error.message.starts_with("cannot read the configuration file"), "{error:?}");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(load().unwrap().file(), Some((path.as_path(), false)));
}

#[test]
fn a_home_that_is_no_directory_has_no_file() {
    let variable = |name: &str| (name == "HOME").then(|| "/dev/null".into());
    assert_eq!(file_of(&variable), None);
}
