//! The status line: the bottom row of the terminal, which the output of the command scrolls above.
//!
//! The command writes to the same terminal, and the position of its cursor is unknown. So the line has a separate row
//! that is taken out of the scrolling region, and the cursor is put back after each redraw. A command that reads keys
//! one by one draws the screen itself: from then on there is no line for the rest of the run.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use endstop::core::Run;
use endstop::observe::{DryRunObserver, Nearness, StatusView, clean, render};
use endstop::runtime::RunHandle;

use super::terminal::Terminal;
use crate::limits::SCREEN_SETTLING;
use crate::output;

/// A terminal with fewer rows has none to spare.
const LEAST_ROWS: u16 = 8;

/// The line, if there is one.
#[derive(Debug)]
pub(super) struct StatusRow {
    is_wanted: bool,
    shown: Option<Shown>,
}

/// The contents of the line.
pub(super) struct RowContent<'r> {
    pub(super) run: &'r RunHandle,
    /// The policy that is not obeyed: the row says how the run would stand under it.
    pub(super) dry_run: Option<&'r DryRunObserver>,
    /// Model calls that were started.
    pub(super) calls: u64,
    /// When the run began.
    pub(super) since: Instant,
    /// Words before the line.
    pub(super) notice: Option<&'r str>,
    /// Windows of the subscription.
    pub(super) quotas: Vec<(String, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    columns: u16,
    rows: u16,
    text: String,
}

impl StatusRow {
    /// None unless standard error is a terminal that understands it.
    pub(super) fn new() -> Self {
        let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        // The terminal has one bottom row, and that is the outer run's.
        let is_inner = std::env::var_os("ENDSTOP_RUN").is_some_and(|run| !run.is_empty());
        let is_wanted =
            !output::is_quiet() && !is_dumb && !is_inner && std::io::stderr().is_terminal();
        Self { is_wanted, shown: None }
    }

    /// Whether it is worth looking often.
    pub(super) const fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Draws how the run stands, if a row can be had.
    pub(super) fn draw(&mut self, content: &RowContent<'_>, terminal: &Terminal) {
        let RowContent { run, dry_run, calls, since, notice, .. } = *content;
        if !self.is_wanted || !terminal.is_foreground() {
            return;
        }
        if terminal.is_raw() {
            self.clear();
            self.is_wanted = false;
            return;
        }
        let size = terminal_size::terminal_size_of(std::io::stderr());
        let Some((columns, rows)) = size.map(|(width, height)| (width.0, height.0)) else { return };
        if rows < LEAST_ROWS {
            return self.clear();
        }
        let elapsed = since.elapsed();
        if self.shown.is_none() && calls == 0 && notice.is_none() && elapsed < SCREEN_SETTLING {
            return;
        }
        let view_of = |core: &Run| {
            let mut view = StatusView::of(core, run.budget());
            let silent = elapsed.saturating_sub(Duration::from_millis(core.at().0));
            view.elapsed = elapsed;
            view.quotas.clone_from(&content.quotas);
            if let Some(next) = &mut view.next
                && let Nearness::After(left) = &mut next.nearness
            {
                *left = left.saturating_sub(silent);
            }
            view
        };
        // A line that fills the last column makes some terminals wrap.
        let room = usize::from(columns).saturating_sub(1);
        let text = match dry_run.map(|dry_run| (dry_run, dry_run.first_stop())) {
            None => match notice {
                None => render(&run.look(view_of), room),
                Some(notice) => after(notice, &run.look(view_of), room),
            },
            Some((dry_run, None)) => after("dry run", &dry_run.look(view_of), room),
            Some((_, Some(stop))) => {
                let rule = clean(&stop.signal.reason.to_string());
                after(&format!("dry run, past {rule}"), &run.look(view_of), room)
            }
        };
        self.show(Shown { columns, rows, text });
    }

    fn show(&mut self, new: Shown) {
        if self.shown.as_ref() == Some(&new) {
            return;
        }
        let mut out = String::new();
        // A terminal that gets another size forgets its region, and the line is no longer in the last row.
        let size = |shown: &Shown| (shown.columns, shown.rows);
        let before = self.shown.as_ref().filter(|old| size(old) != size(&new));
        if let Some(old) = before.filter(|old| old.rows < new.rows) {
            out.push_str(&format!("\u{1b}7\u{1b}[r\u{1b}[{};1H\u{1b}[0m\u{1b}[K\u{1b}8", old.rows));
        }
        if self.shown.is_none() || before.is_some() {
            // One row down and up again: if the cursor is in the last row, its contents scroll up.
            out.push_str("\u{1b}D\u{1b}[1A");
            out.push_str(&format!("\u{1b}7\u{1b}[1;{}r\u{1b}8", new.rows - 1));
        }
        out.push_str(&format!("\u{1b}7\u{1b}[{};1H\u{1b}[0m\u{1b}[K{}\u{1b}8", new.rows, new.text));
        write(&out);
        self.shown = Some(new);
    }

    /// Restores the row.
    pub(super) fn clear(&mut self) {
        if let Some(shown) = self.shown.take() {
            write(&format!("\u{1b}7\u{1b}[r\u{1b}[{};1H\u{1b}[0m\u{1b}[K\u{1b}8", shown.rows));
        }
    }
}

/// The line with words before it.
fn after(what: &str, view: &StatusView, room: usize) -> String {
    let head = format!("{what} \u{b7} ");
    let line = render(view, room.saturating_sub(head.chars().count()));
    // If the line has no room at all, the end of the whole is cut.
    format!("{head}{line}").chars().take(room).collect()
}

impl Drop for StatusRow {
    fn drop(&mut self) {
        self.clear();
    }
}

/// In one write, so that it stays in one piece next to the command's output.
fn write(text: &str) {
    let mut err = std::io::stderr().lock();
    // A line that cannot be drawn must not end the command.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
