//! The behavior of every store.

use std::time::Duration;

use endstop_core::units::{Money, WallTime};
use endstop_runtime::account::{Adjustment, BudgetStore, BudgetStoreError, OnFull, PastAdjustment};
use endstop_runtime::ledger::{Amounts, Dimension};

use super::stores::*;

/// Runs a test on all stores, each with a separate clock that starts at a quarter past 10 in the morning.
fn on_all(test: impl Fn(&Pair, &Clock)) {
    let clock = Clock::at(0);
    for pair in Pair::all(&clock) {
        clock.set(MIDNIGHT + 10 * HOUR + HOUR / 4);
        test(&pair, &clock);
    }
}

#[test]
fn a_limit_is_shared_by_all_handles() {
    on_all(|pair, _| {
        let [one, other] = &pair.handles;
        let me = account("me", &["$1 per day"]);
        one.reserve(&[&me], cents(60), &terms("a")).unwrap();
        let refusal = refused(other.reserve(&[&me], cents(60), &terms("b")));
        assert!(refusal.is_only_held() && refusal.left() == 400_000_000_000, "{}", pair.name);
        one.settle("a", cents(35)).unwrap();
        other.reserve(&[&me], cents(65), &terms("b")).unwrap();
        assert_eq!(committed(&**one, &me), (35, 65));
    });
}

#[test]
fn a_refusal_says_account_window_rest_and_reset() {
    on_all(|pair, _| {
        let store = &pair.handles[0];
        let team = account("team-a", &["$5 per day"]);
        store.reserve(&[&team], cents(488), &terms("a")).unwrap();
        store.settle("a", cents(488)).unwrap();
        let refusal = refused(store.reserve(&[&team], cents(30), &terms("b")));
        assert_eq!(
            refusal.to_string(),
            "budget team-a has used $4.88 of $5.00 per day, and this call could cost $0.30; resets in \
             13h 45m, at 2026-11-26 00:00 UTC"
        );
        assert_eq!(refusal.on_full, OnFull::Refuse);
        let never = refused(store.reserve(&[&team], cents(501), &terms("c")));
        assert!(!never.fits_after_reset() && !never.is_only_held());
    });
}

#[test]
fn every_operation_counts_once() {
    on_all(|pair, _| {
        let [one, other] = &pair.handles;
        let me = account("me", &["$1 per day"]);
        for store in [one, other, one] {
            store.reserve(&[&me], cents(60), &terms("a")).unwrap();
        }
        assert_eq!(committed(&**one, &me), (0, 60));
        for store in [one, other, one] {
            store.settle("a", cents(10)).unwrap();
        }
        assert_eq!(committed(&**one, &me), (10, 0));
        let again = one.reserve(&[&me], cents(1), &terms("a"));
        assert!(matches!(again, Err(BudgetStoreError::Ended(_))), "{}: {again:?}", pair.name);
        assert!(matches!(one.settle("x", cents(1)), Err(BudgetStoreError::UnknownHold(_))));
        assert!(matches!(one.reserve(&[&me], cents(1), &terms("")), Err(BudgetStoreError::Id(0))));
    });
}

#[test]
fn all_accounts_or_none() {
    on_all(|pair, _| {
        let store = &pair.handles[0];
        let org = account("org", &["$1 per month"]);
        let mut team = account("team", &["$5 per day"]);
        team.parent = Some("org".to_owned());
        let refusal = refused(store.reserve(&[&org, &team], cents(101), &terms("a")));
        assert_eq!(refusal.account, "org");
        assert_eq!(committed(&**store, &team), (0, 0));
        store.reserve(&[&org, &team], cents(100), &terms("a")).unwrap();
        assert_eq!((committed(&**store, &org), committed(&**store, &team)), ((0, 100), (0, 100)));
        // Of several that refuse, the outermost says so.
        let refusal = refused(store.reserve(&[&team, &org], cents(600), &terms("b")));
        assert_eq!(refusal.account, "org", "{}", pair.name);
    });
}

