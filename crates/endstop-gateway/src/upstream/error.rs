//! Why a call to an upstream failed.

use std::time::Duration;

use http::StatusCode;
use thiserror::Error;

/// Why an upstream gave no answer, or broke it off. Nothing in it comes from a header or a body.
#[derive(Debug, Error)]
pub(crate) enum UpstreamError {
    /// There is no connection to it.
    #[error("cannot connect to {host}: {error}")]
    Connect {
        /// Host and port.
        host: String,
        /// The error of the system or of TLS.
        error: std::io::Error,
    },
    /// The path of the request cannot be put behind that of the base.
    #[error("the path of the request is not valid")]
    Path,
    /// It said twice that it does not take the request, or closed before it was written: it was not processed.
    #[error("the upstream does not accept the request: {0}")]
    Refused(String),
    /// It took the request, or may have, and did not begin an answer.
    #[error("the upstream has not answered within {within:?}")]
    Silent {
        /// How long it had.
        within: Duration,
    },
    /// It broke off, or what it says is not HTTP. The request may have reached it.
    #[error("the upstream closed the connection early: {0}")]
    Broken(String),
}

impl From<hyper::Error> for UpstreamError {
    fn from(error: hyper::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

impl UpstreamError {
    /// The status that the client gets.
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::Silent { .. } => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// Whether the request may have reached the upstream, which may charge for it then.
    pub(crate) const fn may_have_arrived(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Silent { .. })
    }
}
