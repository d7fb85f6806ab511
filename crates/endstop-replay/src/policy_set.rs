//! All policies of a replay, and how they follow a run: over one meter if they can share it, otherwise each
//! separately.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use endstop_core::policy::PolicyError;
use endstop_core::probe::Probes;
use endstop_core::run::watch::{Watch, Watched, can_watch};
use endstop_core::units::Money;
use endstop_core::{Event, Policy};

use super::counterfactual::{Counterfactual, StopPoint};
use super::needs::{Programs, Testable};
use endstop_transcript::{Format, Wants};

/// The policies of a replay.
#[derive(Debug)]
pub(super) struct PolicySet {
    programs: Vec<Programs>,
    plans: Mutex<BTreeMap<&'static str, Arc<Plan>>>,
}

/// The policies as they can be tested on the runs of one format.
#[derive(Debug, Default)]
pub(super) struct Plan {
    testable: Vec<Arc<Testable>>,
    /// Policies that are watched together, by index.
    shared: Vec<(Arc<Watched>, Vec<usize>)>,
    /// The others.
    individual: Vec<usize>,
    /// The data that the policies read.
    wants: Wants,
}

impl PolicySet {
    pub(super) fn new<'p>(
        policies: impl IntoIterator<Item = &'p Policy>,
    ) -> Result<Self, PolicyError> {
        let probes = Probes::new();
        let programs = policies.into_iter().map(|policy| Programs::new(policy, &probes));
        Ok(Self { programs: programs.collect::<Result<_, _>>()?, plans: Mutex::default() })
    }

    /// Whether each policy can be tested as a whole on the runs of a format.
    pub(super) fn testable(&self, format: &Format) -> Vec<bool> {
        self.plan(format).testable.iter().map(|one| one.left_out.is_empty()).collect()
    }

    /// The plan for runs of a format.
    pub(super) fn plan(&self, format: &Format) -> Arc<Plan> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(plans.entry(format.id()).or_insert_with(|| Arc::new(self.make(format))))
    }

    fn make(&self, format: &Format) -> Plan {
        let testable: Vec<_> = self.programs.iter().map(|one| one.testable(format)).collect();
        let mut plan = Plan::default();
        // Policies that read missing prices alike can be watched together.
        let mut groups: Vec<Vec<(usize, &Policy)>> = Vec::new();
        for (index, one) in testable.iter().enumerate() {
            let policy = one.program.policy();
            let is_alike = |group: &&mut Vec<(usize, &Policy)>| {
                group.first().is_some_and(|(_, first)| first.unpriced() == policy.unpriced())
            };
            if !can_watch(policy) {
                plan.individual.push(index);
            } else if let Some(group) = groups.iter_mut().find(is_alike) {
                group.push((index, policy));
            } else {
                groups.push(vec![(index, policy)]);
            }
        }
        for group in groups {
            let (indices, policies): (Vec<usize>, Vec<&Policy>) = group.into_iter().unzip();
            match Watched::new(&policies, &Probes::new()) {
                Ok(watched) if indices.len() > 1 => plan.shared.push((Arc::new(watched), indices)),
                // One policy alone, or too many names for one program.
                _ => plan.individual.extend(indices),
            }
        }
        let programs = || testable.iter().map(|testable| &testable.program);
        plan.wants = Wants {
            words: programs().any(|program| program.needs_text()),
            results: programs().any(|program| program.needs_results()),
        };
        plan.testable = testable;
        plan
    }
}

impl Plan {
    /// The data that the policies read, as long as they follow a run.
    pub(super) const fn wants(&self) -> Wants {
        self.wants
    }

    /// Every policy separately.
    pub(super) fn individual(&self) -> Self {
        Self {
            testable: self.testable.clone(),
            shared: Vec::new(),
            individual: (0..self.testable.len()).collect(),
            wants: self.wants,
        }
    }
}

/// Policies that follow one run.
pub(super) struct Counterfactuals {
    shared: Vec<SharedMeter>,
    individual: Vec<(usize, Counterfactual)>,
    policies: usize,
}

