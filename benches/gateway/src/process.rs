//! Processor time and memory of a process and its children, as the system counts them (Linux).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

/// A tick of the counters in `/proc/PID/stat`.
const TICK: Duration = Duration::from_millis(10);

/// The time that the scheduler counted for the living threads of a process, to the nanosecond; `None` if the system does
/// not count it.
fn scheduled(id: u32) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{id}/task")).ok()?.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        sum += Duration::from_nanos(text.split(' ').next()?.parse().ok()?);
    }
    (!sum.is_zero()).then_some(sum)
}

/// A process as `/proc/PID/stat` has it: its parent, and its ticks in user and system mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    ticks: u32,
}

fn stat_of(text: &str) -> Option<Stat> {
    // The name, in brackets, may hold anything; numbers begin after the last one.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let number = |index: usize| fields.get(index)?.parse::<u32>().ok();
    Some(Stat { parent: number(1)?, ticks: number(11)? + number(12)? })
}

/// The process and its descendants.
fn tree(root: u32) -> BTreeMap<u32, Stat> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let text = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(stat) = stat_of(&text) {
            all.insert(id, stat);
        }
    }
    let mut members = BTreeSet::from([root]);
    loop {
        let before = members.len();
        let children = all.iter().filter(|(_, stat)| members.contains(&stat.parent));
        let children: Vec<u32> = children.map(|(&id, _)| id).collect();
        members.extend(children);
        if members.len() == before {
            break;
        }
    }
    all.retain(|id, _| members.contains(id));
    all
}

/// Processor time that a process and its children have taken so far, in user and system mode.
pub fn processor_time(root: u32) -> Duration {
    tree(root).iter().map(|(&id, stat)| scheduled(id).unwrap_or(TICK * stat.ticks)).sum()
}

/// Memory that a process and its children hold, in KiB; pages that they share count for each.
pub fn resident_kib(root: u32) -> u64 {
    tree(root)
        .keys()
        .filter_map(|id| fs::read_to_string(format!("/proc/{id}/status")).ok())
        .filter_map(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim();
            line.split(' ').next()?.parse::<u64>().ok()
        })
        .sum()
}

#[cfg(test)]
mod tests;
