//! Tests of `profile`.

use super::*;

const LIBRARY: &str = "pub fn sum(to: u64) -> u64 { (0..to).filter(|it| is_odd(*it)).sum() }\n\
    #[inline(never)] pub fn is_odd(it: u64) -> bool { it % 2 == 1 }\n";

const PROGRAM: &str = "fn main() { assert_eq!(endstop_runtime::sum(9), 16); }\n";

/// Compiles a library as cargo does for a release. Its symbols depend on the metadata.
fn library(directory: &Path, name: &str, metadata: &str, flag: Option<&str>) -> PathBuf {
    let out = directory.join(name);
    fs::create_dir(&out).unwrap();
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "--crate-type=rlib", "--crate-name", WITNESS, "-O"]);
    rustc
        .args(["-Clinker-plugin-lto", "-Cextra-filename=-1"])
        .arg(format!("-Cmetadata={metadata}"));
    rustc.args(flag).arg("--out-dir").arg(&out).arg(directory.join("library.rs"));
    output(&mut rustc).unwrap();
    out
}

#[test]
fn a_profile_that_the_compiler_did_not_find_is_an_error() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let tools = rustc::libraries(root, None).unwrap().with_file_name("bin");
    if !TOOLS.iter().all(|name| tools.join(name).exists()) {
        eprintln!("skipped: `rustup component add llvm-tools` brings what this test needs");
        return;
    }
    let sandbox = Sandbox::new(root, "profile test").unwrap();
    let at = |name: &str| sandbox.path(name);
    fs::write(at("library.rs"), LIBRARY).unwrap();
    fs::write(at("program.rs"), PROGRAM).unwrap();
    let (counts, profile) = (at("counts"), at("profile"));
    let training = Training { tools, directory: at(""), counts, profile };

    let with_counters = library(&at(""), "counters", "a", Some(&training.flag()));
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "-O", "-Clto=fat", &training.flag(), "-o"]).arg(at("program"));
    let crate_file = with_counters.join(format!("lib{WITNESS}-1.rlib"));
    rustc.arg("--extern").arg(format!("{WITNESS}={}", crate_file.display()));
    output(rustc.arg(at("program.rs"))).unwrap();
    output(&mut Command::new(at("program"))).unwrap();
    let flag = training.merge().unwrap();

    let of = |name, metadata, flag| training.check(&library(&at(""), name, metadata, flag));
    assert_eq!(of("used", "a", Some(&*flag)), Ok((2, 2)));
    let ignored = of("other symbols", "b", Some(&*flag)).unwrap_err();
    assert!(ignored.starts_with("the profile is of another program: it has counts for 0 of the 2"));
    assert!(of("no flag", "a", None).is_err());
}
