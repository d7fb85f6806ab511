//! Which lane a call belongs to.
//!
//! A conversation is known by what its request has in common with the last one of a lane. One that is known
//! nowhere goes to the first lane of its group, as the loop of one agent does that rewrites its history;
//! unless that lane has a call in flight, or its model waits for the results of tools: then it is one beside it.
//! That may be a parallel call of the same agent or a model that a tool asks, so it counts as no sub-agent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use endstop::core::policy::Action;

use super::conversation::Rolling;
use super::lane::{Kind, Lane, Lanes, NotBegun, Seat, end_child};
use super::{RunEntry, stop_of};
use crate::config::Bounds;
use endstop_llm::{CallRequest, Thread};

/// Why a call gets no lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSeat {
    /// Too many calls of the run are in flight.
    Full,
    /// The run does not let a sub-agent begin.
    NoChild,
}

impl From<NotBegun> for NoSeat {
    fn from(_: NotBegun) -> Self {
        Self::NoChild
    }
}

impl RunEntry {
    /// Finds the lane of a call, and takes it.
    pub(crate) fn sit(
        self: &Arc<Self>,
        child: &[String],
        asked: &CallRequest,
        rolling: &Rolling,
        bounds: &Bounds,
    ) -> Result<Seat, NoSeat> {
        if self.calls.fetch_add(1, Ordering::AcqRel) >= bounds.calls {
            self.calls.fetch_sub(1, Ordering::AcqRel);
            return Err(NoSeat::Full);
        }
        let mut lanes = self.lanes();
        lanes.uses = lanes.uses.saturating_add(1);
        let picked = lanes.pick(child, asked, rolling);
        let uses = lanes.uses;
        match picked {
            Ok(lane) => {
                {
                    let mut state = lane.state();
                    state.is_busy = true;
                    state.used = uses;
                }
                lanes.bound = bounds.conversations;
                drop(lanes);
                Ok(Seat { run: Arc::clone(self), lane })
            }
            Err(why) => {
                drop(lanes);
                self.calls.fetch_sub(1, Ordering::AcqRel);
                Err(why)
            }
        }
    }

    /// Ends the longest idle lanes beyond the bound.
    pub(super) fn end_surplus(&self) {
        let mut ended = Vec::new();
        {
            let mut lanes = self.lanes();
            while lanes.all.len() > lanes.bound {
                let idle = lanes.all.iter().enumerate().filter(|(_, lane)| {
                    lane.is_child() && !lane.state().is_busy && Arc::strong_count(lane) <= 1
                });
                let Some((at, _)) = idle.min_by_key(|(_, lane)| (lane.is_main, lane.state().used))
                else {
                    break;
                };
                ended.push(lanes.all.swap_remove(at));
            }
        }
        ended.iter().for_each(|lane| end_child(lane));
    }

    /// Ends every child that is idle: the run is over.
    pub(super) fn end_children(&self) {
        let children: Vec<Arc<Lane>> = {
            let mut lanes = self.lanes();
            let (own, children) = std::mem::take(&mut lanes.all)
                .into_iter()
                .partition(|lane| !lane.is_child() || lane.state().is_busy);
            lanes.all = own;
            children
        };
        // Those below first.
        children.iter().rev().for_each(|lane| end_child(lane));
    }

    /// A child that was refused because the run above could not go on just then begins anew.
    pub(crate) fn renew(&self, lane: &Lane) -> Result<(), NotBegun> {
        let Some(parent) = &lane.parent else { return Ok(()) };
        let above = parent.state().driven.clone();
        let own = lane.state().driven.clone();
        if stop_of(&own).is_none() || stop_of(&above).is_some() {
            return Ok(());
        }
        if own.look(|run| {
            run.trip_record().rules.iter().any(|it| it.action == Action::Stop && it.holds)
        }) {
            return Ok(());
        }
        end_child(lane);
        // Never taken while a lane is locked.
        let anew = self.lanes().begin_child(&above, &lane.agent, lane.kind)?;
        lane.state().driven = anew;
        Ok(())
    }
}

impl Lanes {
    fn pick(
        &mut self,
        child: &[String],
        asked: &CallRequest,
        rolling: &Rolling,
    ) -> Result<Arc<Lane>, NoSeat> {
        let main = self.main_of(child)?;
        let mut best = None;
        for lane in self.all.iter().filter(|lane| lane.group == main.group) {
            let state = lane.state();
            let fit = state.memory.fit(asked, rolling).filter(|_| !state.is_busy);
            drop(state);
            // Of equals the first.
            if let Some(fit) = fit
                && best.as_ref().is_none_or(|(known, _)| fit > *known)
            {
                best = Some((fit, Arc::clone(lane)));
            }
        }
        if let Some((_, lane)) = best {
            return Ok(lane);
        }
        let takes_any = {
            let state = main.state();
            let is_partial = asked.thread != Thread::Whole;
            !state.is_busy && (is_partial || !state.memory.awaits_results())
        };
        if takes_any {
            return Ok(main);
        }
        let parent = Arc::clone(&main);
        let above = parent.state().driven.clone();
        // The first is that of the run.
        let agent = format!("conversation {}", self.count_child().saturating_add(1));
        let driven = self.begin_child(&above, &agent, Kind::Sibling)?;
        let group = main.group.clone();
        Ok(self.push(&group, Kind::Sibling, agent, parent, driven))
    }

    /// The first lane of a child's path; the lanes of the path are begun where they are missing.
    fn main_of(&mut self, child: &[String]) -> Result<Arc<Lane>, NoSeat> {
        let mut main = self.main("").ok_or(NoSeat::NoChild)?;
        let mut group = String::new();
        for name in child {
            if !group.is_empty() {
                group.push('/');
            }
            group.push_str(name);
            main = match self.main(&group) {
                Some(known) => known,
                None => {
                    let above = main.state().driven.clone();
                    let driven = self.begin_child(&above, name, Kind::Named)?;
                    self.push(&group, Kind::Named, name.clone(), main, driven)
                }
            };
        }
        Ok(main)
    }

    fn main(&self, group: &str) -> Option<Arc<Lane>> {
        self.all.iter().find(|lane| lane.is_main && lane.group == group).cloned()
    }
}
