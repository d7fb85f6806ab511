//! Many processes of one user on one machine that share one budget in SQLite.
//!
//! A separate file because each row of the table has one.

use std::fs;
use std::process::Child;

use serde_json::Value;

use super::place::{Home, Place, Prices, Sim, dollars, failed, picos};
use super::{Found, Row};

const PROCESSES: usize = 16;
/// The calls that each process wants.
const CALLS: &str = "125";
/// Iterations of the demo's agent, which are more than the budget has.
const ITERATIONS: &str = "40";
/// The model of the demo's agent.
const MODEL: &str = "claude-sonnet-4-5";
const DOLLAR: u64 = 1_000_000_000_000;

pub(super) fn measure(place: &Place) -> Result<Found, String> {
    // Midnight may come, and then a day begins that has its own dollar.
    let home = place.home("processes", "[budget.me]\nlimit = [\"$1 per day\", \"$1\"]\n")?;
    let sim = home.sim("loop")?;
    let children: Result<Vec<Child>, String> =
        (0..PROCESSES).map(|number| begin(&home, &sim, number)).collect();
    for mut child in children? {
        child.wait().map_err(|error| error.to_string())?;
    }
    let mut spent = 0;
    for number in 0..PROCESSES {
        let file = home.path.join(file_of(number));
        let text = fs::read_to_string(&file).map_err(|error| {
            let errors = fs::read_to_string(home.path.join(errors_of(number))).unwrap_or_default();
            format!("{}: {errors}", failed(&file, &error))
        })?;
        let told: Value = serde_json::from_str(&text).unwrap_or_default();
        spent += told.pointer("/report/spend/usd").and_then(picos).ok_or("a run has no spend")?;
    }
    let (served, limit) = (sim.served()?, home.budget(None, &[])?);
    let billed = served.cost(Prices::of(&home, MODEL)?);
    let over = billed.saturating_sub(DOLLAR);
    let row = Row {
        what: super::PROCESSES,
        tried: format!(
            "{PROCESSES} `endstop run` at once on `$1 per day` in one SQLite file, {CALLS} calls wanted by each"
        ),
        found: format!(
            "{} calls served for {}; overshoot {}; budget {}, sum of all reports {}: {} to the pico-dollar",
            served.calls,
            dollars(billed),
            dollars(over),
            dollars(limit.spent),
            dollars(spent),
            if (limit.spent, spent, limit.held) == (billed, billed, 0) {
                "equal"
            } else {
                "NOT equal"
            },
        ),
    };
    let mut found = Found::row(row);
    found.must(over == 0, "sixteen processes passed their budget");
    found.must(
        (limit.spent, spent, limit.held) == (billed, billed, 0),
        "the books differ from what was served",
    );
    Ok(found)
}

fn begin(home: &Home, sim: &Sim, number: usize) -> Result<Child, String> {
    let (upstream, file) = (sim.upstream(), file_of(number));
    let run = ["run", "-q", "--upstream", &upstream, "--steps", CALLS, "--usd", "100"];
    let endstop = home.endstop.display().to_string();
    let agent = ["--", &endstop, "demo-agent", "--iterations", ITERATIONS, "--searches", "3"];
    let mut command = home.command(run.into_iter().chain(["--json-file", &file]).chain(agent));
    let errors = home.path.join(errors_of(number));
    let errors = fs::File::create(&errors).map_err(|error| failed(&errors, &error))?;
    command.current_dir(&home.path).stderr(errors);
    command.spawn().map_err(|error| format!("cannot start `endstop run`: {error}"))
}

fn errors_of(number: usize) -> String {
    format!("run-{number}.errors")
}

fn file_of(number: usize) -> String {
    format!("run-{number}.json")
}
