//! The listeners of the control API: a unix socket that only its user can open, and an address that asks for a token.

use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// Why the control API cannot listen.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The system refuses.
    #[error("cannot listen on `{at}`: {error}")]
    Listen {
        /// The address or path.
        at: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// There is an address, and no token.
    #[error("{0} needs a token")]
    NoToken(SocketAddr),
    /// Another process listens on the socket.
    #[error("`{}` is the socket of a running process", .0.display())]
    InUse(PathBuf),
    /// Others have permissions for the directory of the socket, or it is of another user.
    #[error("the directory of `{}` is open to other users: it needs mode 0700", .0.display())]
    OpenDirectory(PathBuf),
}

#[cfg(unix)]
pub(crate) use unix::{SocketFile, bind};

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::io::{Error, ErrorKind};
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
    use std::path::{Path, PathBuf};

    use tokio::net::UnixListener;

    use super::ControlError;

    /// The permissions of everybody but the owner.
    const OTHERS: u32 = 0o077;

    /// A socket in the file system. It is removed when this is dropped, and its directory with it if it was created for it.
    #[derive(Debug)]
    pub(crate) struct SocketFile {
        path: PathBuf,
        /// The directory, if it did not exist before.
        made: Option<PathBuf>,
    }

    impl SocketFile {
        pub(crate) fn path(&self) -> &Path {
            &self.path
        }
    }

    impl Drop for SocketFile {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.path);
            if let Some(directory) = &self.made {
                // It stays if something else is in it by now.
                let _ = fs::remove_dir(directory);
            }
        }
    }

    /// Listens on a socket whose directory no other user can open. Takes the place of the socket of a process that has died.
    pub(crate) fn bind(path: &Path) -> Result<(UnixListener, SocketFile), ControlError> {
        let failed = |error: Error| {
            let at = format!("unix:{}", path.display());
            ControlError::Listen { at, error }
        };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let is_new = !directory.exists();
        if is_new {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(directory).map_err(failed)?;
        }
        let of_directory = fs::metadata(directory).map_err(failed)?;
        if of_directory.mode() & OTHERS != 0 {
            return Err(ControlError::OpenDirectory(path.to_owned()));
        }
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                if std::os::unix::net::UnixStream::connect(path).is_ok() {
                    return Err(ControlError::InUse(path.to_owned()));
                }
                remove_socket(path).map_err(failed)?;
                UnixListener::bind(path).map_err(failed)?
            }
            bound => bound.map_err(failed)?,
        };
        let made = is_new.then(|| directory.to_owned());
        let file = SocketFile { path: path.to_owned(), made };
        // The socket is of this user, so this compares the owner of the directory with it.
        let of_socket = fs::symlink_metadata(path).map_err(failed)?;
        if of_socket.uid() != of_directory.uid() {
            return Err(ControlError::OpenDirectory(path.to_owned()));
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok((listener, file))
    }

    /// Removes a socket, and nothing else: a path given by mistake must not remove a file.
    fn remove_socket(path: &Path) -> std::io::Result<()> {
        use std::os::unix::fs::FileTypeExt as _;
        if !fs::symlink_metadata(path)?.file_type().is_socket() {
            return Err(Error::new(ErrorKind::AlreadyExists, "another file is in its place"));
        }
        fs::remove_file(path)
    }
}
