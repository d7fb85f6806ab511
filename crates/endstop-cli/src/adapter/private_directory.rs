//! The directory for files that an adapter adds: the user's alone, and removed at the end.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::limits::MAX_PARENTS;

/// A directory of one run, mode 0700. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    path: PathBuf,
    exists: bool,
}

impl PrivateDirectory {
    /// The place of a directory that does not exist yet.
    ///
    /// Its parent is the first of the user's runtime directory, cache and home directory that only its group and its
    /// owner can write to, because Gemini CLI refuses settings below a directory that everyone can write to. Otherwise it is the directory
    /// for temporary files.
    pub(crate) fn plan(name: &str, variable: impl Fn(&str) -> Option<String>) -> Self {
        let named =
            |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = named("HOME");
        let cache = home.as_ref().map(|home| home.join(".cache"));
        let places = [named("XDG_RUNTIME_DIR"), named("XDG_CACHE_HOME"), cache, home];
        let parent = places.into_iter().flatten().find(|path| is_private(path));
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        Self { path: parent.join(format!("endstop-{name}")), exists: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it, with these files and links.
    ///
    /// # Errors
    /// If it exists already, or something cannot be written.
    pub(crate) fn fill(
        &mut self,
        files: &[(String, String)],
        links: &[(OsString, PathBuf)],
    ) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(0o700).create(&self.path)?;
        self.exists = true;
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
        directory.fill(&files, &[("mine".into(), target.clone())]).unwrap();
        let path = directory.path().to_owned();
        assert_eq!((mode(&path), mode(&path.join("a.json"))), (0o700, 0o600));
        assert_eq!(std::fs::read_to_string(path.join("mine/kept")).unwrap(), "x");
        assert!(directory.fill(&files, &[]).is_err(), "it exists");
        drop(directory);
        assert!(!path.exists() && target.join("kept").exists());
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
        assert_eq!(PrivateDirectory::plan("r", of).path().parent(), Some(&*std::env::temp_dir()));
        std::fs::set_permissions(&parent, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}
