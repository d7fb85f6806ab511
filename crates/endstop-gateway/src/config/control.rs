//! The listeners of the control API.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::Key;
use crate::control_source::ControlSource;

/// The listeners of the control API. Without one there is none.
///
/// ```
/// use endstop_gateway::{Control, Key};
///
/// let control = Control {
///     socket: Some("/run/user/1000/endstop/8484.sock".into()),
///     listen: Some("127.0.0.1:8485".parse()?),
///     token: Some(Key::new("secret")),
///     ..Control::default()
/// };
/// assert!(!format!("{control:?}").contains("secret"));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// The path of a unix socket. Its directory is created with mode 0700 if it does not exist, and must be of this user
    /// with no permissions for others: a process that opens the socket controls every run, without a token. Ignored on other
    /// systems.
    pub socket: Option<PathBuf>,
    /// A separate address; port 0 takes a free one. It needs the token.
    pub listen: Option<SocketAddr>,
    /// The bearer token of requests to [`Control::listen`].
    pub token: Option<Key>,
    /// Answers questions about budgets over time and spend. With `None` there are no such answers.
    pub source: Option<Arc<dyn ControlSource>>,
}
