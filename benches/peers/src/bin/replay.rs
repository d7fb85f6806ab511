//! Replay of a recorded log: one policy, a hundred at once, one thread and two, compared with duckdb on the
//! same question. The machine is noisy; read the ratios.
//!
//! Each measurement is a separate process, so that its peak of memory is separate too. `cargo xtask bench --against`
//! starts them itself, after `prepare`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::{Command, exit};
use std::time::Instant;

use endstop_transcript::{Part, Transcript, format};
use endstop_price::PriceTable;
use endstop_replay::{Options, replay};
use endstop_bench::hundred::{self, LIMITS, condition};
use endstop_bench::recorded::{self, RUNS};
use endstop_core::Policy;
use endstop_core::expr::parse;
use endstop_core::units::Money;

/// Files of the log: threads share them.
const PARTS: u64 = 8;
const DIRECTORY: &str = "target/recorded";
const REPETITIONS: usize = 5;
/// The unit of processor time that Linux tells; the same everywhere.
const TICKS_A_SECOND: f64 = 100.0;
/// Which form of the log lies there.
const FORM: &str = "1";

/// The effect of the policy on the log, which duckdb computes too.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    runs: u64,
    stopped: u64,
    /// The sum of the steps at which runs are stopped.
    steps: u64,
    saved: Money,
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} {}", self.runs, self.stopped, self.steps, self.saved.to_decimal())
    }
}

struct Measured {
    seconds: f64,
    /// Of processor time, all threads together: what a busy machine disturbs least.
    processor: f64,
    peak_kib: u64,
    answer: String,
}

fn paths() -> Vec<PathBuf> {
    (0..PARTS).map(|part| PathBuf::from(format!("{DIRECTORY}/{part}.jsonl"))).collect()
}

/// Writes the log if it does not exist yet; returns its steps and bytes.
fn prepare() -> std::io::Result<(u64, u64)> {
    let mark = format!("{DIRECTORY}/form-{FORM}");
    if fs::read_to_string(&mark).is_err() {
        fs::create_dir_all(DIRECTORY)?;
        let mut steps = 0;
        for (part, path) in (0..PARTS).zip(paths()) {
            let runs = RUNS * part / PARTS..RUNS * (part + 1) / PARTS;
            let mut out = BufWriter::new(File::create(path)?);
            steps += recorded::write(runs, &mut out)?;
            out.flush()?;
        }
        fs::write(&mark, steps.to_string())?;
    }
    let steps = fs::read_to_string(&mark)?.parse().unwrap_or(0);
    let sizes = paths().into_iter().map(|path| Ok(fs::metadata(path)?.len()));
    Ok((steps, sizes.sum::<std::io::Result<u64>>()?))
}

fn inputs() -> Vec<Transcript> {
    let format = format("endstop").expect("our own format");
    let input = |path| Transcript { format, main: Part::file(path), children: Vec::new() };
    paths().into_iter().map(input).collect()
}

fn one(jobs: usize) -> Answer {
    let policy = Policy::stop(parse(&condition(&LIMITS)).expect("a condition"));
    let (outcomes, prices) = (BTreeMap::new(), PriceTable::embedded());
    let options = Options { policy: &policy, outcomes: &outcomes, prices, jobs, as_live: false };
    let report = replay(&inputs(), &options, &|_| {}).expect("a policy");
    assert!(report.warnings.is_empty());
    let steps = report.per_run.iter().filter_map(|run| run.stopped_at_step).sum();
    Answer { runs: report.runs, stopped: report.stopped, steps, saved: report.saved }
}

/// Measures in this process and says it on one line.
fn measure(what: &str, jobs: usize) {
    let ask = || match what {
        "one" => one(jobs).to_string(),
        _ => hundred::cuts(&inputs(), jobs).to_string(),
    };
    let answer = ask();
    let before = ticks();
    let mut seconds: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let started = Instant::now();
            assert_eq!(ask(), answer);
            started.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")).unwrap_or("0");
    let processor = (ticks() - before) as f64 / TICKS_A_SECOND / REPETITIONS as f64;
    println!("{} {processor} {peak} {answer}", seconds[REPETITIONS / 2]);
}

/// Processor time of this process so far, of threads that are over too.
fn ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    // User and system time are fields 14 and 15; the name is field 2.
    after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Runs a command that measures and says `seconds processor peak answer`; `Err` says why it did not.
