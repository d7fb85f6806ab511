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
    /// If one cannot be written.
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
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    fn place(test: &str) -> PathBuf {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/private").join(test);
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        path.canonicalize().unwrap()
    }

    #[test]
    fn it_is_the_users_alone_and_gone_at_the_end() {
        let parent = place("filled");
        let target = parent.join("mine");
        std::fs::create_dir(&target).unwrap();
        std::fs::write(target.join("kept"), "x").unwrap();
        let home = parent.to_string_lossy().into_owned();
        let mut directory =
            PrivateDirectory::plan("run", |name| (name == "HOME").then(|| home.clone()));
        assert!(!directory.path().exists());
        let files = [("a.json".to_owned(), "{}".to_owned())];
        directory.create().unwrap();
        directory.fill(&files, &[("mine".into(), target.clone())]).unwrap();
        let path = directory.path().to_owned();
        assert_eq!((mode(&path), mode(&path.join("a.json"))), (0o700, 0o600));
        assert_eq!(std::fs::read_to_string(path.join("mine/kept")).unwrap(), "x");
        assert!(
            directory.fill(&files, &[("mine".into(), target.clone())]).is_err(),
            "linked twice"
        );
        drop(directory);
        assert!(!path.exists() && target.join("kept").exists());
    }

    #[test]
    fn the_next_place_is_taken_where_one_cannot_be_written_to() {
        let (taken, home) = (place("taken"), place("free"));
        std::fs::write(taken.join("endstop-run"), "in the way").unwrap();
        // Given as they are, because everyone can write to some directory above many checkouts.
        let places = vec![taken.join("endstop-run"), home.join("endstop-run")];
        let mut directory = PrivateDirectory { path: places[0].clone(), places, exists: false };
        directory.create().unwrap();
        assert_eq!(directory.path().parent(), Some(&*home));
        drop(directory);
        assert!(taken.join("endstop-run").exists() && !home.join("endstop-run").exists());
    }

    #[test]
    fn a_directory_that_everyone_can_write_to_is_passed_over() {
        let parent = place("open");
        std::fs::set_permissions(&parent, std::fs::Permissions::from_mode(0o777)).unwrap();
        let inner = parent.join("inner");
        std::fs::create_dir(&inner).unwrap();
        assert!(!is_private(&parent) && !is_private(&inner));
        assert!(!is_private(Path::new("relative")) && !is_private(&parent.join("missing")));
        let of = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| inner.display().to_string());
        for account in [None, Some(inner.clone())] {
            let directory = PrivateDirectory::plan_for("r", of, account);
            assert_eq!(directory.path().parent(), Some(&*std::env::temp_dir()));
        }
        let directory = PrivateDirectory::plan_for("r", of, Some(PathBuf::from("/")));
        assert_eq!(directory.path(), Path::new("/endstop-r"), "the account's home is private");
        std::fs::set_permissions(&parent, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}
