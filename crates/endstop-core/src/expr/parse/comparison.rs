//! Comparisons: what is measured, the operator, the amount.

use alloc::boxed::Box;
use alloc::format;
use core::ops::Range;

use super::super::lex::TokenKind;
use super::Parser;
use crate::condition::gauge::Unit;
use crate::condition::literal::{Literal, eaten_by_the_shell};
use crate::condition::{CompareOp, Comparison, Condition, Gauge, Temporal, Window};
use crate::diagnostic::Diagnostic;
use crate::limits::MAX_COUNT;

/// The left side of a comparison: a gauge, or an operator that yields a number of steps.
pub(super) enum Operand {
    Gauge(Gauge),
    Streak(Box<Condition>),
    Count(Box<Condition>, Option<Window>),
}

impl Parser<'_> {
    /// The operator and the amount after the operand.
    pub(super) fn comparison(
        &mut self,
        operand: Operand,
        first: usize,
    ) -> Result<Condition, Diagnostic> {
        let measured = self.span_from(first);
        let Some(TokenKind::Compare(op)) = self.next_kind() else {
            let error = Diagnostic::new("a comparison is missing here", self.here());
            return Err(match self.next_kind() {
                Some(TokenKind::Assign) => {
                    error.with_help("write `==` to compare, `>=` for a limit")
                }
                _ => error.with_help(format!(
                    "this is a number: write for example `>= {}`",
                    example(&operand)
                )),
            }
            .into_span_if_empty(measured));
        };
        self.at += 1;
        let span = self.here();
        let Some(TokenKind::Literal(literal)) = self.next_kind() else {
            return Err(match self.next_kind() {
                Some(TokenKind::Word(word)) => {
                    Diagnostic::new(format!("`{word}` is not an amount"), span)
                        .with_help(format!("write for example `{}`", example(&operand)))
                }
                _ if is_money(&operand) => eaten_by_the_shell(span),
                _ => Diagnostic::new("an amount is missing here", span)
                    .with_help(format!("write for example `{}`", example(&operand))),
            });
        };
        self.at += 1;
        compared(operand, *op, literal, span)
    }
}

trait IntoSpanIfEmpty {
    fn into_span_if_empty(self, span: Range<usize>) -> Self;
}

impl IntoSpanIfEmpty for Diagnostic {
    /// At the end of the text there is nothing to point at: points at what stands before instead.
    fn into_span_if_empty(mut self, span: Range<usize>) -> Self {
        if self.span.is_empty() {
            self.span = span;
        }
        self
    }
}

fn is_money(operand: &Operand) -> bool {
    matches!(operand, Operand::Gauge(gauge) if gauge.row().unit == Unit::Money)
}

const fn example(operand: &Operand) -> &'static str {
    match operand {
        Operand::Gauge(gauge) => match gauge.row().unit {
            Unit::Count => "25",
            Unit::Tokens => "200k",
            Unit::Money => "$2.00",
            Unit::Duration => "10m",
            Unit::WallTime => "\"2026-11-30T12:00Z\"",
            Unit::Percent => "90%",
        },
        Operand::Streak(_) | Operand::Count(..) => "3",
    }
}

fn compared(
    operand: Operand,
    op: CompareOp,
    literal: &Literal,
    span: Range<usize>,
) -> Result<Condition, Diagnostic> {
    match operand {
        Operand::Gauge(gauge) => {
            let value = literal.amount(gauge.row().unit, gauge.row().name, span)?;
            Ok(Condition::Compare(Comparison { gauge, op, value }))
        }
        Operand::Streak(of) => {
            let n = literal.amount(Unit::Count, "streak", span)?;
            Ok(Condition::Temporal(Temporal::Streak { of, op, n }))
        }
        Operand::Count(of, window) => {
            let n = literal.amount(Unit::Count, "count", span.clone())?;
            if window.is_some() && n > MAX_COUNT {
                return Err(Diagnostic::new(
                    format!("a count in a window is at most {MAX_COUNT}"),
                    span,
                ));
            }
            Ok(Condition::Temporal(Temporal::Count { of, window, op, n }))
        }
    }
}
