//! A pause that holds at a natural end costs no further call.

use endstop::agent::Approval;
use endstop::core::run::Status;

use crate::kit::*;
use crate::support::*;

const ASKS: &str = "[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = 'said(\"DONE\")'\n";

#[tokio::test(start_paused = true)]
async fn a_run_that_has_ended_by_itself_ends_with_the_approval() {
    let model = answerer("DONE");
    let agent = || under(&model, ASKS);
    let person = Person::who_says([Approval::Yes]);
    let state = agent().approver(person.clone()).build().unwrap().run("Go.").await.unwrap();
    assert_eq!((state.status(), model.calls(), person.asked().len()), (Status::Completed, 1, 1));
    assert_eq!(state.final_response(), Some("DONE"));

    let paused = agent().build().unwrap().run("Go.").await.unwrap();
    assert_eq!((paused.status(), model.calls()), (Status::Paused, 2));
    let approved = carried(&paused).approved(None);
    let state = agent().build().unwrap().execute(approved.clone()).await.unwrap();
    assert_eq!((state.status(), model.calls()), (Status::Completed, 2));
    assert_eq!(state.final_response(), Some("DONE"));

    // A user who has more to say is answered.
    let more = approved.with_message(endstop::message::Message::user("And now?"));
    let state = agent().build().unwrap().execute(more).await.unwrap();
    assert_eq!((state.status(), model.calls()), (Status::Completed, 3));
}
