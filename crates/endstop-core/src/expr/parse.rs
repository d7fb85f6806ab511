//! Tokens to conditions.

mod call;
mod comparison;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::lex::{Token, TokenKind, lex};
use crate::condition::fact::FACTS;
use crate::condition::gauge::{GAUGES, Unit};
use crate::condition::literal::LiteralValue;
use crate::condition::{Condition, Window, combine, named};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::limits::{MAX_DEPTH, MAX_NODES};
use comparison::Operand;

/// Reads an expression.
///
/// # Errors
/// Returns a [`Diagnostic`] with the span, the cause and what to do. An expression that is deeper than [`MAX_DEPTH`],
/// has more than [`MAX_NODES`] nodes or is longer than [`MAX_TEXT`](crate::limits::MAX_TEXT) is an error too.
pub fn parse(text: &str) -> Result<Condition, Diagnostic> {
    let tokens = lex(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0, end: text.len() };
    if tokens.is_empty() {
        return Err(Diagnostic::new("the condition is empty", 0..text.len())
            .with_help("write for example `steps >= 25 or cost >= $2.00`"));
    }
    let condition = parser.expression()?;
    if let Some(extra) = parser.peek() {
        return Err(parser.unexpected_after(extra));
    }
    if condition.depth() > MAX_DEPTH {
        return Err(too_deep(0..text.len()));
    }
    if condition.node_count() > MAX_NODES {
        let message =
            format!("the condition has {} nodes; at most {MAX_NODES}", condition.node_count());
        return Err(Diagnostic::new(message, 0..text.len()));
    }
    Ok(condition)
}

fn too_deep(span: Range<usize>) -> Diagnostic {
    Diagnostic::new(format!("the condition is nested deeper than {MAX_DEPTH}"), span)
}

/// The span without the white space before the token that follows it.
fn trimmed_end(span: Range<usize>, tokens: &[Token]) -> Range<usize> {
    let end = tokens.iter().map(|t| t.span.end).filter(|end| *end <= span.end).max();
    span.start..end.unwrap_or(span.end)
}

