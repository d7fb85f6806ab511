//! Packages as their own tools read them.

use std::collections::BTreeMap;
use std::process::Command;

use super::content::Entry;
use super::*;

#[test]
fn words_choose_the_binaries_and_the_channels() {
    let all = options(&["--check", "--debug"]).unwrap();
    assert!(all.is_checked && all.build == Build::Debug);
    assert_eq!(all.channels, CHANNELS);
    let given = options(&["--binary", "a", "--binary", "b", "--channel", "npm"]).unwrap();
    assert_eq!(given.build, Build::Given(vec!["a", "b"]));
    assert_eq!(given.channels, ["npm"]);
    assert!(options(&["--channel", "brew"]).is_err());
    assert!(options(&["--binary"]).is_err() && options(&["--fast"]).is_err());
}

/// `tar` reads what the writer made: the names in order, and the modes.
#[test]
fn tar_reads_an_archive_and_the_same_content_gives_the_same_bytes() {
    let entries = || vec![Entry::file("a/z.txt", "text"), Entry::program("a/b", "#!/bin/sh\n")];
    let made = archive::tar_gz(entries(), Effort::Trial).unwrap();
    let mut turned = entries();
    turned.reverse();
    assert_eq!(made, archive::tar_gz(turned, Effort::Trial).unwrap());
    let file = std::env::temp_dir().join(format!("endstop-tar-{}.tar.gz", std::process::id()));
    fs::write(&file, made).unwrap();
    let listed = Command::new("tar").arg("-tvzf").arg(&file).env("TZ", "UTC").output().unwrap();
    fs::remove_file(&file).unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("-rwxr-xr-x") && lines[0].ends_with("a/b"), "{listed}");
    assert!(lines[1].starts_with("-rw-r--r--") && lines[1].ends_with("a/z.txt"), "{listed}");
}

/// The starter of the npm package ends as the binary ends: with its code, or by its signal.
#[test]
fn the_npm_package_ends_as_its_binary_ends() {
    if Command::new("node").arg("--version").output().is_err() {
        return;
    }
    let directory = std::env::temp_dir().join(format!("endstop-npm-{}", std::process::id()));
    let starter = directory.join("node_modules/endstop/bin/endstop.js");
    let names = BTreeMap::from([("x86_64", "x64"), ("aarch64", "arm64")]);
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let platform = format!("{}-{}", system.replace("macos", "darwin"), names[machine]);
    let binary = directory.join(format!("node_modules/@endstop/{platform}/bin/endstop"));
    let source = fs::read(crate::root::root().join("packaging/npm/endstop.js")).unwrap();
    for (path, bytes) in [(&starter, source), (&binary, b"#!/bin/sh\neval \"$1\"\n".to_vec())] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        assert!(Command::new("chmod").arg("+x").arg(path).status().unwrap().success());
    }
    let run = |script: &str| Command::new("node").arg(&starter).arg(script).output().unwrap();
    assert_eq!(run("exit 7").status.code(), Some(7));
    assert_eq!(run("echo out").stdout, b"out\n");
    let ended = run("kill -TERM $$").status;
    let heard =
        run("trap 'echo heard; exit 3' TERM; kill -TERM $PPID; while :; do sleep 0.05; done");
    fs::remove_dir_all(&directory).unwrap();
    #[cfg(unix)]
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(15), "{ended}");
    assert_eq!((heard.status.code(), heard.stdout.as_slice()), (Some(3), b"heard\n".as_slice()));
}

/// A request that is not read would train how errors are answered.
#[test]
fn each_request_of_the_training_run_is_json() {
    let directory = crate::root::root().join("xtask/src/dist/profile");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let bodies = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let read = bodies.map(|path| {
        let body = fs::read_to_string(&path).unwrap();
        assert_eq!(body.matches("RESULT").count(), 1, "{}", path.display());
        serde_json::from_str::<serde_json::Value>(&body.replace("STREAM", "true")).unwrap()
    });
    assert_eq!(read.count(), 4);
}
