//! Answers of the control API about the budgets, the history and the past kills of the user of `endstop serve`. A separate
//! file because the gateway only knows runs.

use endstop::account::RedisBudgetStore;
use endstop_gateway::ControlSource;
use endstop_gateway::control_source::{
    BudgetList, CorrectedBudgets, CorrectionRequest, KillList, SourceError, SpendQuery, SpendReport,
};

use crate::budgets::OpenBudgets;
use crate::command::budget::state::{self, PlannedCorrection};
use crate::command::spend::recorded;
use crate::kills;

/// The budgets that the runs of this process draw on, the history, and the kills.
#[derive(Debug)]
pub(super) struct ServeSource {
    budgets: OpenBudgets,
    /// The store that is shared with other machines.
    shared: Option<RedisBudgetStore>,
}

impl ServeSource {
    pub(super) const fn new(budgets: OpenBudgets, shared: Option<RedisBudgetStore>) -> Self {
        Self { budgets, shared }
    }
}

impl ControlSource for ServeSource {
    fn budgets(&self, name: Option<&str>) -> Result<BudgetList, SourceError> {
        let set = self.budgets.tables();
        let accounts = state::named(&set, name)?;
        if accounts.is_empty() {
            return Ok(BudgetList::new(Vec::new()));
        }
        state::list(&set, &accounts, self.budgets.store())
    }

    fn correct(
        &self,
        name: &str,
        request: &CorrectionRequest,
    ) -> Result<CorrectedBudgets, SourceError> {
        let set = self.budgets.tables();
        PlannedCorrection::read(&set, name, request)?.apply(&set, self.budgets.store())
    }

    fn spend(&self, query: &SpendQuery) -> Result<SpendReport, SourceError> {
        recorded::answer(query)
    }

    fn kills(&self) -> Result<KillList, SourceError> {
        kills::recorded(self.shared.as_ref())
    }
}
