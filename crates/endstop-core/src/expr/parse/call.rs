//! Calls: gauges with a name, facts, named conditions.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::lex::TokenKind;
use super::Parser;
use crate::condition::gauge::{Argument, GaugeRow};
use crate::condition::literal::{Literal, LiteralValue};
use crate::condition::named::{self, ArgumentValue, Arguments};
use crate::condition::{Condition, Fact, Gauge};
use crate::diagnostic::{Diagnostic, did_you_mean};

impl Parser<'_> {
    pub(super) fn gauge(
        &mut self,
        row: &GaugeRow,
        own: bool,
        first: usize,
    ) -> Result<Gauge, Diagnostic> {
        if own && !row.has_own {
            let message = format!("`{}` is the run's own anyway", row.name);
            return Err(
                Diagnostic::new(message, self.span_from(first)).with_help("leave `own.` out")
            );
        }
        let called = self.next_kind() == Some(&TokenKind::Open);
        let mut argument = None;
        match row.argument {
            Argument::None if called => {
                let message = format!("`{}` takes no argument", row.name);
                return Err(Diagnostic::new(message, self.here()));
            }
            Argument::Required if !called => {
                let message = format!("`{}` needs a name", row.name);
                return Err(Diagnostic::new(message, self.span_from(first))
                    .with_help(format!("write `{}(\"name\")`", row.name)));
            }
            _ if called => {
                let mut arguments = self.arguments()?;
                argument = Some(arguments.text("name")?);
                arguments.finish()?;
            }
            _ => {}
        }
        Ok(Gauge { id: row.id, own, argument })
    }

    pub(super) fn fact(&mut self, word: &str, first: usize) -> Result<Condition, Diagnostic> {
        let mut arguments = if self.next_kind() == Some(&TokenKind::Open) {
            self.arguments()?
        } else {
            Arguments::empty(self.span_from(first))
        };
        let fact = match word {
            "called" => Fact::Called(arguments.text("tool")?),
            "tool_failed" => Fact::ToolFailed(arguments.text("tool")?),
            "said" => Fact::Said {
                text: arguments.non_empty_text("text")?,
                from: arguments.optional_text("from")?,
            },
            "matches" => Fact::Matches(arguments.pattern("regex")?),
            "finished" => Fact::Finished(arguments.texts("reason")?),
            "handed_off" => Fact::HandedOff(arguments.text("to")?),
            "signal" => Fact::Signal(arguments.text("name")?),
            "cancelled" => Fact::Cancelled,
            "no_tool_calls" => Fact::NoToolCalls,
            "errored" => Fact::Errored,
            _ => Fact::NearDuplicate,
        };
        arguments.finish()?;
        if self.next_kind().is_some_and(|kind| matches!(kind, TokenKind::Compare(_))) {
            let message = format!("`{word}` is true or false, not a number");
            return Err(Diagnostic::new(message, self.here()).with_help(format!(
                "count the steps in which it was true: `count({word}..) >= 3`"
            )));
        }
        Ok(Condition::Fact(fact))
    }

    pub(super) fn named_condition(
        &mut self,
        word: &str,
        first: usize,
    ) -> Result<Condition, Diagnostic> {
        let arguments = self.arguments()?;
        let span = self.span_from(first);
        named::build(word, arguments, span).map(Condition::Named)
    }

    /// `(value, name=value, ..)`. A bare name is a string, as in the seeds.
    fn arguments(&mut self) -> Result<Arguments, Diagnostic> {
        let first = self.at;
        let open = self.here();
        self.at += 1;
        let mut values: Vec<ArgumentValue> = Vec::new();
        while !self.eat(&TokenKind::Close) {
            if !values.is_empty() && !self.eat(&TokenKind::Comma) {
                return match self.peek() {
                    Some(token) => {
                        Err(Diagnostic::new("`,` or `)` is missing here", token.span.clone()))
                    }
                    None => Err(Diagnostic::new("this `(` is not closed", open)),
                };
            }
            if self.eat(&TokenKind::Close) {
                break;
            }
            values.push(self.argument(&open)?);
        }
        Ok(Arguments::new(values, self.span_from(first)))
    }

    fn argument(&mut self, open: &core::ops::Range<usize>) -> Result<ArgumentValue, Diagnostic> {
        let span = self.here();
        let token = self.take();
        match token.map(|token| &token.kind) {
            Some(TokenKind::Literal(literal)) => {
                Ok(ArgumentValue { name: None, literal: literal.clone(), span })
            }
            Some(TokenKind::Word(word)) => {
                if !self.eat(&TokenKind::Assign) {
                    return Ok(ArgumentValue { name: None, literal: Literal::text(word), span });
                }
                let value = self.argument(open)?;
                if value.name.is_some() {
                    return Err(Diagnostic::new("an argument has one name", span));
                }
                Ok(ArgumentValue {
                    name: Some(word.clone()),
                    span: span.start..value.span.end,
                    ..value
                })
            }
            Some(_) => Err(Diagnostic::new("an argument is missing here", span)
                .with_help("arguments are amounts and strings")),
            None => Err(Diagnostic::new("this `(` is not closed", open.clone())),
        }
    }
}

