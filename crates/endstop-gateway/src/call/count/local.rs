//! Counting by OpenAI's tokenizers, which are built in.
//!
//! The JSON of the messages is counted as it is: its keys, quotes and escapes are more tokens than what the provider adds
//! for each message. Tools and all other fields stay bounded by their bytes.
//!
//! A separate file because nothing else knows the tokenizers, and no call of a provider is in it.

use tokio::sync::Semaphore;

use crate::limits::{LOCAL_BYTES_PER_TOKEN, LOCAL_COUNTS, MAX_LOCAL_COUNT};

/// The tokenizers by the beginning of a model's name.
const TOKENIZERS: [(&str, &str); 10] = [
    ("gpt-4o", O200K),
    ("chatgpt-4o", O200K),
    ("gpt-4.1", O200K),
    ("gpt-4.5", O200K),
    ("gpt-5", O200K),
    ("o1", O200K),
    ("o3", O200K),
    ("o4", O200K),
    ("gpt-4", CL100K),
    ("gpt-3.5", CL100K),
];

const O200K: &str = "o200k_base";
const CL100K: &str = "cl100k_base";

static COUNTS: Semaphore = Semaphore::const_new(LOCAL_COUNTS);

/// The tokenizer of a model; `None` for an unknown one.
fn tokenizer(model: &str) -> Option<&'static str> {
    let model = model.strip_prefix("ft:").unwrap_or(model);
    let is_of = |family: &str| {
        // Another family may begin with the same letters: `gpt-4` and `gpt-4.7`.
        let rest = model.strip_prefix(family);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':']))
    };
    TOKENIZERS.iter().find(|(family, _)| is_of(family)).map(|(_, tokenizer)| *tokenizer)
}

/// The tokens of messages, without a margin. `None` for an unknown model, and for too many bytes.
///
/// # Cancel safety
/// A count that has begun goes on to its end, which takes below a second.
pub(super) async fn count(model: &str, messages: &str) -> Option<u64> {
    let tokenizer = tokenizer(model)?;
    if messages.len() > MAX_LOCAL_COUNT {
        return None;
    }
    let messages = messages.to_owned();
    let permit = COUNTS.acquire().await.ok()?;
    let counting = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        tokens(tokenizer, &messages)
    });
    counting.await.ok()?
}

fn tokens(tokenizer: &str, messages: &str) -> Option<u64> {
    let counted = tiktoken::get_encoding(tokenizer)?.count(messages) as u64;
    Some(counted.max((messages.len() as u64).div_ceil(LOCAL_BYTES_PER_TOKEN)))
}

#[cfg(test)]
mod tests;
