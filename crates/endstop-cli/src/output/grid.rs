//! Tables that stay readable: with borders if there is room, and one line per cell otherwise.

use std::fmt;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::{NARROW_COLUMNS, wrapped};

/// A word longer than this may be broken in a table: ids and addresses are not read letter by letter.
const LONGEST_WORD: usize = 20;

/// Rows under a header.
#[derive(Clone, Debug)]
pub struct Grid {
    header: Vec<String>,
    right_aligned: Vec<usize>,
    rows: Vec<Vec<String>>,
    unbroken: Option<usize>,
    on_a_terminal: bool,
    width: u16,
}

impl Grid {
    pub(super) fn new(
        header: &[&str],
        right_aligned: &[usize],
        on_a_terminal: bool,
        width: u16,
    ) -> Self {
        Self {
            header: header.iter().map(|&name| name.to_owned()).collect(),
            right_aligned: right_aligned.to_vec(),
            rows: Vec::new(),
            unbroken: None,
            on_a_terminal,
            width,
        }
    }

    /// The same with a column (from 0) whose words are never broken: they are copied from it.
    #[must_use]
    pub fn unbroken(mut self, column: usize) -> Self {
        self.unbroken = Some(column);
        self
    }

    /// Adds a row; it has as many cells as the header.
    pub fn add_row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The least width of each column without breaking words, with a space on both sides.
    fn least_widths(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.header.len()).map(|column| {
            let cells = self.rows.iter().chain([&self.header]).filter_map(|row| row.get(column));
            let words = cells.flat_map(|cell| cell.split_whitespace());
            let most = if self.unbroken == Some(column) { usize::MAX } else { LONGEST_WORD };
            let longest = words.map(|word| word.chars().count().min(most)).max();
            u16::try_from(longest.unwrap_or(0) + 2).unwrap_or(u16::MAX)
        })
    }

    /// Whether a table fits without breaking words.
    fn fits(&self) -> bool {
        // Each column has a border, and the last has two.
        let least: usize = self.least_widths().map(|width| usize::from(width) + 1).sum();
        least < usize::from(self.width)
    }

    fn table(&self) -> Table {
        let fancy = self.on_a_terminal && self.width >= NARROW_COLUMNS;
        let style =
            if fancy { presets::UTF8_FULL_CONDENSED } else { presets::ASCII_FULL_CONDENSED };
        let mut table = Table::new();
        table
            .load_style(style)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(self.width)
            .set_header(&self.header)
            .add_rows(&self.rows);
        for (index, least) in self.least_widths().enumerate() {
            if let Some(column) = table.column_mut(index) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            }
        }
        for &index in &self.right_aligned {
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    /// A cell that begins at a column of a terminal, in as many lines as it needs there.
    fn broken(&self, column: usize, cell: &str, begin: usize) -> String {
        let room = usize::from(self.width).saturating_sub(begin).max(LONGEST_WORD);
        let is_whole = !self.on_a_terminal || self.unbroken == Some(column);
        if is_whole || cell.chars().count() <= room {
            return cell.to_owned();
        }
        let mut lines: Vec<String> = Vec::new();
        for line in wrapped(cell, room, "").lines() {
            let characters: Vec<char> = line.chars().collect();
            lines.extend(characters.chunks(room).map(|part| part.iter().collect::<String>()));
        }
        lines.join(&format!("\n{:begin$}", ""))
    }

    /// A block of lines for each row.
    fn cards(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.header.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        for (number, row) in self.rows.iter().enumerate() {
            if number > 0 {
                f.write_str("\n\n")?;
            }
            let cells = self.header.iter().zip(row).enumerate();
            let cells = cells.filter(|(_, (_, cell))| !cell.is_empty());
            for (line, (column, (name, cell))) in cells.enumerate() {
                let feed = if line > 0 { "\n" } else { "" };
                let cell = self.broken(column, cell, names + 2);
                write!(f, "{feed}{name:names$}  {cell}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fits() { write!(f, "{}", self.table()) } else { self.cards(f) }
    }
}