#[test]
fn an_expired_hold_is_charged_and_a_late_settlement_corrects_it() {
    on_all(|pair, clock| {
        let [one, other] = &pair.handles;
        let me = account("me", &["$1 per day"]);
        one.reserve(&[&me], cents(60), &terms("a")).unwrap();
        clock.set(clock.now() + 61_000);
        // It is shown as spent at once, and any operation of any process expires it.
        for store in [one, other] {
            assert_eq!(committed(&**store, &me), (60, 0), "{}", pair.name);
            assert_eq!(first(&**store, &me).unconfirmed, 600_000_000_000);
        }
        other.reserve(&[&me], cents(10), &terms("b")).unwrap();
        assert_eq!(committed(&**one, &me), (60, 10));
        assert_eq!(first(&**one, &me).unconfirmed, 600_000_000_000);
        let late = one.grow(&[&me], "a", Amounts::ZERO, TTL);
        assert!(matches!(late, Err(BudgetStoreError::Ended(_))), "{}: {late:?}", pair.name);
        for _ in 0..2 {
            one.settle("a", cents(20)).unwrap();
        }
        assert_eq!(committed(&**one, &me), (20, 10));
        assert_eq!(first(&**one, &me).unconfirmed, 0);
    });
}

#[test]
fn a_heartbeat_keeps_a_hold_and_growth_is_checked() {
    on_all(|pair, clock| {
        let store = &pair.handles[0];
        let me = account("me", &["$1 per day", "$0.70 per rolling 5h"]);
        store.reserve(&[&me], cents(60), &terms("a")).unwrap();
        for _ in 0..5 {
            clock.set(clock.now() + 50_000);
            store.grow(&[&me], "a", Amounts::ZERO, TTL).unwrap();
        }
        assert_eq!(committed(&**store, &me), (0, 60));
        let refusal = refused(store.grow(&[&me], "a", cents(11), TTL));
        assert_eq!(refusal.limit.to_string(), "$0.70 per rolling 5h", "{}", pair.name);
        store.grow(&[&me], "a", cents(10), TTL).unwrap();
        assert_eq!(committed(&**store, &me), (0, 70));
    });
}

#[test]
fn a_window_resets_and_late_settlements_go_to_their_own() {
    on_all(|pair, clock| {
        let store = &pair.handles[0];
        let me = account("me", &["$1 per day"]);
        clock.set(MIDNIGHT + 24 * HOUR - 1_000);
        store.reserve(&[&me], cents(100), &terms("a")).unwrap();
        assert_eq!(first(&**store, &me).resets_text.unwrap(), "2026-11-26 00:00 UTC");
        clock.set(MIDNIGHT + 24 * HOUR);
        store.reserve(&[&me], cents(100), &terms("b")).unwrap();
        store.settle("a", cents(500)).unwrap();
        assert_eq!(committed(&**store, &me), (0, 100), "{}", pair.name);
    });
}

#[test]
fn no_window_opens_again_when_the_clock_is_set_back() {
    on_all(|pair, clock| {
        let store = &pair.handles[0];
        let me = account("me", &["$1 per day"]);
        store.reserve(&[&me], cents(100), &terms("a")).unwrap();
        store.settle("a", cents(100)).unwrap();
        // A jump of ten days opens one window; back again, it stays.
        clock.set(MIDNIGHT + 240 * HOUR);
        store.reserve(&[&me], cents(100), &terms("b")).unwrap();
        store.settle("b", cents(100)).unwrap();
        for days in [0, 1, 5, 10] {
            clock.set(MIDNIGHT + days * 24 * HOUR);
            refused(store.reserve(&[&me], cents(1), &terms("c")));
        }
        clock.set(MIDNIGHT);
        let behind = store.read(&[&me]).unwrap()[0].clock_behind;
        assert_eq!(behind, Duration::from_secs(240 * 3_600), "{}", pair.name);
        clock.set(MIDNIGHT + 11 * 24 * HOUR);
        store.reserve(&[&me], cents(1), &terms("c")).unwrap();
    });
}

