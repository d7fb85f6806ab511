//! A recorded log of agent runs in Endstop's own trace form, the same bytes each time.
//!
//! Its size is that of the log on which other tools were measured: 9,679 runs of 22 steps on average,
//! about 960 bytes per step with the text of the model, its calls and their results.

use std::io::{self, Write};
use std::ops::Range;

use endstop_core::event::EventKind;
use endstop_core::units::{Cost, Millis, Money, TokenUsage, WallTime};
use endstop_core::wire::v1::trace::{Header, Line, VERSION};
use endstop_core::{Event, event::Source};

/// Runs of the log.
pub const RUNS: u64 = 9_679;

/// Phrases that some replies hold; some of them are cut in two by the stream.
pub const PHRASES: [&str; 3] = ["FINAL ANSWER", "TASK COMPLETE", "I cannot go on"];

/// The wall time of the first run: 2026-11-01T12:00Z.
const WALL_MS: u64 = 1_793_534_400_000;

const WORDS: [&str; 32] = [
    "the", "failing", "test", "reads", "a", "file", "that", "the", "parser", "does", "not", "find", "so", "I",
    "will", "look", "at", "its", "callers", "and", "then", "change", "one", "line", "of", "config", "before",
    "I", "run", "it", "again", "\u{2014}",
];

const TOOLS: [&str; 5] = ["read_file", "edit_file", "search", "run_tests", "shell"];

/// A small generator of numbers: Steele, Lea and Flood's `SplitMix64`.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// Words with a line feed now and then.
    fn words(&mut self, about: usize, into: &mut String) {
        into.clear();
        let mut line = 0;
        while into.len() < about {
            let word = WORDS[self.below(WORDS.len() as u64) as usize];
            // Most of the text is plain; dashes are rare.
            let word = if word.is_ascii() || self.below(4) == 0 { word } else { "so" };
            into.push_str(word);
            line += word.len() + 1;
            into.push(if line > 70 { '\n' } else { ' ' });
            line = if line > 70 { 0 } else { line };
        }
    }
}

/// Writes these runs of the log; returns how many steps they have.
///
/// # Errors
/// Tools that write.
pub fn write(runs: Range<u64>, out: &mut impl Write) -> io::Result<u64> {
    let mut log = Log { out, numbers: Numbers(0), at: 0, run: 0 };
    let mut steps = 0;
    for run in runs {
        log.run = run;
        log.numbers = Numbers(run << 32);
        steps += log.run()?;
    }
    Ok(steps)
}

struct Log<'w, W> {
    out: &'w mut W,
    numbers: Numbers,
    at: u64,
    run: u64,
}

impl<W: Write> Log<'_, W> {
    fn event(&mut self, kind: EventKind<'_>) -> io::Result<()> {
        let wall = WallTime(WALL_MS + self.run * 600_000 + self.at);
        let event = Event { at: Millis(self.at), wall, source: Source::Own, kind };
        serde_json::to_writer(&mut *self.out, &Line::from_event(&event))?;
        self.out.write_all(b"\n")
    }

    fn run(&mut self) -> io::Result<u64> {
        let name = format!("run-{:05}", self.run);
        let header = Header {
            endstop_trace: VERSION,
            run: name.as_str().into(),
            model: Some("claude-sonnet-4-5".into()),
            cost_is: Some("computed".into()),
            prices: None,
        };
        serde_json::to_writer(&mut *self.out, &header)?;
        self.out.write_all(b"\n")?;
        self.at = 0;
        self.event(EventKind::RunBegin { agent: None, depth: 0 })?;
        self.event(EventKind::UserMessage)?;
        let steps = 1 + self.numbers.below(44);
        let said = self.numbers.below(steps * 3);
        let per_step = 700 + self.numbers.below(2_200);
        for step in 0..steps {
            self.step(step, step + 1 == steps, step == said, per_step)?;
        }
        self.event(EventKind::RunEnd { succeeded: Some(self.run % 3 != 0) })?;
        Ok(steps)
    }

    fn step(&mut self, step: u64, is_last: bool, says: bool, per_step: u64) -> io::Result<()> {
        let (mut text, mut result) = (String::new(), String::new());
        self.at += 3;
        self.event(EventKind::StepBegin)?;
        self.event(EventKind::AttemptBegin { next_cost: None })?;
        self.at += 900 + self.numbers.below(3_000);
        let length = 60 + self.numbers.below(260) as usize;
        self.numbers.words(length, &mut text);
        self.say(&mut text, says)?;
        let usage = TokenUsage {
            input: per_step / 4,
            cache_read: step * per_step / 3,
            cache_write: per_step / 8,
            cache_write_1h: 0,
            output: 40 + self.numbers.below(200),
        };
        let picos = usage.input * 3_000_000 + usage.cache_read * 300_000 + usage.output * 15_000_000;
        let reply = EventKind::Reply {
            model: Some("claude-sonnet-4-5"),
            usage: Some(usage),
            cost: Some(Cost::Known(Money::from_picos(picos))),
            finish: Some(if is_last { "end_turn" } else { "tool_use" }),
            tool_calls: u32::from(!is_last),
        };
        self.event(reply)?;
        if !is_last {
            let tool = TOOLS[self.numbers.below(TOOLS.len() as u64) as usize];
            self.event(EventKind::ToolBegin { tool })?;
            self.at += self.numbers.below(2_000);
            let length = 40 + self.numbers.below(220) as usize;
            self.numbers.words(length, &mut result);
            let arguments = format!("{{\"path\":\"src/part_{}.rs\",\"line\":{step}}}", self.numbers.below(90));
            let failed = self.numbers.below(12) == 0;
            self.event(EventKind::ToolEnd { tool, arguments: &arguments, result: &result, failed })?;
        }
        self.event(EventKind::StepEnd)
    }

    /// The reply in one piece, or in two; the cut may go through a phrase.
    fn say(&mut self, text: &mut String, says: bool) -> io::Result<()> {
        let mut cut = None;
        if says {
            let phrase = PHRASES[self.numbers.below(3) as usize];
            cut = (self.numbers.below(2) == 0).then_some(text.len() + phrase.len() / 2);
            text.push_str(phrase);
            text.push_str(".\n");
        } else if self.numbers.below(8) == 0 {
            cut = Some(text.floor_char_boundary(text.len() / 2));
        }
        let (first, second) = text.split_at(cut.unwrap_or(text.len()));
        self.event(EventKind::Piece { text: first })?;
        if second.is_empty() { Ok(()) } else { self.event(EventKind::Piece { text: second }) }
    }
}
