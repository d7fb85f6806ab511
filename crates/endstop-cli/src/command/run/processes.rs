//! The processes of the command: its group, and its descendants, even if they left the group.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use std::time::Instant;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpid, getsid};

use crate::limits::{MAX_KILL_SWEEP_TIME, MAX_KILL_SWEEPS};

/// How often the newest processes are read in a pass: for some milliseconds, in which a process that forks and exits
/// is seen several times.
const LOOKS_AT_NEWEST: usize = 50;
/// How many of them: a few others can begin at the same time.
const NEWEST: i32 = 2;

/// A process below this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) name: String,
}

/// Adopts the orphans among the processes below this one, so that they are found.
pub(super) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    {
        // Older kernels cannot: then a daemon is not found.
        let _ = nix::sys::prctl::set_child_subreaper(true);
    }
}

/// The processes below this one that have not ended. None if the system has no `/proc`.
pub(super) fn descendants() -> Vec<Process> {
    let below = below(getpid().as_raw(), entries().collect());
    below.into_iter().filter(|entry| !entry.is_dead).map(ProcessEntry::into_process).collect()
}

/// The processes of the system, each as it is when the iterator reaches it.
fn entries() -> impl Iterator<Item = ProcessEntry> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(read)
}

/// The process with a number. None if it has ended.
fn read(pid: i32) -> Option<ProcessEntry> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The number that the system gave to a process last.
fn newest() -> Option<i32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// One line of `/proc/PID/stat`: `1234 (name) S 1 …`. The name may hold anything, parentheses too.
fn parse(pid: i32, stat: &str) -> Option<ProcessEntry> {
    let (begin, end) = (stat.find('(')?, stat.rfind(')')?);
    let name = stat.get(begin + 1..end)?.to_owned();
    let mut rest = stat.get(end + 1..)?.split_ascii_whitespace();
    let state = rest.next()?;
    let mut number = || rest.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    Some(ProcessEntry { pid, parent, group, session, name, is_dead: matches!(state, "Z" | "X") })
}

struct ProcessEntry {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    name: String,
    is_dead: bool,
}

impl ProcessEntry {
    fn into_process(self) -> Process {
        Process { pid: Pid::from_raw(self.pid), name: self.name }
    }
}

/// The entries below a process, parents before their children.
fn below(root: i32, entries: Vec<ProcessEntry>) -> Vec<ProcessEntry> {
    let mut children: BTreeMap<i32, Vec<ProcessEntry>> = BTreeMap::new();
    for entry in entries {
        children.entry(entry.parent).or_default().push(entry);
    }
    let (mut found, mut seen, mut next) = (Vec::new(), BTreeSet::from([root]), vec![root]);
    while let Some(parent) = next.pop() {
        for entry in children.remove(&parent).unwrap_or_default() {
            // Numbers are used again, so a snapshot can hold a circle.
            if seen.insert(entry.pid) {
                next.push(entry.pid);
                found.push(entry);
            }
        }
    }
    found
}

/// Sends a signal to the group of the command, if it is still there.
pub(super) fn tell_group(group: Pid, signal: Signal) {
    // It may have ended just now.
    let _ = killpg(group, signal);
}

/// Sends a signal to the group, and to everything below this process that has left it.
pub(super) fn tell_all(group: Pid, signal: Signal) {
    tell_group(group, signal);
    for process in descendants() {
        if nix::unistd::getpgid(Some(process.pid)) != Ok(group) {
            let _ = kill(process.pid, signal);
        }
    }
}

/// Ends the group, and everything below this process.
///
/// A process that forks and exits all the time is gone before a list of processes is read. So there are three ways to
/// meet it: each child of this process, which adopts orphans, is ended as soon as it is seen; so is its group, also that
/// of one that has ended, for a signal to a group reaches all that are in it at one moment; and those that began last are
/// read again and again. Passes are repeated until two in a row find no new process, within [`MAX_KILL_SWEEPS`] and
/// [`MAX_KILL_SWEEP_TIME`].
///
/// A PID namespace would end them all together, and is not used. A user may have one only within a user namespace,
/// which many systems forbid, where `sudo` in the command fails, and files of other users seem to have no owner. The
/// command would see other process ids than its user, and its first process would ignore signals that it does not
/// handle. A cgroup needs a directory that the system has delegated to the user, which a login has and a container
/// mostly has not.
pub(super) fn kill_all(group: Pid) {
    let mut sweep = KillSweep::new(group);
    let begun = Instant::now();
    let mut quiet = 0;
    for _ in 0..MAX_KILL_SWEEPS {
        quiet = if sweep.pass() { 0 } else { quiet + 1 };
        if quiet == 2 || begun.elapsed() >= MAX_KILL_SWEEP_TIME {
            return;
        }
    }
}

/// Who was ended already.
struct KillSweep {
    own: i32,
    /// The session of this process, which others share.
    session: Option<i32>,
    main_group: Pid,
    known: BTreeSet<i32>,
}

impl KillSweep {
    fn new(main_group: Pid) -> Self {
        let session = getsid(None).ok().map(Pid::as_raw);
        let known = BTreeSet::from([main_group.as_raw()]);
        Self { own: getpid().as_raw(), session, main_group, known }
    }

    /// Ends all processes that one look finds. Returns whether one of them is new.
    fn pass(&mut self) -> bool {
        let before = self.known.len();
        tell_group(self.main_group, Signal::SIGKILL);
        let mut seen = Vec::new();
        for entry in entries() {
            if entry.parent == self.own {
                self.end(&entry);
            }
            seen.push(entry);
        }
        for entry in below(self.own, seen) {
            self.end(&entry);
        }
        self.end_newest();
        self.known.len() > before
    }

    /// Ends children of this process among those that began last.
    fn end_newest(&mut self) {
        for _ in 0..LOOKS_AT_NEWEST {
            let Some(newest) = newest() else { return };
            for entry in (newest.saturating_sub(NEWEST)..=newest).rev().filter_map(read) {
                if entry.parent == self.own {
                    self.end(&entry);
                }
            }
        }
    }

    fn end(&mut self, entry: &ProcessEntry) {
        if !self.known.insert(entry.pid) {
            return;
        }
        // They may have ended just now.
        if !entry.is_dead {
            let _ = kill(Pid::from_raw(entry.pid), Signal::SIGKILL);
        }
        if self.is_own_group(entry) {
            let _ = killpg(Pid::from_raw(entry.group), Signal::SIGKILL);
        }
    }

    /// Whether all of the group are below this process. A process can enter a group of strangers in its own session,
    /// such as that of the shell, but none of another session.
    fn is_own_group(&self, entry: &ProcessEntry) -> bool {
        let is_other_session = self.session.is_some_and(|own| own != entry.session);
        entry.group > 1 && (is_other_session || self.known.contains(&entry.group))
    }
}

/// The processes in a few words: `sleep (12), sh (14) and 3 more`.
pub(super) fn in_words(processes: &[Process]) -> String {
    const SHOWN: usize = 3;
    if processes.is_empty() {
        return "a process that forks and exits all the time".to_owned();
    }
    let shown = processes.iter().take(SHOWN);
    let names = shown
        .map(|process| format!("{} ({})", endstop::observe::clean(&process.name), process.pid));
    let mut text = names.collect::<Vec<_>>().join(", ");
    if processes.len() > SHOWN {
        text.push_str(&format!(" and {} more", processes.len() - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests;
