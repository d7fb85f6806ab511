//! Questions of the control API about budgets over time, spend and past kills, which the program of the gateway answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use endstop_gateway::control_source::{
    BudgetAmount, BudgetCorrection, BudgetList, BudgetReport, CorrectedAmounts, CorrectedBudgets,
    CorrectionRequest, KillList, KillRecord, LimitReport, SourceError, SourceErrorKind, SpendQuery,
    SpendReport, SpendRow, SpendTotals,
};
use endstop_gateway::{Control, ControlSource, Gateway};

use crate::fake::{Fake, json};
use crate::file::golden;
use crate::golden::Log;
use crate::kit::*;
use crate::runs::{TOKEN, ask};

const POLICY: &str = "[stop]\nlimit = \"steps >= 9\"\n";
const BUDGETS: &str = "/endstop/v1/budgets";
const SPEND: &str = "/endstop/v1/spend";
const KILLS: &str = "/endstop/v1/kills";

/// One budget, one call in the history, and one kill.
#[derive(Debug, Default)]
struct Fixed {
    corrections: Mutex<Vec<BudgetCorrection>>,
}

impl Fixed {
    fn report(&self) -> BudgetReport {
        let usd = |amount: &str| BudgetAmount::Usd(amount.to_owned());
        let dollars = LimitReport {
            limit: "$5.00 per day".to_owned(),
            unit: "usd".to_owned(),
            amount: usd("5"),
            spent: usd("1.5"),
            unconfirmed: usd("0"),
            held: usd("0.25"),
            left: usd("3.25"),
            resets_at_ms: Some(1_767_312_000_000),
            resets_at: Some("2026-01-02 00:00 UTC".to_owned()),
        };
        let steps = LimitReport {
            limit: "50 steps".to_owned(),
            unit: "steps".to_owned(),
            amount: BudgetAmount::Count(50),
            spent: BudgetAmount::Count(3),
            unconfirmed: BudgetAmount::Count(0),
            held: BudgetAmount::Count(1),
            left: BudgetAmount::Count(46),
            resets_at_ms: None,
            resets_at: None,
        };
        BudgetReport {
            name: "me".to_owned(),
            parents: vec!["org".to_owned()],
            limits: vec![dollars, steps],
            adjustments: self.corrections.lock().unwrap().clone(),
            clock_behind_s: 0,
        }
    }
}

impl ControlSource for Fixed {
    fn budgets(&self, name: Option<&str>) -> Result<BudgetList, SourceError> {
        match name {
            None | Some("me") => Ok(BudgetList::new(vec![self.report()])),
            Some("away") => Err(SourceError::new(SourceErrorKind::Away, "the store is away")),
            Some("broken") => Err(SourceError::new(SourceErrorKind::Failed, "the disk is full")),
            Some(name) => {
                let error = format!("no budget `{name}`");
                let error = SourceError::new(SourceErrorKind::Unknown, error);
                Err(error.with_hint("budgets: me"))
            }
        }
    }

    fn correct(
        &self,
        name: &str,
        request: &CorrectionRequest,
    ) -> Result<CorrectedBudgets, SourceError> {
        assert_eq!(name, "me");
        let Some(usd) = request.amount.strip_prefix('+') else {
            let error = "$9.00 cannot be taken back: budget me has spent $1.50";
            let error = SourceError::new(SourceErrorKind::Refused, error);
            return Err(error.with_hint("take back at most $1.50"));
        };
        let amounts = |usd: &str| CorrectedAmounts { usd: usd.to_owned(), tokens: 0, steps: 0 };
        self.corrections.lock().unwrap().push(BudgetCorrection {
            at_ms: 1_767_225_600_000,
            at: Some("2026-01-01 00:00 UTC".to_owned()),
            spent: amounts(usd),
            returned: amounts("0"),
            who: request.by.clone().unwrap(),
            why: request.message.clone(),
        });
        let notes = vec!["a note".to_owned()];
        Ok(CorrectedBudgets::new(vec![self.report()], notes))
    }