#[test]
fn an_actual_amount_above_the_hold_counts_in_full() {
    on_all(|pair, _| {
        let store = &pair.handles[0];
        let me = account("me", &["$1 per day", "100 tokens", "2 steps"]);
        store.reserve(&[&me], cents(10), &terms("a")).unwrap();
        store.settle("a", cents(250)).unwrap();
        assert_eq!(committed(&**store, &me), (250, 0));
        // Of what is overspent nothing more is admitted; what asks for none of it is.
        let step = Amounts { steps: 1, ..Amounts::ZERO };
        let least = Amounts { cost: Money::from_picos(1), ..step };
        refused(store.reserve(&[&me], least, &terms("b")));
        store.reserve(&[&me], step, &terms("b")).unwrap();
        store.settle("a", Amounts::ZERO).unwrap();
        let most = Amounts { cost: Money::from_picos(u64::MAX), tokens: u64::MAX, ..Amounts::ZERO };
        let you = account("you", &["100 tokens"]);
        store.reserve(&[&you], cents(1), &terms("c")).unwrap();
        store.settle("c", most).unwrap();
        assert!(first(&**store, &you).settled > 1 << 60, "{}", pair.name);
        refused(store.reserve(&[&you], Amounts { tokens: u64::MAX, ..Amounts::ZERO }, &terms("d")));
    });
}

#[test]
fn counts_admit_exactly_their_limit() {
    on_all(|pair, _| {
        let store = &pair.handles[0];
        let me = account("me", &["3 steps per day"]);
        let step = Amounts { steps: 1, ..Amounts::ZERO };
        for id in ["a", "b", "c"] {
            store.reserve(&[&me], step, &terms(id)).unwrap();
            store.settle(id, step).unwrap();
        }
        let refusal = refused(store.reserve(&[&me], step, &terms("d")));
        assert_eq!(refusal.left(), 0, "{}", pair.name);
        let none = account("none", &["0 steps"]);
        refused(store.reserve(&[&none], step, &terms("e")));
    });
}

#[test]
fn a_correction_counts_once() {
    on_all(|pair, _| {
        let store = &pair.handles[0];
        let me = account("me", &["$1 per day", "$9"]);
        let adjust = |id, spent, returned| {
            let (account, parents, who, why) = (&me, &[], "ann", "test");
            store.adjust(&Adjustment { id, account, parents, spent, returned, who, why }).unwrap();
        };
        adjust("1", cents(80), Amounts::ZERO);
        adjust("1", cents(80), Amounts::ZERO);
        assert_eq!(committed(&**store, &me), (80, 0));
        adjust("2", Amounts::ZERO, cents(30));
        assert_eq!(committed(&**store, &me), (50, 0), "{}", pair.name);
        // A repetition succeeds although so much is no longer there to take back.
        adjust("3", Amounts::ZERO, cents(50));
        adjust("3", Amounts::ZERO, cents(50));
        assert_eq!(committed(&**store, &me), (0, 0), "{}", pair.name);
    });
}

