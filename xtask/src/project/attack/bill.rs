//! The upstream's own price table and its own reading of requests: nothing here is Endstop's. Where a request can be read
//! in two ways, it is the more expensive one.

/// Pico-dollars of a cent for a million tokens, by the token.
const CENT_A_MILLION: u64 = 10_000;

/// Input above so many tokens is charged by the long rates, where a model has some.
const LONG_INPUT: u64 = 200_000;

/// Rates of a model, in cents for a million tokens.
struct Rates {
    model: &'static str,
    /// Input and output.
    text: [u64; 2],
    /// The same for a long input.
    long: [u64; 2],
    image_output: u64,
    audio_output: u64,
}

const fn of_text(model: &'static str, text: [u64; 2]) -> Rates {
    Rates { model, text, long: text, image_output: 0, audio_output: 0 }
}

/// From the price pages of the providers.
const RATES: [Rates; 7] = [
    of_text("gpt-4o-mini", [15, 60]),
    of_text("gpt-5", [125, 1_000]),
    Rates { long: [600, 2_250], ..of_text("claude-sonnet-4-5", [300, 1_500]) },
    Rates { long: [250, 1_500], ..of_text("gemini-2.5-pro", [125, 1_000]) },
    Rates { image_output: 3_000, ..of_text("gemini-2.5-flash-image", [30, 250]) },
    Rates { audio_output: 8_000, ..of_text("gpt-4o-audio-preview", [250, 1_000]) },
    Rates { audio_output: 6_400, ..of_text("gpt-audio", [250, 1_000]) },
];

/// A dollar in pico-dollars.
pub(in crate::project) const DOLLAR: u64 = 1_000_000_000_000;

/// Keys of an output cap, in small letters.
const CAPS: [&str; 4] =
    ["\"max_tokens\"", "\"max_completion_tokens\"", "\"max_output_tokens\"", "\"maxoutputtokens\""];

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(in crate::project) struct Arrival {
    pub(in crate::project) path: String,
    pub(in crate::project) body: String,
}

/// The tokens that the upstream received and made for one request.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::project) struct Work {
    /// Tokens received.
    pub(in crate::project) input: u64,
    /// Tokens of text made.
    pub(in crate::project) output: u64,
    /// Tokens of images made.
    pub(in crate::project) image_output: u64,
    /// Tokens of speech made.
    pub(in crate::project) audio_output: u64,
    /// Pico-dollars of tools.
    pub(in crate::project) fees: u64,
    /// Percent that a more expensive place or tier adds.
    pub(in crate::project) surcharge: u64,
}

impl Arrival {
    /// Whether it asks for a count of tokens, which costs nothing.
    pub(in crate::project) fn is_count(&self) -> bool {
        let words = ["count_tokens", "input_tokens", ":countTokens"];
        words.iter().any(|word| self.path.contains(word))
    }

    /// The largest output cap that a reader can find, in letters of any case.
    pub(in crate::project) fn cap(&self) -> u64 {
        let folded = self.body.to_ascii_lowercase();
        let values = CAPS.iter().flat_map(|key| folded.split(key).skip(1));
        values.filter_map(number).max().unwrap_or(0)
    }

    /// Tokens of all of its text: one for four small letters, and one for each other byte that is no space.
    pub(in crate::project) fn tokens(&self) -> u64 {
        let words = self.body.split(|letter: char| !letter.is_ascii_lowercase());
        let of_words = words.map(|word| word.len().div_ceil(4)).fold(0, usize::saturating_add);
        let is_dense = |byte: &u8| !byte.is_ascii_lowercase() && !byte.is_ascii_whitespace();
        let dense = self.body.bytes().filter(is_dense).count();
        u64::try_from(of_words.saturating_add(dense)).unwrap_or(u64::MAX)
    }

    /// How often it has a text.
    pub(in crate::project) fn count_of(&self, text: &str) -> u64 {
        u64::try_from(self.body.matches(text).count()).unwrap_or(u64::MAX)
    }

    /// Pico-dollars for this work, by the model that the request names. A model without a price here costs nothing, and
    /// its row then shows no bill.
    pub(in crate::project) fn bill(&self, work: &Work) -> u64 {
        let is_named = |rates: &&Rates| {
            self.path.contains(&format!("/{}:", rates.model))
                || self.body.contains(&format!("\"{}\"", rates.model))
        };
        let Some(rates) = RATES.iter().find(is_named) else { return work.fees };
        let [input, output] = if work.input > LONG_INPUT { rates.long } else { rates.text };
        let parts = [
            (work.input, input),
            (work.output, output),
            (work.image_output, rates.image_output),
            (work.audio_output, rates.audio_output),
        ];
        let cents = parts.iter().map(|(tokens, rate)| tokens.saturating_mul(*rate));
        let tokens = cents.fold(0, u64::saturating_add).saturating_mul(CENT_A_MILLION);
        let raised = tokens.saturating_add(tokens.saturating_mul(work.surcharge) / 100);
        raised.saturating_add(work.fees)
    }
}

/// The number after a key.
fn number(rest: &str) -> Option<u64> {
    let digits = rest.trim_start_matches([':', ' ']);
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests;
