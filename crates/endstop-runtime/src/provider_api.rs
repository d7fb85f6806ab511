//! The providers' own APIs: their hosts, and which of their error responses they charge for.
//!
//! Read in November 2026. Google's billing page says that requests with status 400 or 500 are not charged, and
//! OpenRouter's page "Zero Completion Insurance" that it charges for no response without output, whatever the provider
//! behind it charges. The FAQ of Azure OpenAI says that it charges for requests that were processed, such as one that its
//! content filter refused with status 400. The others publish nothing about errors: they are taken to charge for output
//! and what led to it.
//!
//! A file of its own because it is data with sources, which both drivers read.

use crate::model_error::{ErrorBilling, FAILED_STATUSES};

/// The signs of a provider's own API, and which of its error responses are free.
///
/// ```
/// use endstop_runtime::{ErrorBilling, ProviderApi};
///
/// let openai = ProviderApi::at("eu.api.openai.com").unwrap();
/// assert_eq!(openai.provider, "openai");
/// assert_eq!(openai.billing(503, true, b""), ErrorBilling::Free);
/// // A proxy of the provider's, in no shape of the API.
/// assert_eq!(openai.billing(503, false, b"<html>"), ErrorBilling::Unknown);
/// assert!(ProviderApi::at("llm.example.com").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderApi {
    /// The host, and the end of other hosts after a dot; empty if it is on the user's own machine.
    pub host: &'static str,
    /// The provider, as prices name it.
    pub provider: &'static str,
    /// Statuses of error responses in the shape of the API that are free, other than those of refused requests.
    pub free: &'static [u16],
    /// Statuses of refused requests that are charged if the response has the text.
    pub charged: Option<(u16, &'static str)>,
    /// The statement of the provider; empty if there is none.
    pub source: &'static str,
}

/// The status assumed for an error without one.
const FAILED_STATUS: u16 = 500;

const fn own(host: &'static str, provider: &'static str) -> ProviderApi {
    ProviderApi { host, provider, free: FAILED_STATUSES, charged: None, source: "" }
}

/// The APIs that are known.
pub static PROVIDER_APIS: &[ProviderApi] = &[
    own("api.openai.com", "openai"),
    own("api.anthropic.com", "anthropic"),
    ProviderApi {
        source: "Gemini API, \"Billing\": no charge for status 400 and 500",
        ..own("generativelanguage.googleapis.com", "google")
    },
    ProviderApi {
        free: &[500, 502, 503, 504, 529],
        source: "OpenRouter, \"Zero Completion Insurance\": no charge for an error without output",
        ..own("openrouter.ai", "openrouter")
    },
    ProviderApi {
        free: &[],
        charged: Some((400, "content_filter")),
        source: "Azure OpenAI, \"FAQ\": a charge for each request that was processed, whatever its status",
        ..own("openai.azure.com", "azure")
    },
    own("cerebras.ai", "cerebras"),
    own("groq.com", "groq"),
    own("deepseek.com", "deepseek"),
    own("mistral.ai", "mistral"),
    own("together.xyz", "together"),
    own("x.ai", "x-ai"),
    own("fireworks.ai", "fireworks"),
    own("moonshot.cn", "moonshotai"),
    own("moonshot.ai", "moonshotai"),
    own("", "ollama"),
];

impl ProviderApi {
    /// The API at a host. O(rows).
    #[must_use]
    pub fn at(host: &str) -> Option<&'static Self> {
        let host = host.to_ascii_lowercase();
        let is_it = |known: &str| {
            let before = host.strip_suffix(known);
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        PROVIDER_APIS.iter().find(|api| !api.host.is_empty() && is_it(api.host))
    }

    /// The API of a provider, by the name that prices have for it. O(rows).
    #[must_use]
    pub fn of(provider: &str) -> Option<&'static Self> {
        PROVIDER_APIS.iter().find(|api| api.provider == provider)
    }

    /// The charge for an error response, if known. `is_in_shape` says whether it is in the shape of the API.
    #[must_use]
    pub fn billing(&self, status: u16, is_in_shape: bool, body: &[u8]) -> ErrorBilling {
        let has = |text: &str| body.windows(text.len()).any(|part| part == text.as_bytes());
        match self.charged {
            Some((charged, text)) if charged == status && has(text) => ErrorBilling::Charged,
            _ if is_in_shape && self.free.contains(&status) => ErrorBilling::Free,
            _ => ErrorBilling::Unknown,
        }
    }

    /// The charge for an error response of `api`, or of an upstream that is not a known provider's API.
    #[must_use]
    pub fn billing_of(
        api: Option<&Self>,
        status: u16,
        is_in_shape: bool,
        body: &[u8],
    ) -> ErrorBilling {
        match api {
            Some(api) => api.billing(status, is_in_shape, body),
            None if is_in_shape => ErrorBilling::OfApi,
            None => ErrorBilling::Unknown,
        }
    }

    /// The charge for an error that a response of `api` carries instead of output. `status` is the one that the error
    /// names.
    #[must_use]
    pub fn billing_inside(api: Option<&Self>, status: Option<u16>) -> ErrorBilling {
        match Self::billing_of(api, status.unwrap_or(FAILED_STATUS), true, &[]) {
            ErrorBilling::Unknown if status.is_none() => ErrorBilling::Charged,
            known => known,
        }
    }
}

#[cfg(test)]
mod tests;
