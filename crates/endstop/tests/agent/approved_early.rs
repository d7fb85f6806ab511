//! A step that is approved before it has a reply asks the model again.

use endstop::agent::Approval;
use endstop::core::run::Status;
use endstop::model::{ModelError, ModelErrorKind, ScriptedResponse};

use crate::kit::*;

#[tokio::test(start_paused = true)]
async fn a_step_goes_on_after_an_approval_in_the_middle_of_it() {
    // The first reply breaks off after a piece, which is charged; then the pause rule trips.
    let model = || {
        priced(|_, call| {
            if call == 0 {
                let error = ModelError::new(ModelErrorKind::Truncated, "broke off");
                ScriptedResponse::text("half of an answer").fail_with(error)
            } else {
                ScriptedResponse::text("All of it.").usage(10, 5)
            }
        })
    };
    let rules = "[stop]\nlimit = \"steps >= 1\"\n[pause]\nask = \"cost >= $0.0000001\"\n";
    let person = Person::who_says([Approval::Yes]);
    let first = model();
    let agent = under(&first, rules).approver(person.clone()).build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!((person.asked().len(), first.calls()), (1, 2), "{}", state.explain());
    assert_eq!(state.final_response(), Some("All of it."), "{}", state.explain());
    assert_eq!((state.status(), state.step_count()), (Status::Completed, 1));
}
