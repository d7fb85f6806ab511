//! The figures of two revisions, and their table.

use std::fmt::Write as _;

/// How many times as slow a benchmark may become.
const TOLERANCE: f64 = 1.1;

/// One result of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// Of a unit per second more is better, of any other less.
    pub(crate) unit: &'static str,
}

impl Figure {
    fn is_speed(&self) -> bool {
        self.unit.ends_with("/s")
    }

    fn is_better_than(&self, other: &Self) -> bool {
        if self.is_speed() { self.value > other.value } else { self.value < other.value }
    }

    /// How many times as slow it is as an earlier one.
    fn slowdown(&self, before: &Self) -> f64 {
        let (more, less) =
            if self.is_speed() { (before.value, self.value) } else { (self.value, before.value) };
        // Both may be zero.
        if more <= less && less <= 0.0 { 1.0 } else { more / less }
    }
}

/// The results of one revision: each benchmark once, in the order of the first round.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<Figure>);

impl Figures {
    /// Adds a result. Of the same benchmark the best of all rounds counts: a busy machine makes it only slower.
    pub(crate) fn add(&mut self, figure: Figure) {
        match self.0.iter_mut().find(|known| known.name == figure.name) {
            Some(known) if figure.is_better_than(known) => *known = figure,
            Some(_) => {}
            None => self.0.push(figure),
        }
    }

    /// The result of the same benchmark, in the same unit.
    fn like(&self, figure: &Figure) -> Option<&Figure> {
        self.0.iter().find(|other| other.name == figure.name && other.unit == figure.unit)
    }

    /// The names of the benchmarks that the other one has not.
    fn not_in(&self, other: &Self) -> Vec<&str> {
        let is_missing = |figure: &&Figure| other.like(figure).is_none();
        self.0.iter().filter(is_missing).map(|figure| figure.name.as_str()).collect()
    }
}

/// Both figures of each benchmark, how many times as slow it has become, and a mark if it is slower by more than a tenth. Then
/// the benchmarks that only one of them has.
pub(crate) fn table(before: &Figures, after: &Figures) -> String {
    let part = Part::of(before, after);
    let verdict = part.verdict();
    part.rows + &verdict
}

/// Benchmarks of two revisions.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Their rows of the table, with its head.
    pub(crate) rows: String,
    /// How many both revisions have.
    shared: usize,
    /// The names of those that have become slower by more than a tenth.
    slower: Vec<String>,
}

impl Part {
    pub(crate) fn of(before: &Figures, after: &Figures) -> Self {
        let width = after.0.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0);
        let mut part = Self::default();
        let _ = writeln!(
            part.rows,
            "{:<width$} {:>12} {:>12} {:<12} {:>7}",
            "", "before", "after", "", "slower"
        );
        for figure in &after.0 {
            let Some(earlier) = before.like(figure) else { continue };
            let Figure { name, value, unit } = figure;
            let slowdown = figure.slowdown(earlier);
            let is_slower = slowdown > TOLERANCE;
            part.shared += 1;
            part.slower.extend(is_slower.then(|| name.clone()));
            let mark = if is_slower { "  SLOWER" } else { "" };
            let _ = writeln!(
                part.rows,
                "{name:<width$} {:>12.3} {value:>12.3} {unit:<12} x {slowdown:>5.2}{mark}",
                earlier.value
            );
        }
        for (which, names) in [("before", before.not_in(after)), ("after", after.not_in(before))] {
            for name in names {
                let _ = writeln!(part.rows, "only {which}: {name}");
            }
        }
        part
    }

    /// Counts the benchmarks of another part too.
    pub(crate) fn count(&mut self, other: Self) {
        self.shared += other.shared;
        self.slower.extend(other.slower);
    }

    /// How many have become slower by more than a tenth.
    pub(crate) fn verdict(&self) -> String {
        format!("slower by more than a tenth: {} of {}\n", self.slower.len(), self.shared)
    }

    /// Their names.
    pub(crate) fn slower(&self) -> &[String] {
        &self.slower
    }
}

#[cfg(test)]
mod tests;