#[test]
fn no_return_takes_back_the_spend_of_others_from_an_account_above() {
    on_all(|pair, clock| {
        let [one, other] = &pair.handles;
        let org = account("org", &["$9 per month"]);
        let mut me = account("me", &["$1 per day", "$5 per month"]);
        me.parent = Some("org".to_owned());
        one.reserve(&[&org], cents(400), &terms("others")).unwrap();
        one.settle("others", cents(400)).unwrap();
        one.reserve(&[&org, &me], cents(60), &terms("own")).unwrap();
        one.settle("own", cents(60)).unwrap();
        let give_back = |store: &dyn BudgetStore, id, returned| {
            let (account, parents, who, why) = (&me, &[&org], "ann", "refunded");
            let spent = Amounts::ZERO;
            store.adjust(&Adjustment { id, account, parents, spent, returned, who, why })
        };
        // Each of two processes has read that so much can be taken back.
        give_back(&**one, "1", cents(40)).unwrap();
        let refused = give_back(&**other, "2", cents(40)).unwrap_err();
        let BudgetStoreError::NotSpent { account, dimension, asked, most } = refused else {
            panic!("{}: {refused}", pair.name)
        };
        assert_eq!((account.as_str(), dimension), ("me", Dimension::Cost), "{}", pair.name);
        let cent = cents(1).cost.picos();
        assert_eq!((asked, most), (40 * cent, 20 * cent), "{}", pair.name);
        let all = || [&me, &org].map(|account| committed(&**one, account).0);
        assert_eq!(all(), [20, 420], "{}", pair.name);
        assert_eq!(one.adjustments("me", 10).unwrap().len(), 1, "{}", pair.name);
        // The window that has spent most counts; one that has less falls to nothing.
        clock.set(clock.now() + 24 * HOUR);
        give_back(&**one, "3", cents(20)).unwrap();
        assert_eq!(all(), [0, 400], "{}", pair.name);
        // A unit that it does not limit is not known.
        give_back(&**one, "4", Amounts { steps: 9, ..Amounts::ZERO }).unwrap();
        // An amount that is refused can be taken back later with the same id.
        one.reserve(&[&org, &me], cents(50), &terms("more")).unwrap();
        one.settle("more", cents(50)).unwrap();
        give_back(&**other, "2", cents(40)).unwrap();
        assert_eq!(all(), [10, 410], "{}", pair.name);
    });
}

#[test]
fn a_correction_counts_in_all_accounts_above() {
    on_all(|pair, clock| {
        let [one, other] = &pair.handles;
        let org = account("org", &["$9 per month", "100 steps"]);
        let mut team = account("team", &["$5 per day"]);
        team.parent = Some("org".to_owned());
        let mut me = account("me", &["$1 per rolling 5h", "1000 tokens", "$9"]);
        me.parent = Some("team".to_owned());
        let adjust = |id, spent, returned| {
            let (account, parents, who, why) = (&me, &[&team, &org], "ann", "test");
            one.adjust(&Adjustment { id, account, parents, spent, returned, who, why }).unwrap();
        };
        let spent = Amounts { steps: 3, tokens: 700, ..cents(80) };
        adjust("1", spent, Amounts::ZERO);
        adjust("1", spent, Amounts::ZERO);
        for account in [&me, &team, &org] {
            assert_eq!(committed(&**other, account), (80, 0), "{}: {}", pair.name, account.name);
        }
        let second = |account| other.read(&[account]).unwrap()[0].limits[1].settled;
        assert_eq!((second(&me), second(&org)), (700, 3), "{}", pair.name);
        // Yesterday's part is no longer in the day of the team, and still in the month above it.
        clock.set(clock.now() + 24 * HOUR);
        adjust("2", Amounts::ZERO, Amounts { steps: 1, tokens: 200, ..cents(30) });
        let all = [&me, &team, &org].map(|account| committed(&**other, account).0);
        assert_eq!(all, [0, 0, 50], "{}", pair.name);
        assert_eq!((second(&me), second(&org)), (500, 2), "{}", pair.name);
        // It is noted where it was made.
        let noted = |name| other.adjustments(name, 10).unwrap().len();
        assert_eq!((noted("me"), noted("team"), noted("org")), (2, 0, 0), "{}", pair.name);
        // The account above now refuses more than it has left.
        refused(one.reserve(&[&org], cents(851), &terms("a")));
    });
}