/// A condition, and whether it is a bare `a then b` (which `and`/`or` demand in parentheses).
type Parsed = (Condition, bool);

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: usize,
    end: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.at)
    }

    fn next_kind(&self) -> Option<&'t TokenKind> {
        self.peek().map(|token| &token.kind)
    }

    fn take(&mut self) -> Option<&'t Token> {
        let token = self.tokens.get(self.at);
        self.at += 1;
        token
    }

    fn eat(&mut self, kind: &TokenKind) -> bool {
        let found = self.next_kind() == Some(kind);
        if found {
            self.at += 1;
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = matches!(self.next_kind(), Some(TokenKind::Word(w)) if w == word);
        if found {
            self.at += 1;
        }
        found
    }

    fn here(&self) -> Range<usize> {
        self.peek().map_or(self.end..self.end, |token| token.span.clone())
    }

    fn span_from(&self, first: usize) -> Range<usize> {
        let start = self.tokens.get(first).map_or(self.end, |t| t.span.start);
        let last = self.at.checked_sub(1).and_then(|i| self.tokens.get(i));
        start..last.map_or(self.end, |t| t.span.end).max(start)
    }

    fn unexpected_after(&self, extra: &Token) -> Diagnostic {
        let error = Diagnostic::new("the condition should end here", extra.span.clone());
        match &extra.kind {
            TokenKind::Close => error.with_help("this `)` closes nothing"),
            TokenKind::Compare(_) => {
                error.with_help("comparisons do not chain: join two with `and`")
            }
            _ => error.with_help("join conditions with `and` or `or`"),
        }
    }

    /// `a or b or c`, or `a and b and c`: never both without parentheses.
    fn expression(&mut self) -> Result<Condition, Diagnostic> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep(self.here()));
        }
        let first_token = self.at;
        let (first, mut has_then) = self.sequence()?;
        let mut parts: Vec<Condition> = alloc::vec![first];
        let mut joined_by: Option<TokenKind> = None;
        while let Some(kind @ (TokenKind::And | TokenKind::Or)) = self.next_kind() {
            let span = self.here();
            if joined_by.as_ref().is_some_and(|joined| joined != kind) {
                return Err(self.mixed(first_token, span));
            }
            joined_by = Some(kind.clone());
            self.at += 1;
            let part_token = self.at;
            let before = self.span_from(first_token);
            let (part, is_then) = self.sequence()?;
            if has_then || is_then {
                let span =
                    if has_then { before.start..span.start } else { self.span_from(part_token) };
                let span = trimmed_end(span, self.tokens);
                return Err(Diagnostic::new(
                    "`then` next to `and` or `or` needs parentheses",
                    span,
                )
                .with_help("write `(a then b) and c`, or `a then (b and c)`"));
            }
            has_then = is_then;
            parts.push(part);
        }
        self.depth -= 1;
        Ok(combine(parts, joined_by == Some(TokenKind::And)))
    }

    fn mixed(&self, first_token: usize, operator: Range<usize>) -> Diagnostic {
        let so_far = self.span_from(first_token);
        Diagnostic::new("`and` and `or` are mixed without parentheses", operator).with_help(
            format!(
                "put parentheses around one of them, for example around columns {} to {}",
                so_far.start + 1,
                so_far.end
            ),
        )
    }

    /// `a then b then c`, left-associative.
    fn sequence(&mut self) -> Result<Parsed, Diagnostic> {
        let mut condition = self.negation()?;
        let mut is_then = false;
        while self.eat_word("then") {
            let next = self.negation()?;
            condition = condition.then(next);
            is_then = true;
        }
        Ok((condition, is_then))
    }

    fn negation(&mut self) -> Result<Condition, Diagnostic> {
        let mut negations = 0usize;
        while self.eat(&TokenKind::Not) {
            negations += 1;
            if self.depth + negations > MAX_DEPTH {
                return Err(too_deep(self.here()));
            }
        }
        let mut condition = self.windowed()?;
        for _ in 0..negations {
            condition = !condition;
        }
        Ok(condition)
    }

    fn windowed(&mut self) -> Result<Condition, Diagnostic> {
        let mut condition = self.primary()?;
        while self.eat_word("within") {
            let window = self.window()?;
            condition = condition.within(window);
        }
        Ok(condition)
    }

    /// `5m` or `10 steps`.
    fn window(&mut self) -> Result<Window, Diagnostic> {
        let span = self.here();
        let Some(TokenKind::Literal(literal)) = self.next_kind() else {
            return Err(Diagnostic::new("a window is missing here", span)
                .with_help("write for example `5m` or `10 steps`"));
        };
        self.at += 1;
        if let LiteralValue::Duration(duration) = literal.value {
            return Ok(Window::Time(duration));
        }
        if !(self.eat_word("steps") || self.eat_word("step")) {
            return Err(Diagnostic::new("a window is a duration or a number of steps", span)
                .with_help("write for example `5m` or `10 steps`"));
        }
        literal.amount(Unit::Count, "steps", span).map(Window::Steps)
    }

    fn primary(&mut self) -> Result<Condition, Diagnostic> {
        let first = self.at;
        let span = self.here();
        match self.take().map(|token| &token.kind) {
            Some(TokenKind::Open) => {
                let condition = self.expression()?;
                self.close(span)?;
                Ok(condition)
            }
            Some(TokenKind::Word(word)) => self.named_thing(word, first),
            Some(TokenKind::Literal(_)) => {
                Err(Diagnostic::new("an amount alone is not a condition", span)
                    .with_help("write the gauge first: `steps >= 25`"))
            }
            Some(TokenKind::Compare(_)) => {
                Err(Diagnostic::new("the compared gauge is missing", span)
                    .with_help("write for example `steps >= 25`"))
            }
            Some(_) | None => Err(Diagnostic::new("a condition is missing here", span)
                .with_help("write for example `steps >= 25` or `called(\"submit\")`")),
        }
    }

    fn close(&mut self, open: Range<usize>) -> Result<(), Diagnostic> {
        if self.eat(&TokenKind::Close) {
            return Ok(());
        }
        match self.peek() {
            Some(token) => Err(Diagnostic::new("`)` is missing here", token.span.clone())
                .with_help(format!("it closes the `(` at column {}", open.start + 1))),
            None => Err(Diagnostic::new("this `(` is not closed", open)),
        }
    }

    /// A word: a gauge, an operator, a fact or a named condition.
    fn named_thing(&mut self, word: &str, first: usize) -> Result<Condition, Diagnostic> {
        let called = self.next_kind() == Some(&TokenKind::Open);
        match word {
            "ever" if called => return self.ever(),
            "streak" if called => {
                let of = self.single_argument()?;
                return self.comparison(Operand::Streak(Box::new(of)), first);
            }
            "count" if called => {
                let (of, window) = self.count_arguments()?;
                return self.comparison(Operand::Count(Box::new(of), window), first);
            }
            _ => {}
        }
        let (own, word) = match (word, self.next_kind()) {
            ("own", Some(TokenKind::Dot)) => {
                self.at += 1;
                (true, self.word_after_own()?)
            }
            _ => (false, String::from(word)),
        };
        if called && named::find(&word).is_some() {
            return self.named_condition(&word, first);
        }
        if let Some(row) = GAUGES.iter().find(|row| row.name == word) {
            let gauge = self.gauge(row, own, first)?;
            return self.comparison(Operand::Gauge(gauge), first);
        }
        if FACTS.iter().any(|row| row.name == word) && !own {
            return self.fact(&word, first);
        }
        Err(unknown_name(&word, self.span_from(first)))
    }

    fn word_after_own(&mut self) -> Result<String, Diagnostic> {
        let span = self.here();
        match self.take().map(|token| &token.kind) {
            Some(TokenKind::Word(word)) => Ok(word.clone()),
            _ => Err(Diagnostic::new("a gauge is missing after `own.`", span)
                .with_help("write for example `own.steps >= 25`")),
        }
    }

    fn ever(&mut self) -> Result<Condition, Diagnostic> {
        self.single_argument().map(Condition::ever)
    }

    fn single_argument(&mut self) -> Result<Condition, Diagnostic> {
        let open = self.here();
        self.at += 1;
        let condition = self.expression()?;
        self.close(open)?;
        Ok(condition)
    }

    fn count_arguments(&mut self) -> Result<(Condition, Option<Window>), Diagnostic> {
        let open = self.here();
        self.at += 1;
        let condition = self.expression()?;
        let window = if self.eat(&TokenKind::Comma) { Some(self.window()?) } else { None };
        self.close(open)?;
        Ok((condition, window))
    }
}

