//! Plays a run act by act while its file is read, so that no run is held whole.

use super::act::{Act, Time};
use super::lanes::{self, Lane};
use super::writer::{Closing, RunWriter};
use super::{RunHeader, RunSink};

/// How many acts are held back until one tells a time: a run begins at the first time that is told, which
/// a prompt without time may precede.
const MAX_HELD: usize = 16;

/// A run that begins with its first act.
pub(super) struct Player<'s, 'h> {
    header: RunHeader<'h>,
    /// The first time that a record told which is no act.
    noted: Time,
    state: State<'s>,
}

enum State<'s> {
    Waiting(&'s mut dyn RunSink, Vec<Act>),
    Playing(RunWriter<'s>),
    /// Only while one of the others becomes the next.
    Between,
}

impl<'s, 'h> Player<'s, 'h> {
    pub(super) const fn new(sink: &'s mut dyn RunSink, header: RunHeader<'h>) -> Self {
        Self { header, noted: None, state: State::Waiting(sink, Vec::new()) }
    }

    /// A record that is no act tells a time: the run begins at the first that is told.
    pub(super) fn note(&mut self, time: Time) {
        self.noted = self.noted.or(time);
    }

    /// Plays the next act.
    pub(super) fn act(&mut self, act: Act) {
        match &mut self.state {
            State::Playing(writer) => writer.act(&act),
            State::Waiting(_, held) => {
                let time = self.noted.or_else(|| act.first_time());
                held.push(act);
                if time.is_some() || held.len() >= MAX_HELD {
                    self.begin(time);
                }
            }
            State::Between => {}
        }
    }

    /// Plays the next act, and what sub-agents did meanwhile.
    pub(super) fn act_with(&mut self, act: Act, children: &[Lane]) {
        if children.is_empty() {
            return self.act(act);
        }
        self.begin(self.noted.or_else(|| act.first_time()));
        if let State::Playing(writer) = &mut self.state {
            lanes::play(writer, &Lane { acts: vec![act] }, children);
        }
    }

    /// Ends the run, if it has begun.
    pub(super) fn end(mut self, closing: Closing) {
        if matches!(&self.state, State::Waiting(_, held) if !held.is_empty()) {
            self.begin(self.noted);
        }
        if let State::Playing(writer) = self.state {
            writer.end(closing);
        }
    }

    fn begin(&mut self, first: Time) {
        match std::mem::replace(&mut self.state, State::Between) {
            State::Waiting(sink, held) => {
                let mut writer = RunWriter::begin(sink, &self.header, first);
                held.iter().for_each(|act| writer.act(act));
                self.state = State::Playing(writer);
            }
            other => self.state = other,
        }
    }
}