#[test]
fn the_latest_corrections_can_be_read_the_newest_first() {
    on_all(|pair, clock| {
        let [one, other] = &pair.handles;
        let (me, team) = (account("me", &["$9 per day", "9 steps"]), account("team", &["$9"]));
        let adjust = |id: &str, account, spent, returned, why: &str| {
            let (who, parents) = ("ann", &[]);
            one.adjust(&Adjustment { id, account, parents, spent, returned, who, why }).unwrap();
        };
        assert!(other.adjustments("me", 10).unwrap().is_empty());
        adjust("1", &me, cents(80), Amounts::ZERO, "spent elsewhere");
        clock.set(clock.now() + 1_000);
        adjust("1", &me, cents(80), Amounts::ZERO, "a repetition");
        adjust("2", &team, cents(7), Amounts::ZERO, "of another account");
        let step = Amounts { steps: 1, ..Amounts::ZERO };
        adjust("3", &me, step, cents(30), "refunded; \"half\"");
        let past = other.adjustments("me", 10).unwrap();
        let (now, before) = (WallTime(clock.now()), WallTime(clock.now() - 1_000));
        let (who, none) = (|| "ann".to_owned(), Amounts::ZERO);
        let refunded = "refunded; \"half\"".to_owned();
        let elsewhere = "spent elsewhere".to_owned();
        let expected = [
            PastAdjustment { at: now, spent: step, returned: cents(30), who: who(), why: refunded },
            PastAdjustment {
                at: before,
                spent: cents(80),
                returned: none,
                who: who(),
                why: elsewhere,
            },
        ];
        assert_eq!(past, expected, "{}", pair.name);
        assert_eq!(other.adjustments("me", 1).unwrap(), expected[..1]);
        assert!(other.adjustments("me", 0).unwrap().is_empty());
        // Old ones are not read back, however many are wanted.
        for number in 0..110 {
            adjust(&format!("more-{number}"), &me, step, step, &format!("{number}"));
        }
        let past = other.adjustments("me", usize::MAX).unwrap();
        let why: Vec<&str> = past.iter().map(|it| it.why.as_str()).collect();
        assert_eq!((why.len(), why[0], why[99]), (100, "109", "10"), "{}", pair.name);
    });
}

#[test]
fn a_return_takes_back_what_was_spent_earlier_in_a_rolling_window() {
    on_all(|pair, clock| {
        let store = &pair.handles[0];
        let me = account("me", &["$1 per rolling 5h", "5 steps per day"]);
        let adjust = |id, spent, returned| {
            let (account, parents, who, why) = (&me, &[], "ann", "test");
            store.adjust(&Adjustment { id, account, parents, spent, returned, who, why }).unwrap();
        };
        adjust("1", cents(70), Amounts::ZERO);
        clock.set(clock.now() + 3_600_000);
        adjust("2", cents(10), Amounts::ZERO);
        clock.set(clock.now() + 3_600_000);
        adjust("3", Amounts::ZERO, cents(50));
        assert_eq!(committed(&**store, &me), (30, 0), "{}", pair.name);
        // The older part is left.
        clock.set(clock.now() + 3 * 3_600_000 + 600_000);
        assert_eq!(committed(&**store, &me), (0, 0), "{}", pair.name);
    });
}

#[test]
fn another_time_zone_gives_no_second_day() {
    on_all(|pair, _| {
        let store = &pair.handles[0];
        let me = account("me", &["$1 per day"]);
        store.reserve(&[&me], cents(100), &terms("a")).unwrap();
        let mut moved = me.clone();
        moved.zone = jiff::tz::TimeZone::get("Pacific/Auckland").unwrap();
        refused(store.reserve(&[&moved], cents(1), &terms("b")));
        assert_eq!(committed(&**store, &moved), (0, 100), "{}", pair.name);
    });
}

#[test]
fn threads_cannot_pass_a_limit_together() {
    on_all(|pair, _| {
        let me = account("me", &["$1 per day"]);
        let admitted: usize = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|thread| {
                    let (store, me) = (&pair.handles[thread % 2], &me);
                    scope.spawn(move || {
                        let id = |call| format!("{thread}-{call}");
                        let all = (0..20).map(id).filter(|id| {
                            let begun = store.reserve(&[me], cents(3), &terms(id)).is_ok();
                            if begun {
                                store.settle(id, cents(2)).unwrap();
                            }
                            begun
                        });
                        all.count()
                    })
                })
                .collect();
            all.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let (settled, held) = committed(&*pair.handles[0], &me);
        assert_eq!((settled, held), (2 * admitted as u64, 0), "{}", pair.name);
        assert!(settled <= 100 && settled > 90, "{settled}");
    });
}
