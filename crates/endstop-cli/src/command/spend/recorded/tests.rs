//! Tests of the spend of the history.

use endstop::core::units::Money;
use jiff::tz::TimeZone;

use super::*;

#[test]
fn the_table_of_a_report_is_that_of_its_bill() {
    for by in [By::Day, By::Model, By::Project, By::Run, By::Budget, By::Key] {
        let selection = Selection { by, since: None, timezone: TimeZone::UTC };
        let mut summary = SpendSummary::default();
        for (at, model, cost) in [(1, Some("a"), 7), (2, Some("b"), 5), (3, None, 3)] {
            let call = RecordedCall {
                run: format!("run-{at}"),
                directory: "/work".to_owned(),
                at: WallTime(at * 86_400_000),
                model: model.map(str::to_owned),
                input: 10 * at,
                cached: at,
                output: 2,
                cost: Money::from_picos(cost),
                unconfirmed: Money::from_picos(cost - 3),
                is_priced: model.is_some(),
                budgets: vec!["me".to_owned(), format!("team-{at}")],
                ..RecordedCall::default()
            };
            summary.add_recorded(&call, selection.rows(&call));
        }
        let report = to_report(by, &summary);
        let read = summary_of(by, &report).unwrap();
        assert_eq!((&read.rows, &read.total), (&summary.rows, &summary.total), "{by:?}");
        assert_eq!((read.runs, read.in_many_rows), (summary.runs, summary.in_many_rows), "{by:?}");
        assert_eq!((&read.unpriced, read.unconfirmed), (&summary.unpriced, summary.unconfirmed));
        assert_eq!(to_report(by, &read), report, "{by:?}");
    }
}
