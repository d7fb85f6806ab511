//! Generated policies and runs, and every small boolean tree, through both evaluators.

use proptest::prelude::*;

use crate::compare::check;
use crate::generate::adversarial::{chaos, damaged};
use crate::generate::rules::rules;
use crate::generate::stream::stream;
use crate::naive::Action;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn well_behaved_runs(rules in rules(), events in stream()) {
        check(&rules, &events)?;
    }

    #[test]
    fn damaged_runs(rules in rules(), events in damaged()) {
        check(&rules, &events)?;
    }

    #[test]
    fn runs_in_no_order(rules in rules(), events in chaos()) {
        check(&rules, &events)?;
    }

    /// Nothing stops such a run, so all of it is compared.
    #[test]
    fn whole_runs(mut rules in rules(), events in stream()) {
        rules.iter_mut().for_each(|rule| rule.action = Action::Warn);
        check(&rules, &events)?;
    }
}
