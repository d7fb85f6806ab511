//! Why a model request failed.

use std::fmt;
use std::time::Duration;

use endstop_core::units::TokenUsage;
use thiserror::Error;

mod provider_error;

pub use provider_error::{ProviderError, retry_after};

/// Statuses by which an API says that it failed or is overloaded (docs/semantics.md, "Charging when usage is missing").
pub(crate) const FAILED_STATUSES: &[u16] = &[500, 503, 529];

/// Why a request failed.
///
/// ```
/// use endstop_runtime::{ModelError, ModelErrorKind};
///
/// let refused = ModelError::new(ModelErrorKind::Connection, "connection refused");
/// assert!(refused.kind.is_retryable() && !refused.may_be_charged(false));
/// let late = ModelError::new(ModelErrorKind::TimedOut, "no byte within 60s");
/// assert!(late.may_be_charged(false), "the provider may have answered");
/// assert_eq!(late.to_string(), "no answer in time: no byte within 60s");
/// ```
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{kind}: {message}")]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ModelErrorKind,
    /// The message of the provider or the network, without secrets.
    pub message: String,
    /// The status code, if there was a response (`http.response.status_code`).
    pub status: Option<u16>,
    /// The time that the provider asks to wait before another attempt (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// Tokens that the provider says it charged for the failed request.
    pub usage: Option<TokenUsage>,
    /// Whether the response was charged, if known.
    pub billing: ErrorBilling,
}

/// Whether an error response was charged, if known.
///
/// ```
/// use endstop_runtime::{ErrorBilling, ModelError, ModelErrorKind};
///
/// let busy = |billing| ModelError {
///     status: Some(503),
///     billing,
///     ..ModelError::new(ModelErrorKind::Unavailable, "busy")
/// };
/// assert!(!busy(ErrorBilling::Free).may_be_charged(false));
/// // A proxy may have asked a provider before it failed.
/// assert!(busy(ErrorBilling::OfApi).may_be_charged(false));
/// assert!(busy(ErrorBilling::Unknown).may_be_charged(true));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ErrorBilling {
    /// Nothing: there was no response, or it is not in the shape of the API.
    #[default]
    Unknown,
    /// It is in the shape of the API, and its sender may call providers in turn.
    OfApi,
    /// The provider does not charge for it ([`ProviderApi`](crate::ProviderApi)).
    Free,
    /// The provider charges for it ([`ProviderApi`](crate::ProviderApi)).
    Charged,
}

/// The kind of failure (`error.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// 429: too many requests.
    RateLimited,
    /// 500 and above, or the provider says that it is overloaded.
    Unavailable,
    /// No answer in time.
    TimedOut,
    /// The connection could not be made: nothing was sent.
    Connection,
    /// The connection broke after the request was sent, or the stream ended without its end.
    Truncated,
    /// The client of a gateway left before the response was complete.
    ClientLeft,
    /// The provider refuses this request: wrong key, unknown model, request too long, not paid.
    Rejected,
    /// The answer cannot be read.
    Malformed,
}

impl ModelErrorKind {
    /// Returns the stable name (`error.type`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed_out",
            Self::Connection => "connection",
            Self::Truncated => "truncated",
            Self::ClientLeft => "client_left",
            Self::Rejected => "rejected",
            Self::Malformed => "malformed",
        }
    }

    /// Returns the kind of failure that an HTTP status is, if its body does not say more.
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            429 => Self::RateLimited,
            408 | 504 => Self::TimedOut,
            409 | 425 | 500.. => Self::Unavailable,
            _ => Self::Rejected,
        }
    }

    /// Returns whether another attempt of the same request may succeed.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        !matches!(self, Self::Rejected)
    }
}

impl fmt::Display for ModelErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RateLimited => "rate limited",
            Self::Unavailable => "the provider is not available",
            Self::TimedOut => "no answer in time",
            Self::Connection => "the connection failed",
            Self::Truncated => "the answer was cut short",
            Self::ClientLeft => "the client left",
            Self::Rejected => "the provider refused the request",
            Self::Malformed => "the answer cannot be read",
        })
    }
}

impl ModelError {
    /// Creates a failure without details.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            retry_after: None,
            usage: None,
            billing: ErrorBilling::Unknown,
        }
    }

    /// Returns whether the provider may charge for the request anyway (docs/semantics.md, "Charging when usage is
    /// missing"): it was taken, and it was not refused. `frees_errors` is true if the policy says that errors in the
    /// shape of the API are free.
    #[must_use]
    pub fn may_be_charged(&self, frees_errors: bool) -> bool {
        if matches!(self.billing, ErrorBilling::Charged) {
            return true;
        }
        match (self.kind, self.status) {
            (
                ModelErrorKind::Rejected | ModelErrorKind::RateLimited | ModelErrorKind::Connection,
                _,
            ) => false,
            (
                ModelErrorKind::TimedOut
                | ModelErrorKind::Truncated
                | ModelErrorKind::ClientLeft
                | ModelErrorKind::Malformed,
                _,
            ) => true,
            (ModelErrorKind::Unavailable, status) => match (self.billing, status) {
                (ErrorBilling::Free, _) => false,
                // Without a status, a response carries the error instead of output.
                (ErrorBilling::OfApi, None) => !frees_errors,
                (ErrorBilling::OfApi, Some(status)) if FAILED_STATUSES.contains(&status) => {
                    !frees_errors
                }
                (_, None) => false,
                (_, Some(status)) => status >= 500,
            },
        }
    }
}
