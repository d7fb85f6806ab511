//! Arguments of a call: positional and named literals, taken one by one.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::condition::gauge::Unit;
use crate::condition::literal::{Literal, LiteralValue};
use crate::diagnostic::Diagnostic;
use crate::units::Money;

/// One argument as written.
#[derive(Clone, Debug)]
pub(crate) struct ArgumentValue {
    pub(crate) name: Option<String>,
    pub(crate) literal: Literal,
    pub(crate) span: Range<usize>,
}

/// The arguments of a call that have not been taken yet.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    left: Vec<ArgumentValue>,
    asked: Vec<String>,
    span: Range<usize>,
}

impl Arguments {
    pub(crate) const fn new(values: Vec<ArgumentValue>, span: Range<usize>) -> Self {
        Self { left: values, asked: Vec::new(), span }
    }

    pub(crate) const fn empty(span: Range<usize>) -> Self {
        Self::new(Vec::new(), span)
    }

    pub(crate) fn from_literals(literals: Vec<Literal>) -> Self {
        let values =
            literals.into_iter().map(|literal| ArgumentValue { name: None, literal, span: 0..0 });
        Self::new(values.collect(), 0..0)
    }

    /// Every argument as written, before any is taken.
    pub(crate) fn written(&self) -> Vec<(Option<String>, Literal)> {
        self.left.iter().map(|value| (value.name.clone(), value.literal.clone())).collect()
    }

    pub(crate) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    pub(crate) fn first_left(&self) -> Option<&ArgumentValue> {
        self.left.first()
    }

    pub(crate) fn asked(&self) -> impl Iterator<Item = &str> {
        self.asked.iter().map(String::as_str)
    }

    /// Takes the argument called `name`, or the next positional one if that is allowed.
    pub(crate) fn take(&mut self, name: &str, positional: bool) -> Option<ArgumentValue> {
        self.asked.push(String::from(name));
        let named = self.left.iter().position(|value| value.name.as_deref() == Some(name));
        let found = named.or_else(|| {
            if positional { self.left.iter().position(|value| value.name.is_none()) } else { None }
        })?;
        Some(self.left.remove(found))
    }

    pub(crate) fn missing(&self, name: &str, what: &str) -> Diagnostic {
        Diagnostic::new(format!("the argument `{name}`, {what}, is missing"), self.span())
    }

    pub(crate) fn required(&mut self, name: &str) -> Result<ArgumentValue, Diagnostic> {
        match self.take(name, true) {
            Some(value) => Ok(value),
            None => Err(self.missing(name, "an amount")),
        }
    }

    pub(crate) fn amount(&mut self, name: &str, unit: Unit) -> Result<u64, Diagnostic> {
        let value = self.required(name)?;
        value.literal.amount(unit, name, value.span)
    }

    /// An amount of dollars, with or without a sign, as a number or a string.
    pub(crate) fn dollars(&mut self, name: &str) -> Result<Money, Diagnostic> {
        let value = self.required(name)?;
        let bare = match &value.literal.value {
            LiteralValue::Money(money) => return Ok(*money),
            LiteralValue::Number { .. } => value.literal.raw.as_str(),
            LiteralValue::Text(text) => text.as_str(),
            _ => "",
        };
        bare.parse().map_err(|error| {
            Diagnostic::new(format!("`{}` is {error}", value.literal.raw), value.span)
                .with_help("write for example `max_usd(2.00)`")
        })
    }
}
