//! The guard refuses and reports connections that bypass the gateway, and ends a command that makes no other calls.
//!
//! Refusing alone would be a bad stop: programs try again for minutes, or forever. A refused connection does not
//! prove a model call: programs open others to their provider for telemetry, and may wait for their user without any
//! call. So the guard ends a command only if it tries again, for [`GuardArgs::guard_wait`], and no call has reached the
//! gateway since; and one that has made calls before only if it tries again and again. A program that draws the screen is
//! left to the person before it: nothing is spent.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use endstop_gateway::{DirectConnections, Gateway, TunnelReport, Tunnels, model_hosts};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::watch::RunSnapshot;
use crate::duration::{millis, span};
use crate::limits::{
    ATTEMPT_SPAN, DEFAULT_GUARD_WAIT, LONG_WAITS, MAX_RETRY_GAP, MAX_RETRY_SPAN, MIN_ATTEMPTS,
    MIN_FEW_SPAN,
};
use crate::output::{counted, duration};

/// The value of `--allow-direct` without a host.
const ALL_HOSTS: &str = "*";

/// The pointer to the other way in, for texts about calls that bypass the gateway.
pub(super) const LIMITS_FIXED: &str = ", --intercept limits fixed addresses too";

/// Flags of the guard.
#[derive(Debug, clap::Args)]
pub(super) struct GuardArgs {
    /// Do not refuse calls that bypass the gateway
    ///
    /// Leave HTTPS_PROXY as it is: connections that bypass the gateway are neither refused nor seen.
    #[arg(long, conflicts_with = "allow_direct")]
    no_guard: bool,
    /// Let calls bypass the gateway, and count them
    ///
    /// Connections to model providers: all of them, or those to HOST. Repeatable.
    #[arg(long, value_name = "HOST", num_args = 0..=1, require_equals = true, default_missing_value = ALL_HOSTS)]
    allow_direct: Vec<String>,
    /// Limit calls to fixed addresses too
    ///
    /// Answer TLS connections to model providers with a certificate made for this run.
    #[arg(long, conflicts_with = "no_guard")]
    intercept: bool,
    /// Time to use the gateway
    ///
    /// Endstop ends a command whose connections to model providers are refused for this long, if it makes no call
    /// through the gateway.
    #[arg(long, value_name = "TIME", value_parser = span, default_value = DEFAULT_GUARD_WAIT)]
    guard_wait: Duration,
    /// Exit with 125 if no model call was seen
    #[arg(long)]
    pub(super) require_calls: bool,
}

impl GuardArgs {
    /// Whether the command gets the gateway as its proxy.
    pub(super) const fn is_on(&self) -> bool {
        !self.no_guard
    }

    /// Returns the tunnels that the gateway offers. `lets_pass` is for a dry run, which stops nothing, and for a command that was started
    /// although its calls go elsewhere.
    pub(super) fn tunnels(&self, lets_pass: bool) -> Tunnels {
        if self.intercept {
            return Tunnels::Intercepted;
        }
        match (self.no_guard, self.allows_all() || lets_pass) {
            (true, _) => Tunnels::Off,
            (false, true) => Tunnels::All,
            (false, false) => Tunnels::Guarded,
        }
    }

    /// Whether connections to model providers are answered by the gateway.
    pub(super) const fn intercepts(&self) -> bool {
        self.intercept
    }

    /// Whether the command may reach all model providers directly.
    pub(super) fn allows_all(&self) -> bool {
        self.allow_direct.iter().any(|host| host == ALL_HOSTS)
    }

    /// Returns the hosts of model providers that the command may reach directly.
    pub(super) fn direct_hosts(&self) -> Vec<String> {
        self.allow_direct.clone()
    }
}

