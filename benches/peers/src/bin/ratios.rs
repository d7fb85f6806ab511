//! Endstop and its peers in one run: medians and ratios. The machine is noisy; read the ratios.

use std::hint::black_box;
use std::time::{Duration, Instant};

use endstop_bench::{EIGHT, WITH_TIME, event, run_under, step};
use endstop_core::event::EventKind;
use llm_stop_conditions::{Evaluator, LoopSnapshot, MaxIters, MaxSeconds, MaxTokens, MaxUsd, NoProgress};

const ROUNDS: usize = 41;
const PER_ROUND: u32 = 50_000;

/// Nanoseconds for one call, the median over rounds.
fn median(mut measure: impl FnMut(u32) -> Duration) -> f64 {
    let mut rounds: Vec<f64> =
        (0..ROUNDS).map(|_| measure(PER_ROUND).as_nanos() as f64 / f64::from(PER_ROUND)).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn timed(times: u32, mut each: impl FnMut(u32)) -> Duration {
    let started = Instant::now();
    for i in 0..times {
        each(i);
    }
    started.elapsed()
}

/// Milliseconds since `started`, as a driver reads its clock: once, and without 128-bit division.
fn millis(started: Instant) -> u64 {
    let elapsed = started.elapsed();
    elapsed.as_secs() * 1_000 + u64::from(elapsed.subsec_millis())
}

/// A checkpoint inside a step: a timer tick with one clock read, full evaluation, nothing trips.
fn checkpoint(condition: &str, with_clock: bool) -> f64 {
    let mut run = run_under(condition);
    run.observe(&event(0, EventKind::StepBegin));
    let started = Instant::now();
    median(|times| {
        timed(times, |i| {
            let at = if with_clock { millis(started) } else { u64::from(i) };
            black_box(run.observe(black_box(&event(at, EventKind::Tick))));
        })
    })
}

fn step_end(condition: &str) -> f64 {
    let mut run = run_under(condition);
    let started = Instant::now();
    let both = median(|times| {
        timed(times, |_| {
            let at = millis(started);
            run.observe(black_box(&event(at, EventKind::StepBegin)));
            black_box(run.observe(black_box(&event(at, EventKind::StepEnd))));
        })
    });
    let mut run = run_under(condition);
    let begin = median(|times| {
        timed(times, |i| {
            black_box(run.observe(black_box(&event(u64::from(i), EventKind::StepBegin))));
        })
    });
    (both - begin).max(0.0)
}

fn peer(with_clock: bool) -> f64 {
    let mut evaluator = Evaluator::new()
        .with(MaxIters::new(u32::MAX))
        .with(MaxTokens::new(u64::MAX))
        .with(MaxUsd::new(1e12))
        .with(MaxIters::new(u32::MAX - 1))
        .with(MaxTokens::new(u64::MAX - 1))
        .with(MaxUsd::new(2e12));
    evaluator = if with_clock {
        evaluator
            .with(MaxSeconds::after(Duration::from_secs(86_400 * 300)))
            .with(NoProgress::new(Instant::now(), Duration::from_secs(86_400 * 300)))
    } else {
        evaluator.with(MaxIters::new(u32::MAX - 2)).with(MaxTokens::new(u64::MAX - 2))
    };
    let started = Instant::now();
    let snapshot = LoopSnapshot {
        iters: 5,
        elapsed: started.elapsed(),
        tokens_used: 1_000,
        usd_used: 0.5,
        last_progress: Some(started),
    };
    median(|times| {
        timed(times, |_| {
            black_box(evaluator.evaluate(black_box(&snapshot)));
        })
    })
}

fn whole_step() -> f64 {
    let mut run = run_under(WITH_TIME);
    let (mut number, mut result) = (0, String::with_capacity(64));
    median(|times| {
        timed(times, |_| {
            number += 1;
            black_box(step(&mut run, number, &mut result));
        })
    })
}

const PHRASES: &str = r#"said("FINAL ANSWER") or said("TASK COMPLETE") or said("I give up") or said("no further steps")
    or said("all tests pass") or said("I cannot continue") or said("please advise") or said("work is finished")"#;

/// Gigabytes a second through eight phrases, none of which occurs.
fn scanning(piece: usize) -> f64 {
    let text: String = "the quick brown agent reads one more file and writes one more line; ".repeat(16_000);
    let pieces: Vec<&str> = text.as_bytes().chunks(piece).filter_map(|c| std::str::from_utf8(c).ok()).collect();
    let mut speeds: Vec<f64> = (0..15)
        .map(|_| {
            let mut run = run_under(PHRASES);
            run.observe(&event(0, EventKind::StepBegin));
            let started = Instant::now();
            for piece in &pieces {
                black_box(run.observe(black_box(&event(0, EventKind::Piece { text: piece }))));
            }
            text.len() as f64 / started.elapsed().as_nanos() as f64
        })
        .collect();
    speeds.sort_by(f64::total_cmp);
    speeds[speeds.len() / 2]
}

fn main() {
    println!("8 conditions, nothing trips; median of {ROUNDS} rounds");
    let clock = median(|times| timed(times, |_| _ = black_box(Instant::now())));
    println!("  a clock read alone                       {clock:7.1} ns");
    for (name, ours, theirs) in [
        ("with clocks", checkpoint(EIGHT, true), peer(true)),
        ("without clocks", checkpoint(EIGHT, false), peer(false)),
    ] {
        println!("  checkpoint, {name:<15} endstop     {ours:7.1} ns");
        println!("  {:27} llm-stop-conditions {theirs:6.1} ns   ratio {:.2}", "", ours / theirs);
    }
    println!("  checkpoint, two operators over time      {:7.1} ns", checkpoint(WITH_TIME, true));
    println!("  a step's end, 8 conditions               {:7.1} ns", step_end(EIGHT));
    println!("  a step's end, two operators over time    {:7.1} ns", step_end(WITH_TIME));
    println!("  a whole step of seven events             {:7.1} ns", whole_step());
    println!("8 phrases in streamed text, none occurs; evaluation included");
    for piece in [4, 64, 1_024] {
        println!("  pieces of {piece:>4} bytes                      {:7.2} GB/s", scanning(piece));
    }
}
