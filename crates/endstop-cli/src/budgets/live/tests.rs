//! Tests of `live`.

use std::path::PathBuf;

use super::*;

/// A configuration file of one test.
struct Config(PathBuf);

impl Config {
    fn new(test: &str, text: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("endstop-tables-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let config = Self(directory);
        config.write(text);
        config
    }

    fn file(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
    }

    fn live(&self, flags: &[&str], outer: Option<OuterBudgets>) -> LiveTables {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let (file, policy) = (Some(WatchedFile::new(self.file())), BTreeMap::new());
        let mut sources = BudgetSources { file, has_tables: false, policy, flags };
        let tables = sources.read_file().unwrap();
        let defined = sources.define(&tables).unwrap();
        LiveTables::new(&sources, defined, outer)
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The limits of a budget.
fn limits(tables: &AccountTables, name: &str) -> Vec<String> {
    let account = tables.set.get(name).unwrap();
    account.limits.iter().map(ToString::to_string).collect()
}

#[test]
fn a_change_is_seen_once_and_a_file_that_is_wrong_changes_nothing() {
    let config = Config::new("once", "[budget.me]\nlimit = \"$5 per day\"\n");
    let live = config.live(&[], None);
    assert_eq!(live.look(), None);
    config.write("[budget.me]\nlimit = \"$50 per day\"\n");
    let tables = live.look().unwrap();
    assert_eq!(limits(&tables, "me"), ["$50.00 per day"]);
    assert_eq!((tables.names, live.look()), (vec!["me".to_owned()], None));
    for wrong in [
        "[budget.me]\nlimit = \"5 a day\"\n",
        "[budget.me]\nlimit = \"$5 per day\"\nparent = \"nobody\"\n",
        "[budget.me\n",
        " \n",
    ] {
        config.write(wrong);
        assert_eq!(live.look(), None, "{wrong}");
        assert!(live.state().wrong.is_some(), "{wrong}");
    }
    std::fs::remove_file(config.file()).unwrap();
    assert_eq!(live.look(), None);
    assert!(live.state().wrong.is_some());
    config.write("[budget.me]\nlimit = \"$500 per day\"\n");
    assert_eq!(limits(&live.look().unwrap(), "me"), ["$500.00 per day"]);
    assert_eq!(live.state().wrong, None);
    // Other tables are read elsewhere.
    config.write("[run]\nsteps = 9\n[budget.me]\nlimit = \"$500 per day\"\n");
    assert_eq!(live.look(), None);
    // A file without tables is one that a person has written.
    config.write("# none\n");
    let tables = live.look().unwrap();
    assert!(tables.set.is_empty() && tables.names.is_empty());
    assert!(live.state().removed.contains("me"));
    std::fs::remove_file(config.file()).unwrap();
    assert_eq!(live.look(), None);
    assert_eq!(live.state().wrong, None);
}

/// The second look is due, as after a second.
fn wait(live: &LiveTables) {
    let mut state = live.state();
    let ago = |since: Instant| since.checked_sub(FILE_RECHECK).unwrap();
    state.doubt = state.doubt.map(|(of, since)| (of, ago(since)));
    let file = state.file.as_mut().unwrap();
    file.expire();
}

#[test]
fn a_file_that_can_be_read_again_without_another_state_is_read() {
    let config = Config::new("again", "[budget.me]\nlimit = \"$5 per day\"\n");
    let live = config.live(&[], None);
    config.write("[budget.me]\nlimit = \"$50 per day\"\n");
    {
        // As if the system had refused once to read these bytes.
        let mut state = live.state();
        let file = state.file.as_mut().unwrap();
        file.has_changed();
        file.read_again();
        file.expire();
    }
    assert_eq!(limits(&live.look().unwrap(), "me"), ["$50.00 per day"]);
    // The same problem stays until a file can be read.
    std::fs::remove_file(config.file()).unwrap();
    std::fs::create_dir(config.file()).unwrap();
    for _ in 0..2 {
        assert_eq!(live.look(), None);
        assert!(live.state().wrong.is_some());
        wait(&live);
    }
    std::fs::remove_dir(config.file()).unwrap();
    config.write("[budget.me]\nlimit = \"$9 per day\"\n");
    assert_eq!(limits(&live.look().unwrap(), "me"), ["$9.00 per day"]);
}

#[test]
fn a_place_that_cannot_be_read_is_not_one_without_a_file() {
    let config = Config::new("below", "");
    let (file, policy) = (config.file().join("config.toml"), BTreeMap::new());
    let file = Some(WatchedFile::new(file));
    let mut sources = BudgetSources { file, has_tables: false, policy, flags: Vec::new() };
    let error = sources.read_file().unwrap_err();
    assert!(error.message.contains("cannot read the configuration file"), "{error:?}");
    std::fs::remove_file(config.file()).unwrap();
    assert!(sources.read_file().unwrap().is_empty());
    let live = config.live(&[], None);
    std::fs::create_dir(config.file()).unwrap();
    assert_eq!(live.look(), None);
    assert!(live.state().wrong.is_some());
}

#[test]
fn budgets_of_models_end_when_a_second_look_still_misses_them() {
    let org = "[budget.org]\nlimit = \"$90\"\n";
    let opus = "[budget.opus]\nlimit = \"$5\"\nparent = \"org\"\nmodels = [\"*opus*\"]\n";
    let config = Config::new("doubt", &format!("{org}{opus}"));
    let live = config.live(&[], None);
    // Half of a new file: the rest comes in a moment.
    config.write("[budget.me]\nlimit = \"$1\"\n");
    let tables = live.look().unwrap();
    assert_eq!(limits(&tables, "opus"), ["$5.00"]);
    assert_eq!(
        (limits(&tables, "org"), limits(&tables, "me")),
        (vec!["$90.00".to_owned()], vec!["$1.00".to_owned()])
    );
    // Cut before its models, it would be a budget of no call.
    config.write("[budget.opus]\nlimit = \"$5\"\n");
    assert!(live.look().unwrap().set.get("opus").unwrap().is_by_model());
    wait(&live);
    config.write("[budget.opus]\nlimit = \"$7\"\nmodels = [\"*opus*\"]\n");
    assert_eq!(limits(&live.look().unwrap(), "opus"), ["$7.00"]);
    assert_eq!(live.state().doubt, None);
    // It is removed permanently.
    config.write("# none\n");
    assert_eq!(live.look(), None);
    wait(&live);
    assert!(live.look().unwrap().set.is_empty());
}

#[test]
fn a_budget_without_its_table_is_told_after_the_lock_is_released() {
    let config = Config::new("told", "[budget.me]\nlimit = \"$5 per day\"\n");
    let live = config.live(&[], None);
    config.write("# none\n");
    assert!(live.look().unwrap().set.is_empty());
    let told = std::cell::RefCell::new(Vec::new());
    live.tell_kept(&["key-ci".to_owned(), "me".to_owned()], |text| {
        assert!(live.state.try_lock().is_ok(), "a slow standard error would hold the lock");
        told.borrow_mut().push(text.to_owned());
    });
    let told = told.into_inner();
    assert!(
        matches!(told.as_slice(), [one] if one.starts_with("budget me is no longer")),
        "{told:?}"
    );
}

#[test]
fn flags_apply_together_with_the_tables_of_now() {
    let config = Config::new("flags", "");
    let live = config.live(&["$5 per day", "team"], None);
    config.write("[budget.me]\nlimit = \"$1 per hour\"\n[budget.team]\nlimit = \"$9\"\n");
    let tables = live.look().unwrap();
    assert_eq!(limits(&tables, "me"), ["$1.00 per hour", "$5.00 per day"]);
    assert_eq!(tables.names, ["team", "me"]);
    config.write("[budget.me]\nlimit = \"$1 per hour\"\nmodels = [\"x\"]\n");
    assert_eq!(live.look(), None, "the flag is for all models");
    // A flag names a budget that a table defined.
    config.write("# none\n");
    assert_eq!(live.look().unwrap().names, ["team", "me"]);
}

#[test]
fn the_own_limits_of_keys_stand_beside_the_tables() {
    let config = Config::new("keys", "[budget.me]\nlimit = \"$5\"\n");
    let live = config.live(&[], None);
    let own = || vec![Account::new("key-ci", &["$1"]).unwrap()];
    live.set_of_keys(own()).unwrap();
    assert_eq!(limits(&live.look().unwrap(), "key-ci"), ["$1.00"]);
    live.set_of_keys(own()).unwrap();
    assert_eq!(live.look(), None);
    config.write("[budget.me]\nlimit = \"$50\"\n[budget.key-ci]\nlimit = \"$2 per day\"\n");
    assert_eq!(limits(&live.look().unwrap(), "key-ci"), ["$2.00 per day", "$1.00"]);
    config.write("[budget.key-ci]\nlimit = \"$2\"\nmodels = [\"x\"]\n");
    assert_eq!(live.look(), None, "one name cannot be of a key and of a model");
    assert!(live.state().wrong.is_some());
}

#[test]
fn inside_another_endstop_the_budgets_of_all_calls_are_left_to_it() {
    let before = "[budget.old]\nlimit = \"$9\"\nmodels = [\"a\"]\n";
    let now = format!(
        "{before}[budget.me]\nlimit = \"$9\"\n[budget.new]\nlimit = \"$9\"\nmodels = [\"b\"]\n\
         [budget.team]\nlimit = \"$9\"\n"
    );
    let config = Config::new("nested", before);
    let outer = |draws_default| Some(OuterBudgets { draws_default });
    let cases: [(&[&str], Option<OuterBudgets>, &[&str]); 4] = [
        (&[], outer(true), &["me", "new", "old"]),
        (&[], outer(false), &["new", "old"]),
        // Left to the outer one, the limit of the flag would apply no longer.
        (&["$5 per day"], outer(true), &["new", "old"]),
        (&[], None, &[]),
    ];
    for (flags, outer, left) in cases {
        config.write(before);
        let live = config.live(flags, outer);
        let first = live.look().map(|tables| tables.counted_elsewhere);
        assert_eq!(first, outer.map(|_| vec!["old".to_owned()]), "{flags:?}");
        config.write(&now);
        assert_eq!(live.look().unwrap().counted_elsewhere, left, "{flags:?}");
    }
}

#[test]
fn an_outer_endstop_with_another_file_leaves_nothing() {
    let config = Config::new("outer", "# none\n");
    let (file, policy) = (Some(WatchedFile::new(config.file())), BTreeMap::new());
    let sources = BudgetSources { file, has_tables: false, policy, flags: Vec::new() };
    let path = config.file().display().to_string();
    let of = |draws_default| Some(OuterBudgets { draws_default });
    for (variable, outer) in [
        (format!("default:{path}"), of(true)),
        (format!("named:{path}"), of(false)),
        (format!("default:{path}x"), None),
        (String::new(), None),
    ] {
        assert_eq!(sources.outer(&variable), outer, "{variable}");
    }
}

#[test]
fn a_note_names_what_has_changed_and_not_more_than_fits() {
    let set = |limits: &[(&str, &str)]| {
        let accounts = limits.iter().map(|(name, limit)| Account::new(name, &[*limit]).unwrap());
        AccountSet::new(accounts).unwrap()
    };
    let before = set(&[("me", "$5"), ("old", "$1"), ("same", "$1")]);
    assert_eq!(changes(&before, &before), None);
    let now = set(&[("me", "$6 per day"), ("same", "$1"), ("team", "$2")]);
    let said = changes(&before, &now).unwrap();
    assert_eq!(said, "me ($6.00 per day), team ($2.00), old removed");
    let names: Vec<String> = (0..20).map(|number| format!("team-{number:02}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "$1")).collect();
    let said = changes(&AccountSet::default(), &set(many.as_slice())).unwrap();
    assert!(said.ends_with("team-07 ($1.00), 12 more"), "{said}");
}

#[test]
fn a_question_about_the_tables_leaves_their_change_to_the_next_call() {
    let config = Config::new("asked", "[budget.me]\nlimit = \"$5 per day\"\n");
    let live = config.live(&[], None);
    live.set_of_keys(vec![Account::new("key-ci", &["$1"]).unwrap()]).unwrap();
    config.write("[budget.me]\nlimit = \"$50 per day\"\n");
    let set = live.tables();
    let names: Vec<&str> = set.iter().map(|account| account.name.as_str()).collect();
    assert_eq!(names, ["me"], "the own limits of keys are not asked for");
    assert_eq!(set.get("me").unwrap().limits[0].to_string(), "$50.00 per day");
    assert_eq!(limits(&live.look().unwrap(), "me"), ["$50.00 per day"]);
}
