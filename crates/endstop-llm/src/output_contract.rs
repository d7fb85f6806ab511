//! What shape of answer a client insists on, by its tools.

use std::borrow::Cow;

use super::Demands;
use super::reply::FINAL_ANSWER;
use crate::json::{List, Raw, fields};

/// Which tools the model has to call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Insists {
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
pub(super) struct Offer<'j> {
    pub(super) name: Cow<'j, str>,
    pub(super) schema: Raw<'j>,
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

/// What the client insists on. A `final_answer` that may be called is called: it ends more loops than text does.
pub(super) fn demands(offers: &[Offer<'_>], insists: &Insists, wants_json: bool) -> Demands {
    let may_call_it = match insists {
        Insists::Never => false,
        Insists::On(name) => name == FINAL_ANSWER,
        Insists::Free | Insists::Any => true,
    };
    let offer = offers.iter().find(|offer| offer.name == FINAL_ANSWER).filter(|_| may_call_it);
    match offer.and_then(|offer| text_argument(offer.schema)) {
        Some(argument) => Demands::FinalAnswer { argument },
        None if wants_json || matches!(insists, Insists::Any | Insists::On(_)) => {
            Demands::Structure
        }
        None => Demands::Text,
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