/// Returns the first entry of `NO_PROXY` that takes hosts of model providers out of the guard.
pub(super) fn exempting_entry(no_proxy: &str) -> Option<&str> {
    let takes_out = |entry: &&str| {
        let suffix = entry.trim_start_matches('*').trim_start_matches('.').to_ascii_lowercase();
        let is_within = |host: &str| {
            let rest = host.strip_suffix(suffix.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        *entry == "*"
            || !suffix.is_empty()
                && model_hosts().any(|(pattern, _)| is_within(&pattern.replace('*', "x")))
    };
    no_proxy.split(',').map(str::trim).find(takes_out)
}

/// The supervisor's view of connections that bypass the gateway.
#[derive(Debug)]
pub(super) struct Guard {
    report: watch::Receiver<TunnelReport>,
    mode: Tunnels,
    wait: Duration,
    said: BTreeSet<String>,
    /// The first refusal after the last call, and after the last time that the command was excused.
    since: Option<Instant>,
    /// The latest refusal that was seen.
    latest: Option<Instant>,
    /// The begins of the last attempts that count: of refusals within [`ATTEMPT_SPAN`], the first.
    attempts: VecDeque<Instant>,
    /// How long the command has from the first refusal before it is ended.
    patience: Duration,
    /// When the command was last excused: it was paused, suspended or drew the screen, or a request reached the gateway.
    excused: Option<Instant>,
    /// Requests other than model calls that had reached the gateway by then.
    requests: u64,
    has_ended: bool,
}

impl Guard {
    pub(super) fn new(gateway: &Gateway, args: &GuardArgs) -> Self {
        let (report, mode) = (gateway.tunnels(), gateway.config().tunnels);
        let said = BTreeSet::new();
        let wait = args.guard_wait;
        Self {
            report,
            mode,
            wait,
            said,
            since: None,
            latest: None,
            attempts: VecDeque::new(),
            patience: wait,
            excused: None,
            requests: 0,
            has_ended: false,
        }
    }

    /// Waits for a connection. Never returns once the gateway is gone.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    pub(super) async fn changed(&mut self) {
        if self.report.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Returns a line for each host that was not named before. `may_end` says whether the guard would end a command that
    /// keeps trying.
    pub(super) fn news(&mut self, may_end: bool) -> Vec<String> {
        let report = self.report.borrow_and_update().clone();
        let wait = duration(millis(self.wait));
        let mut lines = Vec::new();
        for (host, direct) in &report.model_hosts {
            if (direct.refused + direct.untrusted + direct.tunnelled) == 0
                || !self.said.insert(host.clone())
            {
                continue;
            }
            let provider = direct.provider;
            let unless = match may_end {
                true => format!(
                    "; Endstop ends the command if it keeps trying for {wait} without a call through the gateway"
                ),
                false => String::new(),
            };
            lines.push(match (direct.refused, direct.untrusted) {
                (0, 0) => format!(
                    "endstop: a connection to {host} ({provider}) bypasses the gateway; model calls there are not limited"
                ),
                (0, _) => format!(
                    "endstop: the command ended a connection to {host} ({provider}) that --intercept answered: it does not \
                     trust the certificate of this run{unless}"
                ),
                _ => format!(
                    "endstop: refused a connection to {host} ({provider}): model calls there would bypass the \
                     limits{unless}"
                ),
            });
        }
        lines
    }

    /// For the status line: the host that was refused.
    pub(super) fn in_short(&self) -> Option<String> {
        let report = self.report.borrow();
        let host =
            report.model_hosts.iter().find(|(_, direct)| direct.refused + direct.untrusted > 0);
        host.map(|(host, _)| format!("refused {host}"))
    }

    /// Returns when the command is ended if nothing changes. `requests` is how many requests other than model calls have
    /// reached the gateway, and `is_excused` whether the command may not be ended now.
    ///
    /// Only refusals after the last call count, and after the last moment in which the command was excused. One or two
    /// attempts end nothing: they can be telemetry of a program that waits for its user, each with quick retries. Four have
    /// more time than three, because clients also try in bursts. A command that has made calls is ended only while it still
    /// tries: a burst of refusals that is over can be that of one tool.
    pub(super) fn due(
        &mut self,
        now: Instant,
        snapshot: &RunSnapshot,
        requests: u64,
        is_excused: bool,
    ) -> Option<Instant> {
        let is_waiting = snapshot.paused.is_some() || snapshot.pause.is_some();
        let has_new_requests = std::mem::replace(&mut self.requests, requests) != requests;
        if is_excused || is_waiting || has_new_requests || snapshot.in_flight > 0 {
            self.excused = Some(now);
            return None;
        }
        if self.has_ended || snapshot.stopped.is_some() {
            return None;
        }
        let has_calls = snapshot.calls + requests > 0;
        let few_span = self.wait.saturating_mul(2).max(MIN_FEW_SPAN);
        let long_wait = self.wait.saturating_mul(LONG_WAITS);
        let longest_gap = if has_calls { MAX_RETRY_GAP } else { few_span.max(long_wait) };
        let report = self.report.borrow();
        let latest = *report.last_refused.back()?;
        let before = self.latest.replace(latest);
        let floor = self.excused.max(snapshot.last_call);
        let counts = |time: &Instant| floor.is_none_or(|floor| *time > floor);
        if before.is_some_and(|before| latest.saturating_duration_since(before) > longest_gap) {
            self.since = Some(latest).filter(counts);
        } else if !self.since.is_some_and(|since| counts(&since)) {
            self.since = report.last_refused.iter().copied().find(counts);
        }
        self.attempts.retain(counts);
        for time in report.last_refused.iter().copied().filter(counts) {
            let is_seen = before.is_some_and(|before| time <= before);
            let goes_on = self
                .attempts
                .back()
                .is_some_and(|begun| time.saturating_duration_since(*begun) < ATTEMPT_SPAN);
            if !is_seen && !goes_on {
                self.attempts.push_back(time);
            }
            if self.attempts.len() > MIN_ATTEMPTS + 1 {
                self.attempts.pop_front();
            }
        }
        let since = self.since?;
        if has_calls {
            let many_since = report.many_refused_since().filter(counts)?;
            let is_retry = latest.saturating_duration_since(many_since) <= MAX_RETRY_SPAN;
            let still_tries = latest >= since.checked_add(long_wait / 2)?;
            self.patience = long_wait;
            return since.checked_add(long_wait).filter(|_| is_retry && still_tries);
        }
        let newest = *self.attempts.back()?;
        let came_within = |count: usize, span: Duration| {
            let first = self.attempts.iter().rev().nth(count.saturating_sub(1));
            first.is_some_and(|first| newest.saturating_duration_since(*first) < span)
        };
        let keeps_trying = came_within(MIN_ATTEMPTS, few_span)
            || came_within(MIN_ATTEMPTS + 1, few_span.saturating_mul(3) / 2);
        let still_tries = latest >= since.checked_add(self.wait / 2)?;
        self.patience = if still_tries { self.wait } else { long_wait };
        since.checked_add(self.patience).filter(|_| keeps_trying)
    }

    /// Ends the command: returns why.
    pub(super) fn end(&mut self) -> String {
        self.has_ended = true;
        let hosts = in_words(&self.report.borrow(), |direct| direct.refused + direct.untrusted);
        let wait = duration(millis(self.patience));
        let other_way = if self.mode == Tunnels::Intercepted { "" } else { LIMITS_FIXED };
        format!(
            "endstop: ended the command: refused {hosts}, and no call came through the gateway for {wait}; `endstop doctor` \
             says how the command can be limited{other_way}, --allow-direct=HOST lets it pass"
        )
    }

    /// Returns the outcome, at the end of the run.
    pub(super) fn outcome(&self, args: &GuardArgs) -> GuardOutcome {
        GuardOutcome {
            mode: self.mode,
            report: self.report.borrow().clone(),
            has_ended: self.has_ended,
            requires_calls: args.require_calls,
        }
    }
}

/// The guard's part of the summary.
#[derive(Debug)]
pub(super) struct GuardOutcome {
    mode: Tunnels,
    report: TunnelReport,
    /// Whether it has ended the command.
    pub(super) has_ended: bool,
    pub(super) requires_calls: bool,
}

impl GuardOutcome {
    /// Whether it answered connections to model providers.
    pub(super) fn intercepted_all(&self) -> bool {
        self.mode == Tunnels::Intercepted
    }

    /// Whether there was no guard.
    pub(super) fn is_off(&self) -> bool {
        self.mode == Tunnels::Off
    }

    /// Whether it would have seen each attempt to reach a model provider, and saw none.
    pub(super) fn saw_no_attempt(&self) -> bool {
        let report = &self.report;
        !self.is_off() && report.refused() + report.untrusted() + report.tunnelled() == 0
    }

    /// Lines of the summary, also with `--quiet`.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.report.refused() > 0 {
            let hosts = in_words(&self.report, |direct| direct.refused);
            lines.push(format!(
                "endstop: refused {hosts}: model calls there would have bypassed the limits"
            ));
        }
        if self.report.untrusted() > 0 {
            let hosts = in_words(&self.report, |direct| direct.untrusted);
            lines.push(format!(
                "endstop: not intercepted: the command ended {hosts}, because it does not trust the certificate of this run"
            ));
        }
        if self.report.tunnelled() > 0 {
            let hosts = in_words(&self.report, |direct| direct.tunnelled);
            lines.push(format!("endstop: not limited: {hosts} bypassed the gateway"));
        }
        if self.report.without_password > 0 {
            let count = counted(self.report.without_password, "connection");
            lines.push(format!(
                "endstop: refused {count} to other hosts: they lacked the password of HTTPS_PROXY; that is no problem \
                 if the command worked, because many programs send it only when they are asked"
            ));
        }
        lines
    }

    /// The intercepted hosts, for the summary.
    pub(super) fn intercepted(&self) -> Option<String> {
        let hosts = in_words(&self.report, |direct| direct.intercepted);
        (!hosts.is_empty()).then(|| format!("endstop: intercepted {hosts}"))
    }

    pub(super) fn to_json(&self) -> Value {
        let of = |count: fn(&DirectConnections) -> u64| {
            let hosts = self.report.model_hosts.iter().map(|(host, it)| (host.clone(), count(it)));
            let hosts = hosts.filter(|(_, count)| *count > 0).map(|(host, n)| (host, json!(n)));
            Value::Object(hosts.collect())
        };
        let mut guard = json!({
            "mode": match self.mode {
                Tunnels::Off => "off",
                Tunnels::Guarded => "refuse",
                Tunnels::All => "allow",
                Tunnels::Intercepted => "intercept",
            },
            "refused": of(|direct| direct.refused),
            "direct": of(|direct| direct.tunnelled),
            "other_tunnels": self.report.other,
            "ended_command": self.has_ended,
        });
        if self.mode == Tunnels::Intercepted
            && let Some(guard) = guard.as_object_mut()
        {
            guard.insert("intercepted".to_owned(), of(|direct| direct.intercepted));
            guard.insert("untrusted".to_owned(), of(|direct| direct.untrusted));
        }
        guard
    }
}

/// `2 connections to api.openai.com and 1 connection to chatgpt.com`.
fn in_words(report: &TunnelReport, count: impl Fn(&DirectConnections) -> u64) -> String {
    let hosts = report.model_hosts.iter().map(|(host, direct)| (host, count(direct)));
    let hosts = hosts.filter(|(_, count)| *count > 0);
    let words: Vec<_> =
        hosts.map(|(host, count)| format!("{} to {host}", counted(count, "connection"))).collect();
    words.join(" and ")
}

#[cfg(test)]
mod tests;