/// Words that people write for a gauge, and the gauge.
const GUESSED_GAUGES: &[(&[&str], &str)] = &[
    (&["usd", "dollars", "money", "price", "spend", "spent", "budget"], "cost"),
    (&["turns", "rounds", "iterations", "iters", "loops", "calls", "requests"], "steps"),
    (&["time", "timeout", "duration", "seconds", "minutes", "hours"], "elapsed"),
    (&["tools", "tool_uses"], "tool_calls"),
    (&["agents", "children"], "subagents"),
];

fn unknown_name(word: &str, span: Range<usize>) -> Diagnostic {
    let operators = ["ever", "streak", "count", "within", "then"];
    let known = GAUGES
        .iter()
        .map(|row| row.name)
        .chain(FACTS.iter().map(|row| row.name))
        .chain(named::names())
        .chain(operators);
    let error = Diagnostic::new(format!("`{word}` is not known here"), span);
    let guessed = GUESSED_GAUGES.iter().find(|(words, _)| words.contains(&word));
    let suggestion = match guessed {
        Some((_, gauge)) => Some(format!("did you mean `{gauge}`?")),
        None => did_you_mean(word, known),
    };
    match suggestion {
        Some(suggestion) => error.with_help(suggestion),
        None => error.with_help("write a gauge with its limit (`steps >= 25`), a fact (`called(\"x\")`) or a named condition (`max_steps(25)`)"),
    }
}

#[cfg(test)]
mod tests;
