//! Asking on the terminal whether a run that a pause rule pauses should continue.

use std::io::BufRead;
use std::sync::Arc;

use endstop::agent::{Approval, ApprovalRequest, Approver};
use endstop::core::policy::Policy;
use endstop::observe::{Screen, clean};
use futures_util::future::BoxFuture;

use super::super::limits::{take_an_amount, usd};

/// The possible answers.
const QUESTION: &str = "Continue? [y] yes, [n] stop, [enter] decide later";
/// The same where every rule that asks compares money.
const QUESTION_OF_MONEY: &str = "Continue? [y] yes, [n] stop, an amount such as 5.00 to continue up to it, [enter] decide later";

/// Asks on standard error, and reads standard input.
#[derive(Debug)]
pub(super) struct AskTerminal {
    screen: Arc<Screen>,
    policy: Policy,
}

impl AskTerminal {
    /// Asks on a screen that others print to, about rules of a policy.
    pub(super) const fn new(screen: Arc<Screen>, policy: Policy) -> Self {
        Self { screen, policy }
    }
}

impl Approver for AskTerminal {
    fn approve<'a>(&'a self, request: ApprovalRequest<'a>) -> BoxFuture<'a, Approval> {
        let screen = Arc::clone(&self.screen);
        screen.clear();
        for line in request.message.lines() {
            screen.line(&clean(line));
        }
        let of_money = take_an_amount(&self.policy, request.rules.iter().map(String::as_str));
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || {
                ask(&mut std::io::stdin().lock(), of_money, &mut |line| screen.line(line))
            });
            asked.await.unwrap_or(Approval::Later)
        })
    }
}

/// Asks until there is an answer. The end of the input is none.
fn ask(input: &mut dyn BufRead, of_money: bool, say: &mut dyn FnMut(&str)) -> Approval {
    loop {
        say(if of_money { QUESTION_OF_MONEY } else { QUESTION });
        let mut line = String::new();
        if input.read_line(&mut line).unwrap_or(0) == 0 {
            return Approval::Later;
        }
        if let Some(answer) = read(line.trim(), of_money) {
            return answer;
        }
    }
}

fn read(answer: &str, of_money: bool) -> Option<Approval> {
    match answer.to_ascii_lowercase().as_str() {
        "" => Some(Approval::Later),
        "y" | "yes" => Some(Approval::Yes),
        "n" | "no" => Some(Approval::No("a person said no".to_owned())),
        amount if of_money => usd(amount).ok().map(Approval::UpTo),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
