//! Messages about runs and budgets to a webhook: signed, and repeated until they are taken.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::config::Key;
use crate::limits::{MAX_WEBHOOK_QUEUE, WEBHOOK_ATTEMPTS, WEBHOOK_BACKOFF, WEBHOOK_TIMEOUT};
use crate::upstream::{HttpClient, UpstreamError};

/// The header of the signature: `t=SECONDS,v1=HEX`, where HEX is the HMAC-SHA256 of `SECONDS.BODY`.
pub const WEBHOOK_SIGNATURE: &str = "x-endstop-signature";

/// The bytes of a block of SHA-256, to which HMAC fills up its key.
const BLOCK: usize = 64;

/// Why a webhook cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// Its address.
    #[error("`{0}` is not an address such as `https://example.com/hook`")]
    Address(String),
    /// The certificates named by the environment cannot be used.
    #[error("{0}")]
    Certificates(String),
}

/// Why a message to a webhook is lost at once.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotQueued {
    /// Too many messages wait.
    #[error("too many wait")]
    Full,
    /// The task of the webhook has ended.
    #[error("nothing is sent any longer")]
    Closed,
}

/// A webhook: an address that gets JSON messages. Clones send to the same one.
///
/// A message is sent again, after longer and longer pauses, until the receiver answers with a success or six attempts have
/// failed. At most 256 messages wait; further ones are dropped.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use endstop_gateway::{Key, Webhook};
/// use serde_json::json;
///
/// let (webhook, sending) = Webhook::start("https://example.com/hook", Key::new("secret"), |problem| {
///     eprintln!("{problem}");
/// })?;
/// webhook.send(&json!({ "event": "run_paused", "run": "nightly" }))?;
/// sending.end(std::time::Duration::from_secs(5)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Webhook {
    queue: mpsc::Sender<Bytes>,
    /// Messages that are neither taken nor lost.
    pending: Arc<watch::Sender<usize>>,
}

/// The task that sends the messages of a [`Webhook`]. It ends when this is dropped.
#[derive(Debug)]
pub struct WebhookTask {
    sending: JoinHandle<()>,
    pending: watch::Receiver<usize>,
}

impl Webhook {
    /// Starts to send. `warn` gets a text for each message that was not taken.
    ///
    /// # Errors
    /// Returns an error if the address is invalid.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(
        url: &str,
        secret: Key,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<(Self, WebhookTask), WebhookError> {
        let address = || WebhookError::Address(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| address())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().filter(|_| is_http).ok_or_else(address)?;
        let base = format!("{}://{authority}", uri.scheme_str().unwrap_or("https"));
        let base: Uri = base.parse().map_err(|_| address())?;
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        let client = HttpClient::from_environment(|name| std::env::var(name).ok())
            .map_err(|error| WebhookError::Certificates(error.to_string()))?
            .answering_within(WEBHOOK_TIMEOUT);
        let (queue, mut messages) = mpsc::channel::<Bytes>(MAX_WEBHOOK_QUEUE);
        let receiver = Receiver { client, base, path, secret };
        let (sender, pending) = watch::channel(0usize);
        let sender = Arc::new(sender);
        let done = Arc::clone(&sender);
        let sending = tokio::spawn(async move {
            while let Some(body) = messages.recv().await {
                if let Err(why) = receiver.deliver(&body).await {
                    warn(&format!("a message to the webhook is lost: {why}"));
                }
                done.send_modify(|pending| *pending = pending.saturating_sub(1));
            }
        });
        Ok((Self { queue, pending: sender }, WebhookTask { sending, pending }))
    }

    /// Sends a message later; never waits.
    ///
    /// # Errors
    /// Returns an error if too many messages wait, or the task that sends them has ended.
    pub fn send(&self, message: &Value) -> Result<(), NotQueued> {
        let place = self.queue.try_reserve().map_err(|error| match error {
            TrySendError::Full(()) => NotQueued::Full,
            TrySendError::Closed(()) => NotQueued::Closed,
        })?;
        self.pending.send_modify(|pending| *pending = pending.saturating_add(1));
        place.send(Bytes::from(message.to_string()));
        Ok(())
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Webhook")
    }
}

impl WebhookTask {
    /// Waits until all messages are taken or lost, for `limit` at most.
    ///
    /// # Cancel safety
    /// Dropping the future drops the messages that were not taken yet.
    pub async fn end(mut self, limit: Duration) {
        let _ = tokio::time::timeout(limit, self.pending.wait_for(|pending| *pending == 0)).await;
    }
}

impl Drop for WebhookTask {
    fn drop(&mut self) {
        self.sending.abort();
    }
}

/// Why a message was not taken.
#[derive(Debug, Error)]
enum NotTaken {
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error(transparent)]
    NoResponse(#[from] UpstreamError),
    #[error("it answered {0}")]
    Status(StatusCode),
}

/// Where messages go.
struct Receiver {
    client: HttpClient,
    base: Uri,
    path: String,
    secret: Key,
}

impl Receiver {
    /// Sends a message until it is taken.
    async fn deliver(&self, body: &Bytes) -> Result<(), NotTaken> {
        let mut pause = WEBHOOK_BACKOFF;
        let mut attempt = 1;
        loop {
            let why = match self.post(body).await {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
            if attempt >= WEBHOOK_ATTEMPTS {
                return Err(why);
            }
            attempt += 1;
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2);
        }
    }

    async fn post(&self, body: &Bytes) -> Result<(), NotTaken> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let signature = signature(self.secret.expose().as_bytes(), seconds, body);
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.path.as_str())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(WEBHOOK_SIGNATURE, format!("t={seconds},v1={signature}"))
            .body(body.clone())?;
        let status = self.client.send(&self.base, request).await?.status();
        if status.is_success() { Ok(()) } else { Err(NotTaken::Status(status)) }
    }
}

/// The signature of a message that is sent at this time.
fn signature(secret: &[u8], seconds: u64, body: &[u8]) -> String {
    let mut signed = format!("{seconds}.").into_bytes();
    signed.extend_from_slice(body);
    hmac(secret, &signed).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut filled = [0; BLOCK];
    let hashed: [u8; 32] = Sha256::digest(key).into();
    let key = if key.len() > BLOCK { hashed.as_slice() } else { key };
    for (byte, of_key) in filled.iter_mut().zip(key) {
        *byte = *of_key;
    }
    let hash = |pad: u8, message: &[u8]| -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(filled.map(|byte| byte ^ pad));
        hasher.update(message);
        hasher.finalize().into()
    };
    hash(0x5c, &hash(0x36, message))
}

#[cfg(test)]
mod tests;
