//! Sessions with a file for the run and one for each of its sub-agents.
//! A separate file because tools that are made from each other keep their sessions like this.

use super::RunSink;
use super::builder::RunBuilder;
use super::merge::Untimed;
use super::reading::Reading;
use super::time::Time;
use super::timeline::AgentTimeline;

/// One file of a session while it is read.
pub(crate) struct AgentFile<'s> {
    pub(crate) reading: Reading<'s>,
    /// The name of the session, if a record had one.
    pub(crate) id: Option<String>,
    pub(crate) agent: AgentTimeline,
    is_child: bool,
}

/// Reads a file, calls back after each record, and returns the agent's entries that the callback left.
type ReadFile = fn(AgentFile<'_>, &mut dyn FnMut(&mut AgentFile<'_>)) -> AgentTimeline;

impl<'s> AgentFile<'s> {
    fn new(reading: Reading<'s>, is_child: bool) -> Self {
        Self { reading, id: None, agent: AgentTimeline::default(), is_child }
    }

    /// The agent does something: a sub-agent begins with it.
    pub(crate) fn begin(&mut self, time: Time) {
        if self.is_child {
            self.agent.begin_child(time, 1);
        }
    }
}

/// Reads a session. Its entries are written while it is read, unless those of sub-agents have to be merged with them.
pub(crate) fn read_session(reading: Reading<'_>, sink: &mut dyn RunSink, read: ReadFile) {
    let mut run = RunBuilder::new(reading, sink);
    let is_alone = reading.children.is_empty();
    read(AgentFile::new(reading, false), &mut |file| {
        run.set_id(|| file.id.clone());
        file.agent.take().into_iter().for_each(|entry| run.own().push(entry));
        if is_alone {
            run.write_own();
        }
    });
    let child = |file| {
        let mut agent = read(AgentFile::new(file, true), &mut |_| {});
        agent.end_child();
        agent
    };
    run.write_with(reading.child_files().map(child).collect(), Untimed::Last);
    run.end();
}
