//! Tests of `test`.

use super::*;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_failed_command_fails_the_step_and_ends_it() {
    let root = root();
    assert!(matches!(run_all(&root, &[words("cargo --version")]), Outcome::Passed));
    let outcome = run_all(&root, &[words("cargo no-such-task"), words("no-such-program")]);
    let Outcome::Failed { reason, printed } = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("no-such-task"), "{reason}");
    assert!(printed.to_string().contains("no such command"), "{printed}");
    let outcome = run_all(&root, &[words("no-such-program")]);
    assert!(
        matches!(&outcome, Outcome::Failed { reason, .. } if reason.contains("cannot run")),
        "{outcome:?}"
    );
}
