//! How `endstop price` answers.

use std::io::{self, Write};

use endstop_price::{ListedRate, ModelPrice, PriceTable, Priced, Unit, UsageCounts};
use serde_json::{Value, json};

use super::{Question, wall_time};
use crate::output::count;

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;

/// Everything there is to say.
pub(super) struct Answer<'a> {
    pub(super) table: &'a PriceTable,
    pub(super) model: ModelPrice<'a>,
    pub(super) question: &'a Question,
    pub(super) priced: Option<Priced>,
}

impl Answer<'_> {
    /// For people.
    pub(super) fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (provider, model) = (self.model.provider_id(), self.model.model_id());
        writeln!(out, "model   {provider}/{model}")?;
        writeln!(out, "prices  {}, at {}", self.table.version(), self.question.at)?;
        let kinds = self.kinds();
        if !kinds.is_empty() {
            let kinds: Vec<String> =
                kinds.iter().map(|(key, value)| format!("{key} {value}")).collect();
            writeln!(out, "kind    {}", kinds.join(", "))?;
        }
        writeln!(out)?;
        match &self.priced {
            Some(priced) => self.priced_text(priced, out),
            None => self.rates_text(out),
        }
    }

    fn priced_text(&self, priced: &Priced, out: &mut dyn Write) -> io::Result<()> {
        let mut rows = vec![["class", "count", "rate", "amount"].map(str::to_owned)];
        for line in &priced.lines {
            let rate = format!("${} / {}", line.rate.to_decimal(), per(line.unit));
            let count = count(line.count);
            rows.push([name(line.unit), count, rate, line.amount.to_string()]);
        }
        table(&rows, out)?;
        writeln!(out)?;
        writeln!(out, "input   {}", priced.input)?;
        writeln!(out, "output  {}", priced.output)?;
        writeln!(out, "total   {}  (unrounded {})", priced.total, priced.exact)?;
        if let Some(billed) = self.question.billed {
            writeln!(out, "billed  {billed}  (as the provider reports; it wins over the total)")?;
        }
        if self.was_exclusive() {
            writeln!(out, "note    the input was taken as without the cached tokens")?;
        }
        Ok(())
    }

    fn rates_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut rows = vec![["class", "rate", "large calls"].map(str::to_owned)];
        for ListedRate { unit, base, tiers } in self.rates() {
            let large: Vec<String> = tiers
                .iter()
                .map(|(above, rate)| format!("${} above {}", rate.to_decimal(), count(*above)))
                .collect();
            let rate = format!("${} / {}", base.to_decimal(), per(unit));
            rows.push([name(unit), rate, large.join(", ")]);
        }
        table(&rows, out)
    }

    /// For machines: amounts are decimal strings in dollars.
    pub(super) fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let kinds: serde_json::Map<String, Value> =
            self.kinds().into_iter().map(|(key, value)| (key, value.into())).collect();
        let mut answer = json!({
            "version": JSON_VERSION,
            "provider": self.model.provider_id(),
            "model": self.model.model_id(),
            "requested_model": self.question.model,
            "prices": self.table.version(),
            "at": self.question.at.to_string(),
            "context": kinds,
            "billed_usd": self.question.billed.map(|billed| billed.to_decimal()),
        });
        let rest = match &self.priced {
            Some(priced) => self.priced_json(priced),
            None => json!({ "rates": self.rates().iter().map(rate_json).collect::<Vec<_>>() }),
        };
        if let (Value::Object(answer), Value::Object(rest)) = (&mut answer, rest) {
            answer.extend(rest);
        }
        writeln!(out, "{answer:#}")
    }

    fn priced_json(&self, priced: &Priced) -> Value {
        let lines: Vec<Value> = priced
            .lines
            .iter()
            .map(|line| {
                json!({
                    "unit": line.unit.key(),
                    "price_key": line.unit.price_key(),
                    "count": line.count,
                    "per": line.unit.per(),
                    "rate_usd": line.rate.to_decimal(),
                    "amount_usd": line.amount.to_decimal(),
                })
            })
            .collect();
        let usage = self.question.usage.as_ref();
        let reported: serde_json::Map<String, Value> = usage
            .into_iter()
            .flat_map(|usage| usage.iter())
            .map(|(unit, count)| (unit.key().to_owned(), count.into()))
            .collect();
        let tokens = usage.map(UsageCounts::token_usage).unwrap_or_default();
        json!({
            "lines": lines,
            "usage": reported,
            "tokens": {
                "input": tokens.input,
                "cache_read": tokens.cache_read,
                "cache_write": tokens.cache_write,
                "cache_write_1h": tokens.cache_write_1h,
                "output": tokens.output,
            },
            "input_was_exclusive": self.was_exclusive(),
            "input_usd": priced.input.to_decimal(),
            "output_usd": priced.output.to_decimal(),
            "total_usd": priced.total.to_decimal(),
            "unrounded_usd": priced.exact.to_decimal(),
        })
    }

    fn rates(&self) -> Vec<ListedRate> {
        self.model.rates(wall_time(self.question.at), &self.question.context)
    }

    fn was_exclusive(&self) -> bool {
        self.question.usage.as_ref().is_some_and(UsageCounts::was_exclusive)
    }

    /// The properties of the kind of request.
    fn kinds(&self) -> Vec<(String, String)> {
        let context = &self.question.context;
        let named = [
            ("processing", &context.processing),
            ("service_tier", &context.service_tier),
            ("speed", &context.speed),
        ];
        let named =
            named.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
        let other = context.other.iter().map(|(key, value)| (key.clone(), value.clone()));
        named.chain(other).collect()
    }
}

fn rate_json(rate: &ListedRate) -> Value {
    let tiers: Vec<Value> = rate
        .tiers
        .iter()
        .map(|(above, rate)| json!({ "above_input_tokens": above, "rate_usd": rate.to_decimal() }))
        .collect();
    json!({
        "unit": rate.unit.key(),
        "price_key": rate.unit.price_key(),
        "per": rate.unit.per(),
        "rate_usd": rate.base.to_decimal(),
        "tiers": tiers,
    })
}

fn name(unit: Unit) -> String {
    let milliseconds = if unit.is_duration() { " (ms)" } else { "" };
    format!("{}{milliseconds}", unit.key())
}

fn per(unit: Unit) -> String {
    count(unit.per())
}

/// Prints rows under each other: the first column to the left, the others to the right.
fn table<const N: usize>(rows: &[[String; N]], out: &mut dyn Write) -> io::Result<()> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
            if index == 0 {
                line.push_str(&format!("{cell:<width$}"));
            } else {
                line.push_str(&format!("  {cell:>width$}"));
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
