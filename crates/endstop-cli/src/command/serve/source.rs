//! Answers of the control API about the budgets and the history of the user of `endstop serve`. A separate file because the
//! gateway only knows runs.

use endstop_gateway::ControlSource;
use endstop_gateway::control_source::{
    BudgetList, CorrectedBudgets, CorrectionRequest, SourceError, SpendQuery, SpendReport,
};

use crate::budgets::OpenBudgets;
use crate::command::budget::state::{self, PlannedCorrection};
use crate::command::spend::recorded;

/// The budgets that the runs of this process draw on, and the history.
#[derive(Debug)]
pub(super) struct ServeSource {
    budgets: OpenBudgets,
}

impl ServeSource {
    pub(super) const fn new(budgets: OpenBudgets) -> Self {
        Self { budgets }
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
}