impl Arguments {
    /// The next positional argument, or the one called `name`, as a string.
    pub(crate) fn text(&mut self, name: &str) -> Result<String, Diagnostic> {
        match self.optional_text_at(name, true)? {
            Some(text) => Ok(text),
            None => Err(self.missing(name, "a string")),
        }
    }

    /// Like [`Arguments::text`], refusing the empty string.
    pub(crate) fn non_empty_text(&mut self, name: &str) -> Result<String, Diagnostic> {
        let span = self.span();
        let text = self.text(name)?;
        if text.is_empty() {
            return Err(Diagnostic::new("an empty text is always found", span)
                .with_help("name the text to look for"));
        }
        Ok(text)
    }

    /// The argument called `name`, as a string.
    pub(crate) fn optional_text(&mut self, name: &str) -> Result<Option<String>, Diagnostic> {
        self.optional_text_at(name, false)
    }

    fn optional_text_at(
        &mut self,
        name: &str,
        positional: bool,
    ) -> Result<Option<String>, Diagnostic> {
        let Some(value) = self.take(name, positional) else { return Ok(None) };
        match value.literal.value {
            LiteralValue::Text(text) => Ok(Some(text)),
            _ => Err(Diagnostic::new(format!("`{name}` is a string"), value.span)
                .with_help("put it in quotes")),
        }
    }

    /// All positional arguments, at least one, as strings.
    pub(crate) fn texts(&mut self, name: &str) -> Result<Vec<String>, Diagnostic> {
        let mut texts = alloc::vec![self.text(name)?];
        while let Some(text) = self.optional_text_at(name, true)? {
            texts.push(text);
        }
        Ok(texts)
    }

    fn pattern(&mut self, name: &str) -> Result<String, Diagnostic> {
        let Some(value) = self.take(name, true) else {
            return Err(self.missing(name, "a pattern"));
        };
        match value.literal.value {
            LiteralValue::Pattern(pattern) | LiteralValue::Text(pattern) => {
                // Between quotes as between slashes: a slash needs no escape in the pattern itself.
                let pattern = without_slash_escapes(&pattern);
                crate::text::check_pattern(&pattern).map_err(|problem| {
                    Diagnostic::new(problem.message, value.span).with_help(problem.help)
                })?;
                Ok(pattern)
            }
            _ => Err(Diagnostic::new("a pattern stands between slashes", value.span)
                .with_help("write for example `matches(/final answer: \\d+/)`")),
        }
    }

    /// Refuses what no one asked for.
    pub(crate) fn finish(self) -> Result<(), Diagnostic> {
        let Some(extra) = self.first_left() else { return Ok(()) };
        let error = match &extra.name {
            Some(name) => {
                let error =
                    Diagnostic::new(format!("unknown argument `{name}`"), extra.span.clone());
                match did_you_mean(name, self.asked()) {
                    Some(help) => error.with_help(help),
                    None => error,
                }
            }
            None => Diagnostic::new("one argument too many", extra.span.clone()),
        };
        Err(error)
    }
}

/// The pattern with `\/` read as `/`. A backslash that is itself escaped escapes nothing.
fn without_slash_escapes(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('/') => out.push('/'),
            Some(escaped) => out.extend(['\\', escaped]),
            None => out.push('\\'),
        }
    }
    out
}