fn measured(command: &mut Command) -> Result<Measured, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("it failed").to_owned());
    }
    let mut words = said.trim().splitn(4, ' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    let (seconds, processor, peak_kib, answer) = (word(), word(), word(), word());
    let number = |text: &str| text.parse().map_err(|_| format!("`{said}` is no measurement"));
    Ok(Measured {
        seconds: number(&seconds)?,
        processor: number(&processor)?,
        peak_kib: peak_kib.parse().unwrap_or(0),
        answer,
    })
}

fn ours(what: &str, jobs: usize) -> Result<Measured, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    measured(Command::new(this).args([what, &jobs.to_string()]))
}

/// A separate Python in `target`, with duckdb.
fn python() -> Result<PathBuf, String> {
    let python = PathBuf::from("target/python/bin/python");
    let has = |python: &PathBuf| {
        Command::new(python).args(["-c", "import duckdb"]).output().is_ok_and(|run| run.status.success())
    };
    if has(&python) {
        return Ok(python);
    }
    let steps: [&[&str]; 2] = [
        &["python3", "-m", "venv", "target/python"],
        &["target/python/bin/python", "-m", "pip", "install", "--quiet", "duckdb"],
    ];
    for step in steps {
        let done = step.split_first().is_some_and(|(program, arguments)| {
            Command::new(program).args(arguments).output().is_ok_and(|run| run.status.success())
        });
        if !done {
            return Err(format!("`{}` failed", step.join(" ")));
        }
    }
    has(&python).then_some(python).ok_or_else(|| "duckdb does not start".to_owned())
}

fn duckdb(python: &PathBuf, jobs: usize) -> Result<Measured, String> {
    let mut command = Command::new(python);
    command.args(["src/question.py", DIRECTORY, &jobs.to_string(), &REPETITIONS.to_string()]);
    measured(&mut command)
}

fn row(name: &str, bytes: u64, by_jobs: &[Measured; 2]) {
    print!("{name:<24}");
    for measured in by_jobs {
        let speed = bytes as f64 / measured.seconds / 1e9;
        let a_core = bytes as f64 / measured.processor / 1e9;
        print!("{:8.3} s {speed:6.3} GB/s {a_core:6.3} a core", measured.seconds);
    }
    let [alone, together] = by_jobs;
    let peak = alone.peak_kib.max(together.peak_kib) as f64 / 1024.0;
    println!("   x {:.2}  {peak:5.0} MiB", alone.seconds / together.seconds);
}

fn compare() -> Result<(), String> {
    let (steps, bytes) = prepare().map_err(|error| error.to_string())?;
    println!(
        "replay of {:.1} MB, {RUNS} runs, {steps} steps in {PARTS} files; median of {REPETITIONS}",
        bytes as f64 / 1e6
    );
    println!("{:<24}{:>35}{:>35}   speed-up  peak", "", "1 thread", "2 threads");
    let single = [ours("one", 1)?, ours("one", 2)?];
    row("endstop, 1 policy", bytes, &single);
    let hundred = [ours("hundred", 1)?, ours("hundred", 2)?];
    row("endstop, 100 policies", bytes, &hundred);
    let stopped = single[0].answer.split(' ').nth(1);
    for measured in single.iter().chain(&hundred) {
        if measured.answer != single[0].answer && Some(measured.answer.as_str()) != stopped {
            return Err(format!("{} is not {}", measured.answer, single[0].answer));
        }
    }
    let theirs = python().and_then(|python| Ok([duckdb(&python, 1)?, duckdb(&python, 2)?]));
    match theirs {
        Err(problem) => println!("skipped: duckdb ({problem})"),
        Ok(theirs) => {
            row("duckdb, 1 policy", bytes, &theirs);
            for measured in &theirs {
                if measured.answer != single[0].answer {
                    return Err(format!("duckdb says {}, endstop {}", measured.answer, single[0].answer));
                }
            }
            let [alone, together] = [0, 1].map(|i| theirs[i].seconds / single[i].seconds);
            let less = theirs[0].processor / single[0].processor;
            println!("the same answer; endstop is {alone:.1} x as fast on 1 thread, {together:.1} x on 2");
            println!("and takes {less:.1} x less processor time");
        }
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [what, jobs] => measure(what, jobs.parse().unwrap_or(1)),
        [what] if what == "prepare" => or_exit(prepare().map_err(|error| error.to_string())),
        _ => or_exit(compare()),
    }
}

fn or_exit<T>(done: Result<T, String>) {
    if let Err(problem) = done {
        eprintln!("error: {problem}");
        exit(1);
    }
}
