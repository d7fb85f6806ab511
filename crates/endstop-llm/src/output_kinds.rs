//! Kinds of output: which of them a response may have, and the units that they are held and settled in.

use crate::api::Api;

/// The name in `allow_unmetered` of speech from a model that answers with text too and has no price for speech.
pub const SPEECH: &str = "speech";

/// A kind of output. All kinds together are held at the output cap for each response, at the highest rate of those that
/// it may have.
///
/// ```
/// use endstop_llm::OUTPUT_KINDS;
///
/// let speech = OUTPUT_KINDS.iter().find(|kind| kind.name == "speech");
/// assert!(speech.is_some_and(|kind| kind.held == "output_audio_tokens"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputKind {
    /// Its name in the documentation.
    pub name: &'static str,
    /// The class that decides its rate.
    pub class: OutputClass,
    /// The APIs that have it.
    pub apis: &'static [Api],
    /// The word that asks for it in a list of modalities. `None` if no word does.
    pub word: Option<&'static str>,
    /// The APIs that may answer with it if a request names no modality.
    pub unasked: &'static [Api],
    /// The unit that it is held in.
    pub held: &'static str,
    /// The unit that it is settled in.
    pub settled: &'static str,
    /// Its name in `allow_unmetered`, if a model without a rate for it is refused.
    pub refusal: Option<&'static str>,
}

/// Classes of output, each with its own price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputClass {
    /// Text, and all that is billed like it.
    Text,
    /// Speech.
    Speech,
    /// Images.
    Image,
}

const ALL: &[Api] = &[Api::Chat, Api::Responses, Api::Messages, Api::Gemini];

const fn text(name: &'static str, apis: &'static [Api]) -> OutputKind {
    OutputKind {
        name,
        class: OutputClass::Text,
        apis,
        word: None,
        unasked: apis,
        held: "output_tokens",
        settled: "output_tokens",
        refusal: None,
    }
}

const fn images(apis: &'static [Api], settled: &'static str) -> OutputKind {
    OutputKind {
        name: "images",
        class: OutputClass::Image,
        apis,
        word: Some("image"),
        unasked: apis,
        held: "output_image_tokens",
        settled,
        refusal: None,
    }
}

/// The kinds of output.
///
/// Sources: the API references of OpenAI ("Create chat completion": tokens of reasoning and of rejected predictions count
/// as output for billing and for the cap) and Google ("GenerationConfig": `responseModalities`). The models of Google
/// and OpenRouter that make images do so unasked.
pub const OUTPUT_KINDS: &[OutputKind] = &[
    OutputKind { word: Some("text"), ..text("text", ALL) },
    text("reasoning", ALL),
    text("tool calls", ALL),
    text("rejected predictions", &[Api::Chat]),
    OutputKind {
        name: "speech",
        class: OutputClass::Speech,
        apis: &[Api::Chat, Api::Gemini],
        word: Some("audio"),
        unasked: &[],
        held: "output_audio_tokens",
        settled: "output_audio_tokens",
        refusal: Some(SPEECH),
    },
    images(&[Api::Gemini], "output_image_tokens"),
    // Reports of chat completions have no count of images that all servers share. OpenRouter reports the cost.
    images(&[Api::Chat], "output_tokens"),
];

/// The classes of output that a response may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputKinds {
    /// The request names speech.
    pub audio: bool,
    /// The request names images, or no output in an API whose models make them unasked.
    pub image: bool,
    /// The request names text too, or no output.
    pub text: bool,
}

impl OutputKinds {
    /// Whether a modality is one that a row of the table names.
    pub(crate) fn has_word(word: &str) -> bool {
        let mut words = OUTPUT_KINDS.iter().filter_map(|kind| kind.word);
        words.any(|own| own.eq_ignore_ascii_case(word))
    }

    /// The outputs of a request of an API that asks for these modalities.
    pub(crate) fn of(api: Api, words: &[impl AsRef<str>]) -> Self {
        let is_asked = |kind: &OutputKind| {
            kind.word
                .is_some_and(|own| words.iter().any(|it| it.as_ref().eq_ignore_ascii_case(own)))
        };
        let may_come = |class: OutputClass| {
            let mut kinds = OUTPUT_KINDS.iter().filter(|kind| kind.class == class);
            kinds.any(
                |kind| if words.is_empty() { kind.unasked.contains(&api) } else { is_asked(kind) },
            )
        };
        Self {
            audio: may_come(OutputClass::Speech),
            image: may_come(OutputClass::Image),
            text: may_come(OutputClass::Text),
        }
    }
}

#[cfg(test)]
mod tests;
