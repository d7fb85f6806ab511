//! Watching the command until it has ended: signals, the terminal, time limits, stopping in phases.

use std::time::{Duration, Instant};

use endstop::cancel::kill_signal;
use endstop::core::run::{Status, WindowReset};
use endstop::core::signal::StopSignal;
use endstop::core::units::Millis;
use endstop::observe::DryRunObserver;
use endstop::runtime::RunHandle;
use endstop::store::RunId;
use endstop_gateway::Gateway;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};
use tokio::sync::watch;

use super::child::{self, Children, Ended, News};
use super::deferred_printer::DeferredPrinter;
use super::guard::Guard;
use super::line::{RowContent, StatusRow};
use super::processes::{Process, descendants, in_words, kill_all, tell_all, tell_group};
use super::shutdown::{SentSignals, ShutdownAction, ShutdownPhase};
use super::signals::{SignalMeaning, Signals};
use super::terminal::Terminal;
use super::watch::RunSnapshot;
use crate::command::trip;
use crate::duration::millis;
use crate::limits::{SUPERVISE_LOOK, SUPERVISE_LOOK_OFTEN, SUSPENDING, TERM_TO_KILL};
use crate::output::duration;

/// The watched run and command, with settings.
pub(super) struct Supervisor<'g> {
    pub(super) gateway: &'g Gateway,
    pub(super) id: &'g RunId,
    pub(super) main: Pid,
    pub(super) driven: Option<RunHandle>,
    /// The policy that is not obeyed, under `--dry-run`.
    pub(super) dry_run: Option<&'g DryRunObserver>,
    pub(super) snapshot: watch::Receiver<RunSnapshot>,
    pub(super) signals: Signals,
    pub(super) terminal: Option<Terminal>,
    pub(super) line: StatusRow,
    pub(super) printer: DeferredPrinter,
    pub(super) guard: Guard,
    pub(super) shutdown: ShutdownPhase,
    /// When the run began.
    pub(super) begun: Instant,
    /// How long the command may take to end on its own after a stop.
    pub(super) grace: Duration,
    /// How long the gateway stays for processes that the command left behind, since their last call.
    pub(super) linger: Duration,
    /// How long a call is held while the run is paused.
    pub(super) pause_limit: Duration,
    pub(super) state: State,
}

/// The changing part.
#[derive(Debug, Default)]
pub(super) struct State {
    ended: Option<(Ended, Instant)>,
    /// The command gets the foreground.
    wants_terminal: bool,
    /// This process is about to be stopped, or was; until then it waits.
    suspended: Option<Instant>,
    said: PrintedNotes,
    /// The user wants to leave; Endstop does not wait for remaining processes.
    leaves: bool,
    /// The last signal that asked the command to end.
    asked_to_end: Option<Signal>,
    children: Children,
    sent: SentSignals,
}

#[derive(Debug, Default)]
struct PrintedNotes {
    warnings: usize,
    stopped: bool,
    /// The stop gave the command time to exit.
    grace: bool,
    killed: bool,
    paused: bool,
    /// The pause that was printed ends with the reset of a window.
    waits: bool,
    held: bool,
    /// The budget that calls wait for, as it was printed.
    budget: Option<String>,
    lingering: bool,
}

impl State {
    /// At the beginning.
    pub(super) fn new(wants_terminal: bool) -> Self {
        Self { wants_terminal, ..Self::default() }
    }
}

