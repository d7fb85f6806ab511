//! Errors of the program, and how many questions it is asked at the same time.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

#[test]
fn a_kind_of_error_has_a_status_and_its_hint_and_shows_no_details() {
    for (kind, status) in [
        (SourceErrorKind::Unknown, 404),
        (SourceErrorKind::Unusable, 400),
        (SourceErrorKind::Refused, 409),
        (SourceErrorKind::Failed, 500),
        (SourceErrorKind::Away, 503),
    ] {
        let error = SourceError::new(kind, "no").with_hint("yes");
        let error = SourceError { details: Some("line 3 of a file".to_owned()), ..error };
        let (got, problem) = refused(error);
        assert_eq!(got.as_u16(), status);
        assert_eq!(json_of(&problem).to_string(), r#"{"error":"no","hint":"yes"}"#);
    }
}

/// A question that says that it has begun, and ends once its end is dropped.
fn waiting(
    begun: &Sender<usize>,
    number: usize,
    end: Receiver<()>,
) -> impl FnOnce() -> Result<usize, SourceError> + Send + 'static {
    let begun = begun.clone();
    move || {
        begun.send(number).unwrap();
        let _ = end.recv();
        Ok(number)
    }
}

#[tokio::test]
async fn a_few_questions_are_asked_at_the_same_time_and_the_others_wait() {
    let (turns, (begun, has_begun)) = (OutsideTurns::new(), channel());
    let mut ends = Vec::new();
    let mut answers = Vec::new();
    for number in 0..=OUTSIDE_QUESTIONS {
        let (end, ended) = channel();
        ends.push(end);
        let (turns, question) = (turns.clone(), waiting(&begun, number, ended));
        answers.push(tokio::spawn(async move { turns.ask(question).await.status() }));
        // Each waits for its turn before the next one asks.
        tokio::task::yield_now().await;
    }
    let begun_now = |count: usize| {
        let mut all: Vec<usize> = (0..count).map(|_| has_begun.recv().unwrap()).collect();
        all.sort_unstable();
        all
    };
    let first: Vec<usize> = (0..OUTSIDE_QUESTIONS).collect();
    assert_eq!(begun_now(OUTSIDE_QUESTIONS), first);
    assert_eq!(turns.0.available_permits(), 0);
    assert!(has_begun.try_recv().is_err(), "the last one waits");
    ends.clear();
    for answer in answers {
        assert_eq!(answer.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(begun_now(1), [OUTSIDE_QUESTIONS]);
}

#[test]
fn an_empty_body_is_one_without_fields() {
    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    struct Command {
        #[serde(default)]
        by: Option<String>,
    }
    assert_eq!(body_of::<Command>(b"").unwrap(), Command::default());
    let by = Some("ann".to_owned());
    assert_eq!(body_of::<Command>(br#"{"by":"ann"}"#).unwrap(), Command { by });
    assert!(body_of::<Command>(b"lunch").is_err());
}
