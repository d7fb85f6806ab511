//! Tests of `tail`.

use super::*;

fn shell(script: &str) -> (ExitStatus, String) {
    let words = ["sh", "-c", script].map(str::to_owned);
    let mut kept = Tail::default();
    let status = run(Path::new("."), &words, &mut kept).expect("a shell");
    (status, kept.to_string())
}

#[test]
fn the_end_of_both_streams_is_kept() {
    let (status, kept) = shell("echo one; echo two >&2; printf three; exit 3");
    assert_eq!(status.code(), Some(3));
    for word in ["one\n", "two\n", "three"] {
        assert!(kept.contains(word), "{kept:?}");
    }
}

#[test]
fn a_command_that_leaves_something_behind_ends_all_the_same() {
    let (status, kept) = shell("sleep 60 & echo done");
    assert!(status.success());
    assert_eq!(kept, "done\n");
}

#[test]
fn a_long_output_is_kept_from_its_end_only() {
    let (_, kept) = shell("seq 1 20000");
    assert!(kept.len() <= KEPT_BYTES && kept.ends_with("\n20000\n"), "{}", kept.len());
    let (_, kept) = shell("head -c 100000 /dev/zero; echo; echo end");
    assert!(kept.len() <= KEPT_BYTES && kept.ends_with("end\n"), "{}", kept.len());
}
