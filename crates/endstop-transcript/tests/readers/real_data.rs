//! Recorded runs, if they are present: counts and sums that were found independently.

use std::path::{Path, PathBuf};

use endstop_core::units::Money;
use endstop_price::PriceTable;
use endstop_transcript::{CostIs, Warning, WarningKind, walk};

use crate::sink::Keep;

/// The contents of a directory of recorded runs; `None`, with a message, if there is none.
pub(crate) fn traces(directory: &str) -> Option<Keep> {
    traces_with(directory, PriceTable::embedded())
}

fn traces_with(directory: &str, prices: &PriceTable) -> Option<Keep> {
    let path: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(directory);
    if !path.is_dir() {
        println!("skipped: no recorded runs in ../shared/traces/{directory}");
        return None;
    }
    let found = walk(&[path]).unwrap();
    // Next to the runs are files without runs.
    let is_unknown = |warning: &Warning| warning.kind == WarningKind::UnknownFormat;
    assert!(found.warnings.iter().all(is_unknown), "{:?}", found.warnings);
    let keep = Keep::all(&found.transcripts, prices);
    assert!(keep.faults().is_empty(), "{:?}", keep.faults());
    Some(keep)
}

fn usd(text: &str) -> Money {
    text.parse().unwrap()
}

/// 1,810 assistant messages, 1,761 of them with `usage.cost`; 1,750 have exactly one bash block.
#[test]
fn mini_swe_agent_runs_cost_what_was_billed_and_the_rest_is_computed() {
    let Some(keep) = traces("mini-swe-agent") else { return };
    assert_eq!((keep.runs.len(), keep.steps()), (46, 1_810));
    let micros = keep.cost().picos() / 1_000_000;
    assert_eq!(micros, 19_502_722, "{}", keep.cost());
    assert_eq!(keep.runs.iter().map(|run| run.calls_billed_or_priced).sum::<u64>(), 1_810);
    assert_eq!(keep.runs.iter().map(|run| run.tools).sum::<u64>(), 1_750);
    assert_eq!(keep.runs.iter().map(|run| run.refused).sum::<u64>(), 60);
    assert_eq!(keep.runs.iter().map(|run| run.turns).sum::<u64>(), 46);
    assert!(keep.runs.iter().any(|run| run.id == "astropy__astropy-14309"));
    assert!(keep.runs.iter().all(|run| run.results == run.tools && run.outcome.is_none()));
    let mixed = keep.runs.iter().filter(|run| run.cost_is == Some(CostIs::Computed)).count();
    let billed = keep.runs.iter().filter(|run| run.cost_is == Some(CostIs::Billed)).count();
    assert_eq!(mixed + billed, 46);
    assert!(mixed > 0 && keep.warnings.is_empty(), "{mixed} {:?}", keep.warnings);
}

#[test]
fn without_prices_only_the_bills_are_known() {
    let prices = PriceTable::default();
    let Some(keep) = traces_with("mini-swe-agent", &prices) else { return };
    assert_eq!(keep.cost(), usd("18.8491866"));
    assert_eq!(keep.runs.iter().map(|run| run.calls_billed_or_priced).sum::<u64>(), 1_761);
}

/// Found with: the last line's `message.usage` by (`message.id`, `requestId`) of each file, summed. The main
/// file has 139 messages and its sub-agents' files 12 and 1; per line the sums are about twice that.
#[test]
fn claude_code_messages_are_counted_once() {
    let Some(keep) = traces("claude-code/spotter") else { return };
    let run = |id: &str| keep.runs.iter().find(|run| run.id.starts_with(id)).unwrap();
    assert_eq!(keep.runs.len(), 4);
    let merged = run("4d5611e5");
    assert_eq!((merged.steps, merged.own_steps, merged.children), (139 + 12 + 1, 139, 1));
    assert_eq!(merged.output, 28_755 + 136 + 8);
    let main = 177 + 479_537 + 11_618_567 + 28_755;
    assert_eq!(merged.tokens, main + (53 + 71_257 + 604_156 + 136) + (3 + 8_681 + 164_830 + 8));
    assert_eq!((merged.tools, merged.results, merged.failed_tools), (183, 183, 13));
    // The first prompt, `continue`, and the sub-agent's prompt; neither the summary nor a task's notice.
    assert_eq!(merged.turns, 3);
    assert_eq!((run("55604662").steps, run("491e126e").steps, run("d6e0bada").steps), (1, 12, 4));
    assert!(keep.runs.iter().all(|run| run.cost_is == Some(CostIs::LowerBound)));
    let lower_bound = keep.warnings.iter().filter(|w| w.kind == WarningKind::LowerBound);
    assert_eq!((lower_bound.count(), keep.warnings.len()), (4, 4), "{:?}", keep.warnings);
}

#[test]
fn codex_rollouts_are_read_with_their_faults() {
    let Some(keep) = traces("codex") else { return };
    let run = |id: &str| keep.runs.iter().find(|run| run.id.starts_with(id)).unwrap();
    assert_eq!(keep.runs.len(), 3);
    let fork = run("branch-history");
    assert_eq!((fork.steps, fork.tokens), (2, 2_050));
    assert_eq!(fork.cost_is, Some(CostIs::Computed));
    let malformed = run("66666666");
    assert_eq!((malformed.steps, malformed.turns), (0, 1));
    let plain = run("11111111");
    assert_eq!((plain.steps, plain.tools, plain.results, plain.turns), (4, 3, 3, 1));
    assert_eq!(plain.cost_is, Some(CostIs::Unknown));
    let [warning] = &keep.warnings[..] else { panic!("{:?}", keep.warnings) };
    assert_eq!((warning.kind, warning.line), (WarningKind::Malformed, Some(3)));
}

#[test]
fn tau_bench_runs_have_their_outcomes() {
    let Some(keep) = traces("openai-chat") else { return };
    assert_eq!(keep.runs.len(), 40);
    assert_eq!(keep.runs.iter().filter(|run| run.outcome == Some(true)).count(), 18);
    assert_eq!(keep.runs.iter().filter(|run| run.outcome == Some(false)).count(), 22);
    assert_eq!((keep.steps(), keep.tokens()), (261 + 236, 0));
    assert_eq!(keep.runs.iter().map(|run| run.tools).sum::<u64>(), 236);
    assert_eq!(keep.runs.iter().map(|run| run.results).sum::<u64>(), 236);
    assert_eq!(keep.runs.iter().map(|run| run.turns).sum::<u64>(), 301);
    assert!(keep.runs.iter().all(|run| run.cost_is == Some(CostIs::Unknown)));
    assert!(keep.runs.iter().any(|run| run.id == "0/0"));
    assert!(keep.warnings.is_empty(), "{:?}", keep.warnings);
}

#[test]
fn records_of_one_line_are_read() {
    let Some(keep) = traces("agentcmd") else { return };
    assert!(keep.steps() > 0);
    assert!(keep.warnings.iter().all(|w| w.kind == WarningKind::LowerBound), "{:?}", keep.warnings);
}

#[test]
fn a_directory_of_prices_holds_no_runs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/prices");
    if !path.is_dir() {
        println!("skipped: no prices in ../shared/traces");
        return;
    }
    let error = walk(&[path]).unwrap_err();
    let kinds: Vec<WarningKind> = error.warnings.iter().map(|warning| warning.kind).collect();
    assert_eq!(kinds, [WarningKind::NoRuns, WarningKind::UnknownFormat], "{error}");
}