impl Supervisor<'_> {
    /// Waits until the command and its descendants have ended, and returns how the command ended.
    pub(super) async fn watch(&mut self) -> Ended {
        loop {
            self.hear_news();
            self.look_at_run();
            self.heed_budget();
            self.heed_guard();
            self.obey();
            if let Some(ended) = self.is_done() {
                self.line.clear();
                if self.shutdown.has_signalled()
                    && let Some(terminal) = &self.terminal
                {
                    terminal.restore();
                }
                self.printer.say_what_was_held();
                return ended;
            }
            self.draw();
            let wake = tokio::time::Instant::from_std(self.wake());
            tokio::select! {
                heard = self.signals.next() => self.heard(heard),
                changed = self.snapshot.changed() => if changed.is_err() {
                    // The gateway is gone; only processes are left to watch.
                    tokio::time::sleep(SUPERVISE_LOOK_OFTEN).await;
                },
                () = self.guard.changed() => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// The signals that ended the command and what it left behind.
    pub(super) const fn sent(&self) -> SentSignals {
        self.state.sent
    }

    fn note(&mut self, text: &str) {
        self.printer.note(text, self.terminal.as_ref());
    }

    fn announce(&mut self, text: &str) {
        self.printer.announce(text, self.terminal.as_ref());
    }

    fn warn(&mut self, text: &str) {
        self.printer.warn(text, self.terminal.as_ref());
    }

    fn heard(&mut self, heard: SignalMeaning) {
        match heard {
            SignalMeaning::Child => {}
            SignalMeaning::Continue => self.resume(),
            SignalMeaning::Approve => match self.gateway.approve(self.id, None) {
                true => self.note("endstop: approved; the run continues"),
                false => self.note("endstop: nothing waits for an approval"),
            },
            SignalMeaning::Forward(signal) => {
                // The remaining processes are in other groups.
                match self.state.ended {
                    Some(_) => tell_all(self.main, signal),
                    None => tell_group(self.main, signal),
                }
                let is_an_end =
                    !matches!(signal, Signal::SIGWINCH | Signal::SIGUSR2 | Signal::SIGALRM);
                self.state.leaves |= self.state.ended.is_some() && is_an_end;
                self.state.asked_to_end = Some(signal).filter(|_| is_an_end);
            }
        }
    }

    fn hear_news(&mut self) {
        let (news, children) = child::news(self.main);
        self.state.children = children;
        if self.state.ended.is_some() {
            // Orphans that have ended need no action; the command itself is no longer a child.
            return;
        }
        for news in news {
            match news {
                News::Ended(ended) => return self.command_has_ended(ended),
                News::Stopped(signal) => self.command_was_stopped(signal),
            }
        }
    }

    fn command_has_ended(&mut self, ended: Ended) {
        let now = Instant::now();
        self.state.ended = Some((ended, now));
        if let Some(terminal) = &mut self.terminal {
            terminal.take();
        }
        // A signal that ends the whole run is for the processes that the command left behind too. A key is for
        // the command alone, unless the command ended by it.
        let is_end_of_all = self.state.asked_to_end.is_some_and(|signal| {
            matches!(signal, Signal::SIGTERM | Signal::SIGHUP) || ended == Ended::Signal(signal)
        });
        if is_end_of_all {
            self.shutdown.stop(now, self.grace);
        }
    }

    /// The command was stopped by a key, by another process, or because it wants the terminal.
    fn command_was_stopped(&mut self, signal: Signal) {
        let Some(terminal) = &mut self.terminal else { return };
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        self.state.wants_terminal |= wants_terminal;
        if wants_terminal && terminal.is_foreground() {
            terminal.give(self.main);
            return tell_group(self.main, Signal::SIGCONT);
        }
        self.line.clear();
        terminal.take();
        // As if the key had been meant for this job: its shell takes over. Without a shell that controls it, the
        // signal has no effect, and the command continues.
        self.state.suspended = Some(Instant::now() + SUSPENDING);
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
    }

    /// The shell continues the job, in the foreground or in the background.
    fn resume(&mut self) {
        self.state.suspended = None;
        if let Some(terminal) = self.terminal.as_mut().filter(|_| self.state.wants_terminal) {
            terminal.give(self.main);
        }
        tell_group(self.main, Signal::SIGCONT);
    }

    /// The kill switch, and time limits, which trip without a call.
    fn look_at_run(&mut self) {
        if self.state.suspended.is_some_and(|until| Instant::now() >= until) {
            self.resume();
        }
        let Some(driven) = &self.driven else { return };
        driven.checkpoint();
        if self.limit_in_time().is_some_and(|due| Instant::now() >= due) {
            driven.tick();
        }
    }

    fn limit_in_time(&self) -> Option<Instant> {
        // A run that ended naturally is not over for the command, which may not exit.
        let is_stopped = |run: &RunHandle| matches!(run.status(), Status::Stopped | Status::Failed);
        let driven = self.driven.as_ref().filter(|driven| !is_stopped(driven))?;
        let of_dry_run = self.dry_run.and_then(DryRunObserver::next_limit_in_time);
        let Millis(left) = driven.next_limit_in_time().into_iter().chain(of_dry_run).min()?;
        let Millis(at) = driven.look(|run| run.at());
        self.begun.checked_add(Duration::from_millis(at.saturating_add(left)))
    }

    /// Does what the run's standing asks for.
    fn obey(&mut self) {
        let snapshot = self.snapshot.borrow_and_update().clone();
        for warning in snapshot.warnings.iter().skip(self.state.said.warnings) {
            self.warn(warning);
        }
        self.state.said.warnings = snapshot.warnings.len();
        if let Some(signal) = &snapshot.stopped {
            self.stop(signal);
        }
        match &snapshot.paused {
            Some(rules) if !self.state.said.paused => {
                self.tell_of_pause(rules, snapshot.reset.as_ref());
                self.state.said.waits = snapshot.reset.is_some();
            }
            Some(_) => {}
            None => {
                self.state.said.paused = false;
                if std::mem::take(&mut self.state.said.waits) && snapshot.stopped.is_none() {
                    self.announce("endstop: the run continues");
                }
            }
        }
        if snapshot.pause.is_some() != self.state.said.held {
            self.state.said.held = snapshot.pause.is_some();
            let text = snapshot.pause.as_deref().unwrap_or("resumed");
            self.announce(&format!("endstop: {text}"));
        }
        match self.shutdown.act(Instant::now()) {
            Some(ShutdownAction::Terminate) => {
                if self.state.said.grace {
                    // Before the signal: a command that it ends may leave no screen to write to.
                    let who = self.who();
                    self.announce(&format!(
                        "endstop: {who} has not exited, and Endstop ends it now"
                    ));
                }
                self.state.sent.note(Signal::SIGTERM, self.state.ended.is_some());
                tell_all(self.main, Signal::SIGTERM);
                // One that is stopped hears nothing else.
                tell_all(self.main, Signal::SIGCONT);
                let left = duration(millis(TERM_TO_KILL));
                self.note(&format!("endstop: sent SIGTERM; SIGKILL follows in {left}"));
            }
            Some(ShutdownAction::Kill) => {
                self.state.sent.note(Signal::SIGKILL, self.state.ended.is_some());
                kill_all(self.main);
                if !std::mem::replace(&mut self.state.said.killed, true) {
                    self.note("endstop: sent SIGKILL");
                }
            }
            Some(ShutdownAction::GiveUp) => {
                self.warn(&format!("these could not be ended: {}", in_words(&descendants())));
                self.state.leaves = true;
                self.state.ended.get_or_insert((Ended::Unknown, Instant::now()));
            }
            None => {}
        }
    }

    /// Reports that calls wait for the reset of a budget over time, and that they continue.
    fn heed_budget(&mut self) {
        let awaited = self.gateway.awaited_budget(self.id).map(|refused| refused.awaited());
        if awaited == self.state.said.budget {
            return;
        }
        if let Some(budget) = &awaited {
            let limit = duration(millis(self.pause_limit));
            self.announce(&format!(
                "endstop: waits for {budget}; a call waits for {limit}, then it gets a stop response"
            ));
        } else if self.gateway.refusing_budget(self.id).is_none() {
            self.announce("endstop: the run continues");
        }
        self.state.said.budget = awaited;
    }

    /// Reports refused connections, and ends the command if it makes no other calls.
    fn heed_guard(&mut self) {
        let has_calls = self.snapshot.borrow().calls > 0;
        let may_end = !has_calls && !self.is_excused();
        for line in self.guard.news(may_end) {
            self.printer.say(&line, self.terminal.as_ref());
        }
        if self.guard_due().is_some_and(|due| Instant::now() >= due) {
            let why = self.guard.end();
            self.printer.say(&why, self.terminal.as_ref());
            // No stop response reaches it, so it needs no time to act on one.
            self.shutdown.stop(Instant::now(), Duration::ZERO);
        }
    }

    /// Whether the guard leaves the command alone: a person sits before it, or it cannot try again.
    fn is_excused(&self) -> bool {
        let is_drawn = self.terminal.as_ref().is_some_and(Terminal::is_raw);
        is_drawn || self.state.suspended.is_some()
    }

    /// When the guard ends the command if nothing changes.
    fn guard_due(&mut self) -> Option<Instant> {
        if self.shutdown != ShutdownPhase::Going || self.state.ended.is_some() {
            return None;
        }
        let is_excused = self.is_excused();
        let snapshot = self.snapshot.borrow().clone();
        let counts = self.gateway.counts(self.id).unwrap_or_default();
        let requests = counts.unmetered + counts.stop_responses + counts.refused;
        self.guard.due(Instant::now(), &snapshot, requests, is_excused)
    }

    fn stop(&mut self, signal: &StopSignal) {
        if std::mem::replace(&mut self.state.said.stopped, true) {
            return;
        }
        let is_kill = signal.source == kill_signal("").source;
        let grace = if is_kill { Duration::ZERO } else { self.grace };
        self.shutdown.stop(Instant::now(), grace);
        self.state.said.grace = !grace.is_zero();
        let who = self.who();
        let text = match duration(millis(grace)) {
            _ if grace.is_zero() => format!("endstop: stopped: {signal}; {who} is ended now"),
            time => format!("endstop: stopped: {signal}; {who} has {time} to end"),
        };
        self.announce(&text);
    }

    /// The name of the process that a stop ends.
    const fn who(&self) -> &'static str {
        if self.state.ended.is_none() { "the command" } else { "what it left behind" }
    }

    /// The command has ended after a stop, and others continue for the rest of the grace period.
    fn tell_of_grace(&mut self, left: &[Process]) {
        if std::mem::replace(&mut self.state.said.lingering, true) || self.shutdown.has_signalled()
        {
            return;
        }
        self.note(&format!(
            "endstop: the command has ended and left {}, which is given the rest of --grace; Ctrl-C leaves it",
            in_words(left)
        ));
    }

    fn tell_of_pause(&mut self, rules: &[String], reset: Option<&WindowReset>) {
        self.state.said.paused = true;
        let limit = millis(self.pause_limit);
        self.announce(&format!("endstop: paused by {}", rules.join("; ")));
        let pid = getpid();
        self.announce(&match reset {
            Some(reset) => format!(
                "endstop: calls wait, and the run continues when {}; `kill -USR1 {pid}` continues it now",
                trip::reset_text(reset)
            ),
            None => format!(
                "endstop: continue with `kill -USR1 {pid}`; calls wait for {}, then they get a stop response",
                duration(limit)
            ),
        });
    }

    /// How the command ended, once nothing is left to wait for.
    fn is_done(&mut self) -> Option<Ended> {
        let (ended, at) = self.state.ended?;
        if self.state.leaves {
            return Some(ended);
        }
        if self.state.children == Children::None {
            return Some(ended);
        }
        let left = descendants();
        let now = Instant::now();
        if self.shutdown != ShutdownPhase::Going {
            self.tell_of_grace(&left);
            return None;
        }
        let snapshot = self.snapshot.borrow();
        let since = snapshot.last_call.map_or(at, |call| call.max(at));
        if snapshot.in_flight == 0 && now >= since + self.linger {
            return Some(ended);
        }
        drop(snapshot);
        if !std::mem::replace(&mut self.state.said.lingering, true) {
            let silent = millis(self.linger);
            self.note(&format!(
                "endstop: the command has ended and left {}; the gateway stays until they end, or make no \
                 call for {} (--linger); Ctrl-C ends it now",
                in_words(&left),
                duration(silent)
            ));
        }
        None
    }

    fn draw(&mut self) {
        let calls = self.snapshot.borrow().calls;
        if let (Some(run), Some(terminal)) = (&self.driven, &self.terminal)
            && self.state.suspended.is_none()
            && self.state.ended.is_none()
        {
            let budget = self.state.said.budget.as_ref();
            let notice =
                self.guard.in_short().or(budget.map(|budget| format!("waits for {budget}")));
            let content = RowContent {
                run,
                dry_run: self.dry_run,
                calls,
                since: self.begun,
                notice: notice.as_deref(),
                quotas: self.gateway.quotas(self.id),
            };
            self.line.draw(&content, terminal);
        }
    }

    fn wake(&mut self) -> Instant {
        let is_near = self.line.is_wanted() || self.state.ended.is_some();
        let look = Instant::now() + if is_near { SUPERVISE_LOOK_OFTEN } else { SUPERVISE_LOOK };
        if self.state.children == Children::Unknown {
            return Instant::now();
        }
        // A deadline that has just passed and has not stopped the run is not checked again immediately.
        let now = Instant::now();
        let limit = self
            .limit_in_time()
            .map(|due| if due > now { due } else { now + SUPERVISE_LOOK_OFTEN });
        let due = [self.shutdown.due(), self.state.suspended, limit, self.guard_due()];
        due.into_iter().flatten().fold(look, Instant::min)
    }
}
