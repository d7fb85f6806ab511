//! Tests of `approve`.

use super::*;

fn answered(input: &str) -> (Approval, usize) {
    let mut said = 0;
    let approval = ask(&mut input.as_bytes(), true, &mut |_| said += 1);
    (approval, said)
}

#[test]
fn an_amount_is_no_answer_where_no_money_is_asked_for() {
    let mut questions = Vec::new();
    let mut say = |line: &str| questions.push(line.to_owned());
    let approval = ask(&mut "5.00\ny\n".as_bytes(), false, &mut say);
    assert_eq!((approval, questions.len()), (Approval::Yes, 2));
    assert!(questions.iter().all(|question| !question.contains("amount")), "{questions:?}");
}

#[test]
fn answers_are_read_and_asked_for_again() {
    assert_eq!(answered("y\n"), (Approval::Yes, 1));
    assert_eq!(answered("YES\n"), (Approval::Yes, 1));
    assert!(matches!(answered("n\n"), (Approval::No(_), 1)));
    let five = "5.00".parse().unwrap();
    assert_eq!(answered("what?\n$5\n"), (Approval::UpTo(five), 2));
    assert_eq!(answered("\n"), (Approval::Later, 1));
    assert_eq!(answered(""), (Approval::Later, 1));
    assert_eq!(answered("-3\nhm\n"), (Approval::Later, 3));
}
