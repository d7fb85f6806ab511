//! Prints what runs do, one line an event.
//!
//! ```text
//! 14:05:10.123 [a1b2c3] [EXEC] Execution started [messages=1, tools=1]
//! 14:05:10.124 [a1b2c3] [STEP] Step 1 started
//! 14:05:11.001 [a1b2c3] [LLM ] 'gpt-5.2' answered [tokens=120+15, cost=$0.0003, finish=tool_calls, 877ms]
//! 14:05:11.002 [a1b2c3] [TOOL] Calling counter {"by":1}
//! ```

mod kind;
mod lines;
mod tool;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop_core::Run;
use endstop_core::event::Source;
use endstop_core::run::Notice;
use endstop_core::units::{Millis, WallTime};

use super::text::{clean_to, clock, short_id, width};
use super::{Observation, Observer, RunInfo, Screen, truncate};
use crate::limits::{MAX_INDENT, MAX_OBSERVED_RUNS};
use endstop_runtime::account::AccountRefused;
use endstop_runtime::ledger::Budget;
use endstop_runtime::store::RunId;
use kind::{Kind, Line};
use lines::RunProgress;

/// Prints the acts of runs: one line per event, each in one write. The texts of tools and models are cut, printed on
/// one line, and cleaned of everything that a terminal obeys.
///
/// ```
/// use std::sync::Arc;
/// use endstop::agent::AgentLoop;
/// use endstop::core::condition::named::max_steps;
/// use endstop::model::{ScriptedModel, ScriptedResponse};
/// use endstop::observe::ConsoleObserver;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let console = Arc::new(ConsoleObserver::stderr().show_run_ids(true).max_width(100));
/// let agent = AgentLoop::builder("answerer")
///     .model(ScriptedModel::new("scripted").reply(ScriptedResponse::text("Forty-two.")))
///     .stop_when(max_steps(5))
///     .shared_observer(console.clone())
///     .build()?;
/// agent.run("What is the answer?").await?;
/// assert_eq!(console.failed_writes(), 0);
/// # Ok(())
/// # }
/// ```
pub struct ConsoleObserver {
    screen: Arc<Screen>,
    options: Options,
    seen: Mutex<BTreeMap<RunId, RunProgress>>,
}

/// The parts that are shown, and how.
#[derive(Clone, Copy, Debug)]
struct Options {
    use_colors: bool,
    show_timestamps: bool,
    minutes_east: i32,
    show_run_ids: bool,
    show_continuation: bool,
    show_tool_args: bool,
    show_text: bool,
    max_width: usize,
}

impl fmt::Debug for ConsoleObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleObserver").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Default for ConsoleObserver {
    fn default() -> Self {
        Self::stderr()
    }
}

impl ConsoleObserver {
    /// Prints to standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self::on(Arc::new(Screen::stderr()))
    }

    /// Prints to any writer, without colors by default.
    pub fn writer(out: impl Write + Send + 'static) -> Self {
        Self::on(Arc::new(Screen::writer(out)))
    }

    /// Prints to a screen that others print to as well. Colors are used if it is a terminal and
    /// `NO_COLOR` is not set.
    #[must_use]
    pub fn on(screen: Arc<Screen>) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let options = Options {
            use_colors: screen.is_terminal() && !no_color,
            show_timestamps: true,
            minutes_east: 0,
            show_run_ids: true,
            show_continuation: false,
            show_tool_args: true,
            show_text: false,
            max_width: 200,
        };
        Self { screen, options, seen: Mutex::default() }
    }

    /// Sets whether kinds are colored.
    #[must_use]
    pub const fn use_colors(mut self, yes: bool) -> Self {
        self.options.use_colors = yes;
        self
    }

    /// Sets whether lines begin with the time of the event: wall time, or the offset from the run's start. On by default.
    #[must_use]
    pub const fn show_timestamps(mut self, yes: bool) -> Self {
        self.options.show_timestamps = yes;
        self
    }

    /// Sets the zone of the times, in minutes east of UTC; 0 by default.
    #[must_use]
    pub const fn minutes_east(mut self, minutes: i32) -> Self {
        self.options.minutes_east = minutes;
        self
    }

    /// Sets whether lines show the run, by the end of its id. On by default.
    #[must_use]
    pub const fn show_run_ids(mut self, yes: bool) -> Self {
        self.options.show_run_ids = yes;
        self
    }

    /// Sets whether to print the decision after each step and at every stop, and the reason.
    #[must_use]
    pub const fn show_continuation(mut self, yes: bool) -> Self {
        self.options.show_continuation = yes;
        self
    }

    /// Sets whether to print the arguments of tool calls. On by default.
    #[must_use]
    pub const fn show_tool_args(mut self, yes: bool) -> Self {
        self.options.show_tool_args = yes;
        self
    }

    /// Sets whether to print the beginning of what the model said.
    #[must_use]
    pub const fn show_text(mut self, yes: bool) -> Self {
        self.options.show_text = yes;
        self
    }

    /// Sets the columns that a line may take; 200 by default. At least 40 are used.
    #[must_use]
    pub const fn max_width(mut self, columns: usize) -> Self {
        self.options.max_width = if columns < 40 { 40 } else { columns };
        self
    }

    /// Returns how many writes failed. A failed write ends nothing.
    #[must_use]
    pub fn failed_writes(&self) -> u64 {
        self.screen.failed_writes()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, RunProgress>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, info: &RunInfo, time: Time, lines: &[Line]) {
        for line in lines {
            self.screen.line(&self.options.layout(info, time, line));
        }
    }
}

