//! The processes of the command: its group, and what it began, also where that has left the group.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpid};

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

/// The processes below this one that have not ended. None where the system has no `/proc`.
pub(super) fn descendants() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let stats = numbers.filter_map(|pid| {
        // A process may end while this is read.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        parse(pid, &stat)
    });
    below(getpid().as_raw(), stats.collect())
}

/// One line of `/proc/PID/stat`: `1234 (name) S 1 …`. The name may hold anything, parentheses too.
fn parse(pid: i32, stat: &str) -> Option<Entry> {
    let (begin, end) = (stat.find('(')?, stat.rfind(')')?);
    let name = stat.get(begin + 1..end)?.to_owned();
    let mut rest = stat.get(end + 1..)?.split_ascii_whitespace();
    let state = rest.next()?;
    let parent = rest.next()?.parse().ok()?;
    Some(Entry { pid, parent, name, is_dead: matches!(state, "Z" | "X") })
}

struct Entry {
    pid: i32,
    parent: i32,
    name: String,
    is_dead: bool,
}

fn below(root: i32, entries: Vec<Entry>) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        children.entry(entry.parent).or_default().push(entry);
    }
    let (mut found, mut seen, mut next) = (Vec::new(), BTreeSet::from([root]), vec![root]);
    while let Some(parent) = next.pop() {
        for entry in children.remove(&parent).unwrap_or_default() {
            // Numbers are used again, so a snapshot can hold a circle.
            if seen.insert(entry.pid) {
                next.push(entry.pid);
                if !entry.is_dead {
                    found.push(Process { pid: Pid::from_raw(entry.pid), name: entry.name });
                }
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

/// The processes in a few words: `sleep (12), sh (14) and 3 more`.
pub(super) fn in_words(processes: &[Process]) -> String {
    const SHOWN: usize = 3;
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
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let entry = parse(7, "7 (a) S 99 (b) S 3 7 7 0 -1").unwrap();
        assert_eq!((entry.parent, entry.name.as_str(), entry.is_dead), (3, "a) S 99 (b", false));
        assert!(parse(7, "7 (a) Z 3").unwrap().is_dead);
        for broken in ["", "7", "7 (a", "7 (a)", "7 (a) S", "7 (a) S x", ")("] {
            assert!(parse(7, broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn processes_below_are_found_at_any_depth_and_circles_end() {
        let entry = |pid, parent, is_dead| Entry { pid, parent, name: pid.to_string(), is_dead };
        let entries = vec![
            entry(2, 1, false),
            entry(3, 2, true),
            entry(4, 3, false),
            entry(9, 8, false),
            entry(1, 4, false),
        ];
        let mut found: Vec<i32> = below(1, entries).iter().map(|p| p.pid.as_raw()).collect();
        found.sort_unstable();
        assert_eq!(found, [2, 4]);
    }
}
