//! The scripts of unpacked programs.

use super::*;

#[test]
fn each_unpacked_program_has_a_script_that_starts_it_with_its_libraries() {
    let home = std::env::temp_dir().join(format!("endstop-xtask-redis-{}", std::process::id()));
    let unpacked = home.join("root/usr/bin");
    fs::create_dir_all(&unpacked).unwrap();
    fs::create_dir_all(home.join("root/usr/lib/x86_64-linux-gnu")).unwrap();
    let program = unpacked.join(CLIENT);
    fs::write(&program, "#!/bin/sh\necho \"$1 $LD_LIBRARY_PATH\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // A second time over the scripts of the first.
    for _ in 0..2 {
        write_scripts(&home).unwrap();
    }
    let output = Command::new(home.join("bin").join(CLIENT)).arg("--version").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let has_server = home.join("bin").join(PACKAGE).exists();
    fs::remove_dir_all(&home).unwrap();
    assert!(said.starts_with("--version /") && said.ends_with("x86_64-linux-gnu\n"), "{said}");
    assert!(!has_server, "a script of a program that was not unpacked");
}
