//! The directory for files that an adapter adds: the user's alone, and removed at the end.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

use crate::limits::MAX_PARENTS;

/// A directory of one run, mode 0700. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    /// The places that are tried, in this order.
    places: Vec<PathBuf>,
    /// The place that was taken, or the first one until then.
    path: PathBuf,
    exists: bool,
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
            parents.map(|parent| parent.join(format!("endstop-{name}"))).collect();
        let path = places.first().cloned().unwrap_or_default();
        Self { places, path, exists: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates it in the first place that can be written to; its path is known then.
    ///
    /// # Errors
    /// That of the last place, if it can be created in none.
    pub(crate) fn create(&mut self) -> io::Result<()> {
        let mut created = Err(io::Error::from(io::ErrorKind::NotFound));
        for place in &self.places {
            created = std::fs::DirBuilder::new().mode(0o700).create(place);
            if created.is_ok() {
                self.path.clone_from(place);
                self.exists = true;
                break;
            }
        }
        created
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