    fn spend(&self, query: &SpendQuery) -> Result<SpendReport, SourceError> {
        let totals = SpendTotals {
            calls: 1,
            input_tokens: 10,
            cached_tokens: 4,
            output_tokens: 2,
            tokens: 12,
            cost_usd: "0.0001".to_owned(),
            unpriced_calls: 0,
        };
        let row = SpendRow { totals: totals.clone(), ..SpendRow::default() };
        let row = match query.by.as_deref() {
            None => SpendRow { day: Some("2026-01-01".to_owned()), ..row },
            Some("model") => SpendRow { model: Some("gpt-4o-mini".to_owned()), ..row },
            Some(other) => {
                let error = format!("`{other}` is not a value of `by`");
                return Err(SourceError::new(SourceErrorKind::Unusable, error));
            }
        };
        Ok(SpendReport {
            version: 1,
            source: "history".to_owned(),
            by: query.by.clone().unwrap_or_else(|| "day".to_owned()),
            rows: vec![row],
            total: totals,
            runs: 1,
            duplicates: 0,
            unpriced_models: BTreeMap::from([("house-model".to_owned(), 2)]),
            unconfirmed_calls: 0,
            unconfirmed_usd: "0".to_owned(),
            calls_in_several_rows: 0,
        })
    }

    fn kills(&self) -> Result<KillList, SourceError> {
        let text = |text: &str| Some(text.to_owned());
        Ok(KillList::new(vec![KillRecord {
            target: "key".to_owned(),
            name: text("alice"),
            at: text("2026-01-01T00:00:00Z"),
            by: text("ann"),
            why: None,
            store: text("redis://HOST:6379"),
        }]))
    }
}

async fn gateway_with(source: Option<Arc<dyn ControlSource>>) -> (Gateway, Fake) {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let mut config = config(POLICY, upstream.addr);
    config.control = Control { source, ..controlled() };
    (Gateway::start(config).await.unwrap(), upstream)
}

#[tokio::test]
async fn control_api_of_budgets() {
    let (gateway, _upstream) = gateway_with(Some(Arc::new(Fixed::default()))).await;
    let mut log = Log { gateway: &gateway, text: String::new() };
    let adjust = format!("{BUDGETS}/me/adjust");
    for path in [BUDGETS, SPEND] {
        log.ask_as("", "GET", path, "").await;
    }
    log.ask_as("", "POST", &adjust, "{\"amount\":\"+1\",\"message\":\"a test\"}").await;
    log.ask("GET", BUDGETS, "").await;
    for name in ["me", "you", "away", "broken"] {
        log.ask("GET", &format!("{BUDGETS}/{name}"), "").await;
    }
    log.ask("DELETE", BUDGETS, "").await;
    log.ask("GET", &adjust, "").await;
    log.ask("POST", &adjust, "").await;
    log.ask("POST", &adjust, "{\"amount\":\"+1\"}").await;
    log.ask("POST", &adjust, "{\"amount\":\"+1.50\",\"message\":\"elsewhere\",\"by\":\"ann\"}")
        .await;
    log.ask("POST", &adjust, "{\"amount\":\"-9\",\"message\":\"refund\"}").await;
    log.ask("GET", SPEND, "").await;
    for query in ["by=model&since=7d", "by=hour", "until=7d"] {
        log.ask("GET", &format!("{SPEND}?{query}"), "").await;
    }
    log.ask("POST", SPEND, "").await;
    log.ask_as("", "GET", KILLS, "").await;
    log.ask("GET", KILLS, "").await;
    log.ask("POST", KILLS, "").await;
    golden("control-api-budgets.txt", &log.text, &[]);
}

#[tokio::test]
async fn a_gateway_of_a_program_without_answers_says_so() {
    let (gateway, _upstream) = gateway_with(None).await;
    let body = "{\"amount\":\"+1\",\"message\":\"a test\"}";
    for (method, path, body) in [
        ("GET", BUDGETS, ""),
        ("GET", "/endstop/v1/budgets/me", ""),
        ("POST", "/endstop/v1/budgets/me/adjust", body),
        ("GET", SPEND, ""),
        ("GET", KILLS, ""),
    ] {
        let got = ask(&gateway, method, path, TOKEN, body).await;
        assert_eq!(got.status, 404, "{path}: {got:?}");
        assert!(got.json()["hint"].as_str().unwrap().contains("endstop serve"), "{got:?}");
    }
}

#[tokio::test]
async fn a_correction_without_a_name_is_made_by_the_control_api() {
    let source = Arc::new(Fixed::default());
    let (gateway, _upstream) = gateway_with(Some(Arc::<Fixed>::clone(&source))).await;
    let body = "{\"amount\":\"+1\",\"message\":\"a test\"}";
    let got = ask(&gateway, "POST", &format!("{BUDGETS}/me/adjust"), TOKEN, body).await;
    assert_eq!(got.status, 200, "{got:?}");
    let made = source.corrections.lock().unwrap();
    assert_eq!((made[0].who.as_str(), made[0].why.as_str()), ("the control API", "a test"));
}