/// When something happened.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    at: Millis,
    wall: WallTime,
}

impl Options {
    fn layout(&self, info: &RunInfo, time: Time, line: &Line) -> String {
        let mut text = String::new();
        if self.show_timestamps {
            text.push_str(&match time.wall {
                WallTime(0) => format!("{:>12} ", offset(time.at)),
                wall => format!("{} ", clock(wall, self.minutes_east)),
            });
        }
        if self.show_run_ids {
            text.push_str(&format!("[{}] ", short_id(info.id.as_str())));
        }
        for _ in 0..info.depth.min(MAX_INDENT) {
            text.push_str("  ");
        }
        let tag = format!("[{:<4}]", line.kind.name());
        let room = self.max_width.saturating_sub(width(&text) + tag.len() + 1);
        let message = truncate(&line.message, room);
        if self.use_colors {
            format!("{text}\u{1b}[{}m{tag}\u{1b}[0m {message}", line.kind.color())
        } else {
            format!("{text}{tag} {message}")
        }
    }
}

fn offset(at: Millis) -> String {
    format!("+{}.{:03}", at.0 / 1_000, at.0 % 1_000)
}

impl Observer for ConsoleObserver {
    fn observe(&self, observation: &Observation<'_>) {
        // A descendant's event is printed as its own.
        if observation.event.source == Source::Descendant {
            return;
        }
        let mut all = self.lock();
        if !all.contains_key(&observation.info.id) {
            if all.len() >= MAX_OBSERVED_RUNS {
                all.pop_first();
            }
            all.insert(observation.info.id.clone(), RunProgress::default());
        }
        let Some(seen) = all.get_mut(&observation.info.id) else { return };
        seen.time = Time { at: observation.run.at(), wall: observation.event.wall };
        let lines = seen.event(&self.options, observation);
        self.print(observation.info, seen.time, &lines);
    }

    fn warned(&self, info: &RunInfo, notice: &Notice, run: &Run) {
        let time = self.time(info, run);
        let text = format!("{}: {}", notice.rule, notice.message);
        self.print(info, time, &[Line::new(Kind::Warn, clean_to(&text, self.options.max_width))]);
    }

    fn account_awaited(&self, info: &RunInfo, refused: Option<&AccountRefused>) {
        // No event has this time.
        let last = self.lock().get(&info.id).map(|seen| seen.time);
        let line = match refused {
            Some(refused) => {
                let text = format!("Waits for {}", refused.awaited());
                Line::new(Kind::Pause, clean_to(&text, self.options.max_width))
            }
            None => Line::new(Kind::Exec, "Waits for no budget any longer".to_owned()),
        };
        self.print(info, last.unwrap_or_default(), &[line]);
    }

    fn run_ended(&self, info: &RunInfo, run: &Run, budget: &Budget) {
        let seen = self.lock().remove(&info.id).unwrap_or_default();
        let time = Time { at: run.at(), ..seen.time };
        self.print(info, time, &seen.ended(&self.options, run, budget));
    }
}

impl ConsoleObserver {
    fn time(&self, info: &RunInfo, run: &Run) -> Time {
        let last = self.lock().get(&info.id).map(|seen| seen.time);
        Time { at: run.at(), ..last.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests;
