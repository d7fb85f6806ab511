//! Reading Rust sources token by token, which neither comments nor strings can deceive.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Calls `look` at every token of `stream`, groups included, with the tokens around it.
pub(super) fn walk(stream: TokenStream, look: &mut dyn FnMut(&[TokenTree], usize)) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        look(&tokens, index);
        if let TokenTree::Group(group) = token {
            walk(group.stream(), look);
        }
    }
}

/// The same tokens without the items under `#[cfg(test)]`.
pub(super) fn without_tests(stream: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut kept = Vec::new();
    let mut rest = tokens.as_slice();
    while let Some((token, after)) = rest.split_first() {
        if is_punct(Some(token), '#') && after.first().is_some_and(is_cfg_test) {
            let ends_item = |token: &TokenTree| {
                is_punct(Some(token), ';') || group_of(Some(token), Delimiter::Brace).is_some()
            };
            let end = after.iter().position(ends_item).map_or(after.len(), |index| index + 1);
            rest = after.get(end..).unwrap_or_default();
            continue;
        }
        kept.push(match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_tests(group.stream()));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            other => other.clone(),
        });
        rest = after;
    }
    kept.into_iter().collect()
}

fn is_cfg_test(token: &TokenTree) -> bool {
    let Some(group) = group_of(Some(token), Delimiter::Bracket) else { return false };
    let text: String = group.stream().to_string().split_whitespace().collect();
    text.starts_with("cfg(test") || text.starts_with("cfg(all(test")
}

/// Whether the token is this punctuation.
pub(super) fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

/// Whether the token is this word.
pub(super) fn is_word(token: Option<&TokenTree>, wanted: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(word)) if word == wanted)
}

/// The group with this delimiter, if the token is one.
pub(super) fn group_of(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// The line of the token, from 1.
pub(super) fn line_of(token: &TokenTree) -> usize {
    token.span().start().line
}
