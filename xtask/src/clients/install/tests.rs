//! Tests of `install`.

use super::*;

#[test]
fn versions_are_read_from_both_kinds_of_files() {
    let text = "autogen-ext[openai]==0.7.5\nopenai-agents==1.0\nopenai==2.0\n";
    assert_eq!(pinned(text, "openai").as_deref(), Some("2.0"));
    assert_eq!(pinned(text, "autogen-ext").as_deref(), Some("0.7.5"));
    assert_eq!(pinned(text, "anthropic"), None);
    let text = "{ \"dependencies\": { \"ai\": \"6.0\" } }";
    assert_eq!(pinned(text, "ai").as_deref(), Some("6.0"));
    let text = "# Python 3.12\nopenhands==1.16.0\n";
    assert_eq!(pinned(text, "openhands").as_deref(), Some("1.16.0"));
}

#[test]
fn a_file_can_ask_for_a_version_of_python() {
    assert_eq!(python_version("# Python 3.12"), Some("3.12"));
    assert_eq!(python_version("llm==0.36"), None);
}

/// A root with the requirements of one group.
fn root_with(test: &str, group: &str, text: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("xtask-install-{test}-{}", std::process::id()));
    let requirements = root.join(DIRECTORY).join("requirements");
    fs::create_dir_all(&requirements).unwrap();
    fs::write(requirements.join(format!("{group}.txt")), text).unwrap();
    root
}

#[test]
fn a_group_that_cannot_be_installed_is_tried_once() {
    let root = root_with("once", UV, "# Python 0.0\nx==1\n");
    let packages = Packages::new(&root);
    let first = packages.install(UV).unwrap_err();
    assert!(matches!(&first, NotRun::Skipped(why) if why.contains("python0.0")), "{first:?}");
    // Even now that nothing would be missing.
    let directory = packages.directory(UV);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("installed"), "# Python 0.0\nx==1\n").unwrap();
    assert_eq!(packages.install(UV).unwrap_err(), first);
    assert!(Packages::new(&root).install(UV).is_ok());
    assert_eq!(packages.uv(), None);
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn several_threads_install_a_group_once() {
    let root = root_with("threads", "x", "x==1\n");
    let packages = Packages::new(&root);
    let directory = packages.directory("x");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("installed"), "x==1\n").unwrap();
    // Another thread installs it, and puts it elsewhere.
    let other = packages.groups().entry("x".to_owned()).or_default().clone();
    let mut installs = other.lock().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| packages.install("x").unwrap());
        let [interpreter, programs, elsewhere] = ["python", "bin", "elsewhere"].map(PathBuf::from);
        let directory = elsewhere.clone();
        *installs = Some(Ok(Installed { interpreter, programs, directory }));
        drop(installs);
        assert_eq!(waits.join().unwrap().directory, elsewhere);
    });
    packages.remove("x");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("installed"), "x==1\n").unwrap();
    assert_eq!(packages.install("x").unwrap().directory, directory);
    // It is not looked for again, unless it was removed.
    fs::remove_dir_all(&directory).unwrap();
    assert!(packages.install("x").is_ok());
    packages.remove("x");
    assert!(packages.groups().is_empty());
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_group_that_is_not_described_is_broken_and_not_missing() {
    let root = root_with("broken", "x", "x==1\n");
    let missing = Packages::new(&root).install("y").unwrap_err();
    assert!(matches!(missing, NotRun::Broken(_)), "{missing:?}");
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn an_installation_that_takes_too_long_is_ended_and_skips_its_client() {
    let over = Deadline { begun: Instant::now(), limit: Duration::ZERO };
    let why = over.succeed("sleep", Command::new("sleep").arg("600")).unwrap_err();
    assert!(matches!(why, NotRun::Skipped(_)), "{why:?}");
    assert_eq!(
        Deadline { limit: Duration::from_secs(61), begun: Instant::now() }
            .succeed("false", &mut Command::new("false"))
            .unwrap_err()
            .into_text(),
        "`false` failed: exit status: 1"
    );
    assert_eq!(why.into_text(), "its installation took longer than 0 minutes");
    assert_eq!(succeed("true", &mut Command::new("true")), Ok(()));
}

#[test]
fn uv_asks_the_indexes_of_pip_unless_it_has_its_own() {
    let get = |own: bool| {
        move |name: &str| match name {
            "PIP_INDEX_URL" => Some("https://mirror/simple".to_owned()),
            "UV_DEFAULT_INDEX" if own => Some("https://own/simple".to_owned()),
            _ => None,
        }
    };
    let mirror = ("UV_DEFAULT_INDEX", "https://mirror/simple".to_owned());
    assert_eq!(as_pip(get(false)), [mirror]);
    assert!(as_pip(get(true)).is_empty());
}

#[test]
fn uv_has_a_pinned_version() {
    assert!(version(&crate::root::root(), UV, UV).is_ok());
}
