//! The process group of a command.

/// Kills the group when it is dropped: after the command ended, at its time limit, and when no task waits for it.
#[derive(Debug)]
pub(super) struct GroupGuard {
    #[cfg(unix)]
    group: Option<nix::unistd::Pid>,
}

impl GroupGuard {
    /// Of the group that is led by the process with this id.
    #[cfg(unix)]
    pub(super) fn new(leader: Option<u32>) -> Self {
        let leader = leader.and_then(|id| i32::try_from(id).ok());
        // 0 and 1 would mean this program's own group, and every process.
        Self { group: leader.filter(|id| *id > 1).map(nix::unistd::Pid::from_raw) }
    }

    #[cfg(not(unix))]
    pub(super) fn new(_leader: Option<u32>) -> Self {
        Self {}
    }
}

#[cfg(unix)]
impl Drop for GroupGuard {
    fn drop(&mut self) {
        // The id may be unused by now. To belong to another group, all other process ids would have to be used up in
        // the moment since the shell was reaped.
        if let Some(group) = self.group {
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        }
    }
}