struct SharedMeter {
    watch: Watch,
    indices: Vec<usize>,
    cuts: Vec<Option<StopPoint>>,
    /// Policies that have stopped a run of which nothing was cut yet.
    pending: Vec<usize>,
    /// Whether something was taken that did not begin when it was recorded, as if it had begun.
    has_refused: bool,
    is_exact: bool,
}

impl Counterfactuals {
    /// Follows a run that is about to begin.
    pub(super) fn new(plan: &Plan) -> Self {
        let shared = plan.shared.iter().map(|(watched, indices)| SharedMeter {
            watch: Watch::new(Arc::clone(watched)),
            indices: indices.clone(),
            cuts: vec![None; indices.len()],
            pending: Vec::new(),
            has_refused: false,
            is_exact: true,
        });
        let follow = |index: &usize| {
            let testable = plan.testable.get(*index)?;
            Some((*index, Counterfactual::new(testable)))
        };
        Self {
            shared: shared.collect(),
            individual: plan.individual.iter().filter_map(follow).collect(),
            policies: plan.testable.len(),
        }
    }

    /// Takes the next event. `known` is the run's spend so far, in calls with a known price.
    pub(super) fn take(&mut self, event: &Event<'_>, known: Money) {
        for shared in &mut self.shared {
            shared.take(event, known);
        }
        for (_, counterfactual) in &mut self.individual {
            counterfactual.take(event, known);
        }
    }

    /// Takes what did not begin when it was recorded.
    pub(super) fn take_refused(&mut self, event: &Event<'_>, known: Money) {
        for shared in &mut self.shared {
            shared.take(event, known);
            shared.has_refused = true;
        }
        for (_, counterfactual) in &mut self.individual {
            counterfactual.take_refused(event, known);
        }
    }

    /// Whether every policy has stopped the run: from here on, none reads more than the acts that would begin.
    pub(super) fn has_stopped(&self) -> bool {
        self.individual.iter().all(|(_, counterfactual)| counterfactual.has_stopped())
            && self.shared.iter().all(|shared| shared.watch.left() == 0)
    }

    /// Whether the policies that were watched together did what each would have done alone.
    pub(super) fn is_exact(&self) -> bool {
        self.shared.iter().all(|shared| shared.watch.is_exact() && shared.is_exact)
    }

    /// Each policy's cut, once the run is over.
    pub(super) fn cuts(&self) -> Vec<Option<StopPoint>> {
        let mut cuts = vec![None; self.policies];
        let shared = self.shared.iter().flat_map(SharedMeter::cuts);
        let individual =
            self.individual.iter().map(|(index, counterfactual)| (*index, counterfactual.cut()));
        for (index, cut) in shared.chain(individual) {
            if let Some(place) = cuts.get_mut(index) {
                *place = cut;
            }
        }
        cuts
    }

    /// The counterfactual of the only policy.
    pub(super) fn into_only(self) -> Option<Counterfactual> {
        self.individual.into_iter().next().map(|(_, counterfactual)| counterfactual)
    }
}

impl SharedMeter {
    fn take(&mut self, event: &Event<'_>, known: Money) {
        // It was counted, which shows in what comes after.
        let counts = self.has_refused && event.kind.is_intention() && self.watch.left() > 0;
        self.is_exact &= !counts;
        if let Some(trip) = self.watch.observe(event) {
            let spent = trip.cost.unwrap_or(known);
            let cut = StopPoint { step: trip.steps, tokens: trip.tokens, spent };
            for policy in trip.policies {
                if let Some(place) = self.cuts.get_mut(*policy) {
                    *place = Some(cut);
                    self.pending.push(*policy);
                }
            }
        }
        // The first thing that would have begun after a stop, or at it, is what the stop cuts.
        if event.kind.is_intention() {
            self.pending.clear();
        }
    }

    fn cuts(&self) -> impl Iterator<Item = (usize, Option<StopPoint>)> + '_ {
        let all = self.indices.iter().zip(&self.cuts).enumerate();
        all.map(|(place, (index, cut))| (*index, cut.filter(|_| !self.pending.contains(&place))))
    }
}
