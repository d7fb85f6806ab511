//! Asking on the terminal whether a run that a pause rule holds up goes on.

use std::io::BufRead;
use std::sync::Arc;

use endstop::agent::{Approval, ApprovalRequest, Approver};
use endstop::observe::{Screen, clean};
use futures_util::future::BoxFuture;

use super::usd;

/// What may be answered.
const QUESTION: &str =
    "Go on? [y] yes, [n] stop, an amount such as 5.00 to go on up to it, [enter] decide later";

/// Asks on standard error, and reads standard input.
#[derive(Debug)]
pub(super) struct AskTerminal {
    screen: Arc<Screen>,
}

impl AskTerminal {
    /// Asks on a screen that others print to.
    pub(super) const fn new(screen: Arc<Screen>) -> Self {
        Self { screen }
    }
}

impl Approver for AskTerminal {
    fn approve<'a>(&'a self, request: ApprovalRequest<'a>) -> BoxFuture<'a, Approval> {
        let screen = Arc::clone(&self.screen);
        screen.clear();
        for line in request.message.lines() {
            screen.line(&clean(line));
        }
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || {
                ask(&mut std::io::stdin().lock(), &mut |line| screen.line(line))
            });
            asked.await.unwrap_or(Approval::Later)
        })
    }
}

/// Asks until there is an answer. The end of the input is none.
fn ask(input: &mut dyn BufRead, say: &mut dyn FnMut(&str)) -> Approval {
    loop {
        say(QUESTION);
        let mut line = String::new();
        if input.read_line(&mut line).unwrap_or(0) == 0 {
            return Approval::Later;
        }
        if let Some(answer) = read(line.trim()) {
            return answer;
        }
    }
}

fn read(answer: &str) -> Option<Approval> {
    match answer.to_ascii_lowercase().as_str() {
        "" => Some(Approval::Later),
        "y" | "yes" => Some(Approval::Yes),
        "n" | "no" => Some(Approval::No("a person said no".to_owned())),
        amount => usd(amount).ok().map(Approval::UpTo),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(input: &str) -> (Approval, usize) {
        let mut said = 0;
        let approval = ask(&mut input.as_bytes(), &mut |_| said += 1);
        (approval, said)
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
}
