//! The directory for files that an adapter adds: the user's alone, and removed at the end.
//!
//! Its files can have keys of the user in them. A process that was killed leaves its directory behind, and the next run
//! removes it: the system has released the lock in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

use crate::limits::{MAX_PARENTS, MAX_PLACE_NAMES};

/// The beginning of a directory's name; the run's id follows.
const PREFIX: &str = "endstop-";
/// The length of the id that a run gets: a UUID with its dashes.
const ID_LENGTH: usize = 36;
/// The file in a directory whose lock its process holds.
const LOCK: &str = ".endstop-lock";
/// Its name until it is locked.
const LOCK_DRAFT: &str = ".endstop-lock.draft";

/// A directory of one run, mode 0700. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    /// The places that are tried, in this order.
    places: Vec<PathBuf>,
    /// The place that was taken, or the first one until then.
    path: PathBuf,
    exists: bool,
    /// Held while this process lives. `None` if the file system has no locks: no other run removes the directory then.
    _lock: Option<File>,
}

impl PrivateDirectory {
    /// The place of a directory that does not exist yet.
    ///
    /// Its parent is the user's runtime directory, cache or home directory, unless everyone can write to it: Gemini CLI
    /// refuses settings below such a directory. After those of the environment comes the home directory of the account,
    /// and at last the directory for temporary files.
    pub(crate) fn plan(name: &str, variable: impl Fn(&str) -> Option<String>) -> Self {
        let account = User::from_uid(Uid::effective()).ok().flatten();
        Self::plan_for(name, variable, account.map(|user| user.dir))
    }

    fn plan_for(
        name: &str,
        variable: impl Fn(&str) -> Option<String>,
        account_home: Option<PathBuf>,
    ) -> Self {
        let named =
            |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = named("HOME");
        let cache = |home: &Option<PathBuf>| home.as_ref().map(|home| home.join(".cache"));
        let (of_home, of_account) = (cache(&home), cache(&account_home));
        let of_environment = [named("XDG_RUNTIME_DIR"), named("XDG_CACHE_HOME"), of_home, home];
        let places = of_environment.into_iter().chain([of_account, account_home]);
        let parents = places.flatten().filter(|path| is_private(path));
        let parents = parents.chain([std::env::temp_dir()]);
        let places: Vec<PathBuf> =
            parents.map(|parent| parent.join(format!("{PREFIX}{name}"))).collect();
        let path = places.first().cloned().unwrap_or_default();
        Self { places, path, exists: false, _lock: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates it in the first place that can be written to, unless it exists; its path is known then.
    ///
    /// # Errors
    /// That of the last place, if it can be created in none.
    pub(crate) fn create(&mut self) -> io::Result<()> {
        if self.exists {
            return Ok(());
        }
        let mut created = Err(io::Error::from(io::ErrorKind::NotFound));
        for place in &self.places {
            created = std::fs::DirBuilder::new().mode(0o700).create(place);
            if created.is_ok() {
                self.path.clone_from(place);
                self.exists = true;
                self._lock = lock_in(place).ok();
                break;
            }
        }
        created
    }

    /// Removes the directories of runs whose process ended without doing so, in all places that a run can take.
    pub(crate) fn remove_dead(&self) {
        for parent in self.places.iter().filter_map(|place| place.parent()) {
            let entries = std::fs::read_dir(parent).into_iter().flatten();
            let entries = entries.take(MAX_PLACE_NAMES).filter_map(Result::ok);
            let named = entries.filter(|entry| is_name_of_run(&entry.file_name()));
            for path in named.map(|entry| entry.path()).filter(|path| is_dead(path)) {
                // Another run may have removed it.
                let _ = std::fs::remove_dir_all(path);
            }
        }
    }

    /// Writes these files and links into it.
    ///
    /// # Errors
    /// Returns an error if one cannot be written.
    pub(crate) fn fill(
        &self,
        files: &[(String, String)],
        links: &[(OsString, PathBuf)],
    ) -> io::Result<()> {
        for (name, text) in files {
            let file = self.path.join(name);
            std::fs::write(&file, text)?;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))?;
        }
        for (name, target) in links {
            std::os::unix::fs::symlink(target, self.path.join(name))?;
        }
        Ok(())
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        if self.exists {
            // Links are removed, not followed. A file that cannot be removed is no reason to fail at the end.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Locks a directory for this process. The file appears under its name once it is locked, so that a directory with an
/// unlocked one is dead.
fn lock_in(directory: &Path) -> io::Result<File> {
    let draft = directory.join(LOCK_DRAFT);
    let file = File::create_new(&draft)?;
    file.lock()?;
    std::fs::rename(&draft, directory.join(LOCK))?;
    Ok(file)
}

fn is_name_of_run(name: &OsStr) -> bool {
    let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    id.is_some_and(|id| {
        id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    })
}

/// Whether a directory is the user's, and no process holds its lock.
fn is_dead(directory: &Path) -> bool {
    let is_own = directory.symlink_metadata().is_ok_and(|data| {
        data.is_dir() && data.uid() == Uid::effective().as_raw() && data.mode() & 0o077 == 0
    });
    let lock = File::options().read(true).write(true).open(directory.join(LOCK));
    is_own && lock.is_ok_and(|lock| lock.try_lock().is_ok())
}

/// Whether a directory exists, is absolute, and neither it nor one above it can be written by everyone.
fn is_private(path: &Path) -> bool {
    path.is_absolute()
        && path.is_dir()
        && path
            .ancestors()
            .take(MAX_PARENTS)
            .all(|above| above.metadata().is_ok_and(|data| data.mode() & 0o002 == 0))
}

#[cfg(test)]
mod tests;
