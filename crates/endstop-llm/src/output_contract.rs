//! The shape of response that a client demands, by its tools.

use std::borrow::Cow;

use crate::OutputContract;
use crate::json::{List, Raw, fields};
use crate::response_outline::FINAL_ANSWER;

/// Which tools the model has to call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ToolRequirement {
    /// Any or none.
    #[default]
    Free,
    /// None at all.
    Never,
    /// At least one of them.
    Any,
    /// This one.
    On(String),
}

/// A tool that is offered, and the schema of its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Offer<'j> {
    pub(crate) name: Cow<'j, str>,
    pub(crate) schema: Raw<'j>,
}

fields! {
    Schema<'j> {
        properties: Raw<'j> = "properties",
        required: List<Raw<'j>> = "required",
    }
}

fields! {
    Property<'j> {
        kind: Raw<'j> = "type",
    }
}

/// The output contract of a request. A `final_answer` that may be called is called: it ends more loops than text does.
pub(crate) fn output_contract(
    offers: &[Offer<'_>],
    requirement: &ToolRequirement,
    wants_json: bool,
) -> OutputContract {
    let may_call_it = match requirement {
        ToolRequirement::Never => false,
        ToolRequirement::On(name) => name == FINAL_ANSWER,
        ToolRequirement::Free | ToolRequirement::Any => true,
    };
    let offer = offers.iter().find(|offer| offer.name == FINAL_ANSWER).filter(|_| may_call_it);
    match offer.and_then(|offer| text_argument(offer.schema)) {
        Some(argument) => OutputContract::FinalAnswer { argument },
        None if wants_json
            || matches!(requirement, ToolRequirement::Any | ToolRequirement::On(_)) =>
        {
            OutputContract::Structure
        }
        None => OutputContract::Text,
    }
}

/// The one argument that takes the text: the first that is a string or of any type, if no other is required.
fn text_argument(schema: Raw<'_>) -> Option<String> {
    let schema: Schema<'_> = schema.read();
    let takes_text = |property: Raw<'_>| {
        let kind = property.read::<Property<'_>>().kind;
        let words = kind.text();
        let is_string = words
            .is_some_and(|kind| ["string", "any"].contains(&kind.to_ascii_lowercase().as_str()));
        is_string || kind.json().contains("\"string\"") || property.json() == "{}"
    };
    let properties = schema.properties.members();
    let (name, _) = properties.iter().find(|(_, property)| takes_text(*property))?;
    let is_enough =
        schema.required.0.iter().all(|key| key.text().as_deref() == Some(name.as_str()));
    is_enough.then(|| name.as_str().to_owned())
}
