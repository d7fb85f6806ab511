//! Text to tokens with spans.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::condition::CompareOp;
use crate::condition::literal::{self, Literal};
use crate::diagnostic::Diagnostic;
use crate::limits::MAX_TEXT;

/// A token's meaning.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    /// A name, or a word such as `within`.
    Word(String),
    /// An amount, string or pattern.
    Literal(Literal),
    /// A comparison operator.
    Compare(CompareOp),
    /// `or`, `|`, `||`.
    Or,
    /// `and`, `&`, `&&`.
    And,
    /// `not`, `!`.
    Not,
    /// `(`
    Open,
    /// `)`
    Close,
    /// `,`
    Comma,
    /// `=`, for named arguments.
    Assign,
    /// `.`, as in `own.steps`.
    Dot,
}

/// A token and its place.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Range<usize>,
}

/// Splits `text` into tokens. Linear in its length.
pub(super) fn lex(text: &str) -> Result<Vec<Token>, Diagnostic> {
    if text.len() > MAX_TEXT {
        let message =
            format!("the expression has {} bytes; at most {MAX_TEXT} are read", text.len());
        return Err(Diagnostic::new(message, 0..0).with_help("split it into several rules"));
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = rest(text, at).chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (kind, length) = token(text, at, first)?;
        tokens.push(Token { kind, span: at..at + length });
        at += length;
    }
    Ok(tokens)
}

fn rest(text: &str, at: usize) -> &str {
    text.split_at(at).1
}

fn token(text: &str, at: usize, first: char) -> Result<(TokenKind, usize), Diagnostic> {
    let rest = rest(text, at);
    let symbols: &[(&str, TokenKind)] = &[
        (">=", TokenKind::Compare(CompareOp::Ge)),
        ("<=", TokenKind::Compare(CompareOp::Le)),
        ("==", TokenKind::Compare(CompareOp::Eq)),
        ("!=", TokenKind::Compare(CompareOp::Ne)),
        ("||", TokenKind::Or),
        ("&&", TokenKind::And),
        ("|", TokenKind::Or),
        ("&", TokenKind::And),
        ("!", TokenKind::Not),
        (">", TokenKind::Compare(CompareOp::Gt)),
        ("<", TokenKind::Compare(CompareOp::Lt)),
        ("=", TokenKind::Assign),
        ("(", TokenKind::Open),
        (")", TokenKind::Close),
        (",", TokenKind::Comma),
    ];
    if let Some((symbol, kind)) = symbols.iter().find(|(symbol, _)| rest.starts_with(symbol)) {
        return Ok((kind.clone(), symbol.len()));
    }
    let lone_dot =
        first == '.' && !rest.get(1..).is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
    match first {
        '"' | '\'' => literal::string(text, at).map(|(l, n)| (TokenKind::Literal(l), n)),
        '/' => literal::pattern(text, at).map(|(l, n)| (TokenKind::Literal(l), n)),
        '.' if lone_dot => Ok((TokenKind::Dot, 1)),
        '$' | '.' | '0'..='9' | '-' => {
            literal::amount(text, at).map(|(l, n)| (TokenKind::Literal(l), n))
        }
        c if c.is_alphabetic() || c == '_' => Ok(word(rest)),
        other => Err(Diagnostic::new(
            format!("`{}` is not part of the language", other.escape_default()),
            at..at + other.len_utf8(),
        )),
    }
}

fn word(rest: &str) -> (TokenKind, usize) {
    let length =
        rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
    let (word, _) = rest.split_at(length);
    let kind = match word {
        "or" | "OR" => TokenKind::Or,
        "and" | "AND" => TokenKind::And,
        "not" | "NOT" => TokenKind::Not,
        _ => TokenKind::Word(String::from(word)),
    };
    (kind, length)
}
