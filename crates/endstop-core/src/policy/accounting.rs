//! Charges for unreported usage, and requests that pass without a bound: `[accounting]` of a policy file.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

/// Charges for unreported usage, and requests that pass without a bound.
///
/// ```
/// use endstop_core::Policy;
/// use endstop_core::policy::{OnClientGone, OnUnknownUsage};
///
/// let text = "[stop]\nbudget = \"cost >= $2\"\n[accounting]\non_client_gone = \"close\"\n";
/// let accounting = Policy::from_toml(text)?.accounting;
/// assert_eq!(accounting.client_gone(), OnClientGone::Close);
/// assert_eq!(accounting.unknown_usage(), OnUnknownUsage::Hold);
/// assert!(!accounting.allows("image_generation"));
/// # Ok::<(), endstop_core::expr::Diagnostic>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Accounting {
    /// The charge for a complete response whose usage is not reported; [`OnUnknownUsage::Hold`] if the policy says
    /// nothing.
    pub on_unknown_usage: Option<OnUnknownUsage>,
    /// The end of a call in a gateway if its client disconnects; [`OnClientGone::Auto`] if the policy says nothing.
    pub on_client_gone: Option<OnClientGone>,
    /// The charge for an error response (500, 503, 529) of an upstream whose billing is not known;
    /// [`OnServerError::Auto`] if the policy says nothing.
    pub on_server_error: Option<OnServerError>,
    /// Names of things in requests that are sent although their cost cannot be bounded, as refusals name them;
    /// [`ALL`](Self::ALL) for everything.
    pub allow_unmetered: Vec<String>,
    /// The output tokens below which a call is refused instead of sent with a lower cap. At least 1; drivers use 16 if the
    /// policy says nothing.
    pub min_output_tokens: Option<u64>,
}

/// The charge for a complete response whose usage is not reported.
///
/// See the example of [`Accounting`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnUnknownUsage {
    /// The most that is possible.
    #[default]
    Hold,
    /// An estimate by the length of the request and the response.
    Estimate,
}

/// The end of a call in a gateway if its client disconnects.
///
/// See the example of [`Accounting`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnClientGone {
    /// A stream is closed, so that the provider stops. Providers finish other responses anyway, so these are received and
    /// charged by their usage reports.
    #[default]
    Auto,
    /// Streams are received until they end, too.
    Drain,
    /// Everything is closed. A response that is not streamed is charged the most that is possible.
    Close,
}

/// The charge for an error response (500, 503, 529) in the shape of the API.
///
/// ```
/// use endstop_core::Policy;
/// use endstop_core::policy::OnServerError;
///
/// let text = "[stop]\nbudget = \"cost >= $2\"\n[accounting]\non_server_error = \"free\"\n";
/// assert_eq!(Policy::from_toml(text)?.accounting.server_error(), OnServerError::Free);
/// # Ok::<(), endstop_core::expr::Diagnostic>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnServerError {
    /// Nothing if the upstream is the provider's own API; the most that is possible if it may be a proxy.
    #[default]
    Auto,
    /// Nothing, except for providers that are known to charge for it.
    Free,
}

impl OnUnknownUsage {
    /// Every value.
    pub const ALL: [Self; 2] = [Self::Hold, Self::Estimate];

    /// Returns its name in a policy file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Estimate => "estimate",
        }
    }
}

impl OnClientGone {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Drain, Self::Close];

    /// Returns its name in a policy file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Drain => "drain",
            Self::Close => "close",
        }
    }
}

impl OnServerError {
    /// Every value.
    pub const ALL: [Self; 2] = [Self::Auto, Self::Free];

    /// Returns its name in a policy file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Free => "free",
        }
    }
}

impl Accounting {
    /// The name in [`Accounting::allow_unmetered`] that stands for everything.
    pub const ALL: &'static str = "all";

    /// Returns the charge for a complete response whose usage is not reported.
    #[must_use]
    pub fn unknown_usage(&self) -> OnUnknownUsage {
        self.on_unknown_usage.unwrap_or_default()
    }

    /// Returns the end of a call in a gateway if its client disconnects.
    #[must_use]
    pub fn client_gone(&self) -> OnClientGone {
        self.on_client_gone.unwrap_or_default()
    }

    /// Returns the charge for an error response of an upstream whose billing is not known.
    #[must_use]
    pub fn server_error(&self) -> OnServerError {
        self.on_server_error.unwrap_or_default()
    }

    /// Returns whether requests with something that refusals call `name` are sent. O(names).
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.allow_unmetered.iter().any(|allowed| allowed == Self::ALL || allowed == name)
    }

    /// Returns whether all requests are sent.
    #[must_use]
    pub fn allows_all(&self) -> bool {
        self.allow_unmetered.iter().any(|allowed| allowed == Self::ALL)
    }

    /// This, where `narrower` is not stricter.
    pub(super) fn merge(&self, narrower: &Self) -> Self {
        let allow_unmetered = match &*narrower.allow_unmetered {
            // Saying nothing adds nothing, and takes nothing away.
            [] => self.allow_unmetered.clone(),
            _ if self.allows_all() => narrower.allow_unmetered.clone(),
            _ => {
                let both = self.allow_unmetered.iter().filter(|name| narrower.allows(name));
                both.cloned().collect()
            }
        };
        Self {
            on_unknown_usage: match (self.on_unknown_usage, narrower.on_unknown_usage) {
                (Some(_), Some(OnUnknownUsage::Hold)) => Some(OnUnknownUsage::Hold),
                (one, _) => one,
            },
            on_client_gone: self.on_client_gone.or(narrower.on_client_gone),
            on_server_error: match (self.on_server_error, narrower.on_server_error) {
                (Some(_), Some(OnServerError::Auto)) => Some(OnServerError::Auto),
                (one, _) => one,
            },
            allow_unmetered,
            min_output_tokens: self.min_output_tokens.max(narrower.min_output_tokens),
        }
    }

    /// The section of a policy file; nothing if all is as by default.
    pub(super) fn to_toml(&self) -> String {
        let mut lines = Vec::new();
        if let Some(value) = self.on_unknown_usage {
            lines.push(alloc::format!("on_unknown_usage = \"{}\"\n", value.name()));
        }
        if let Some(value) = self.on_client_gone {
            lines.push(alloc::format!("on_client_gone = \"{}\"\n", value.name()));
        }
        if let Some(value) = self.on_server_error {
            lines.push(alloc::format!("on_server_error = \"{}\"\n", value.name()));
        }
        if !self.allow_unmetered.is_empty() {
            let names = self.allow_unmetered.iter().map(|name| super::write::toml_string(name));
            let names = names.collect::<Vec<_>>().join(", ");
            lines.push(alloc::format!("allow_unmetered = [{names}]\n"));
        }
        if let Some(tokens) = self.min_output_tokens {
            lines.push(alloc::format!("min_output_tokens = {tokens}\n"));
        }
        if lines.is_empty() {
            return String::new();
        }
        "\n[accounting]\n".to_string() + &lines.concat()
    }
}

#[cfg(test)]
mod tests;
