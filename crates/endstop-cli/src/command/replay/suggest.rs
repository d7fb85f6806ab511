//! `--suggest`: a commented policy file from the user's own runs.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use endstop::core::Policy;
use endstop::core::expr::parse;
use endstop_replay::{Effect, Interval, Proposed, SuggestedRule, Suggestion, Unpriced, suggest};
use endstop_transcript::Format;
use serde_json::{Value, json};

use super::measure::{Measure, of, percent, without_price};
use super::{Inputs, ReplayArgs, has_read};
use crate::error::CliError;
use crate::output::{self, count, counted};

/// The square of the normal quantile that the intervals use.
const Z_SQUARED: f64 = 3.841_458_820_694_124;

pub(super) fn run(
    args: &ReplayArgs,
    inputs: &Inputs,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let nothing = Policy::default();
    let options = inputs.options(&nothing);
    let share = args.lose_at_most;
    let suggested =
        inputs.with_progress(|done| suggest(&inputs.transcripts, &options, share, done));
    let suggested = suggested.map_err(|error| CliError::new(error.to_string()))?;
    if suggested.runs.is_empty() {
        inputs.tell_nothing(&suggested.warnings, args.json, out)?;
        return has_read(args, 0);
    }
    if args.json {
        writeln!(out, "{}", to_json(&suggested, inputs))?;
        return Ok(ExitCode::SUCCESS);
    }
    inputs.tell_of_sample();
    write!(out, "{}", policy_file(&suggested))?;
    out.flush()?;
    inputs.warn(&suggested.runs, &suggested.warnings);
    // A policy that goes into a file already needs no advice to save it.
    let save = if io::stdout().is_terminal() { "save it with `> policy.toml`; " } else { "" };
    let enable = match proposes_nothing(&suggested) {
        true => "no rule is proposed: remove the `#` of a limit in the file; ",
        false => "",
    };
    output::note(&format!("\n{save}{enable}`endstop check policy.toml` shows what it bounds"));
    Ok(ExitCode::SUCCESS)
}

fn to_json(suggested: &Suggestion, inputs: &Inputs) -> Value {
    let warnings = inputs.warnings.iter().chain(&suggested.warnings);
    json!({
        "version": 1,
        "suggestion": suggested,
        "policy": policy_file(suggested),
        "unpriced": Unpriced::of(&suggested.runs),
        "warnings": warnings.map(endstop_replay::warning_json).collect::<Vec<_>>(),
    })
}

/// The policy with everything that a reader needs to judge it.
fn policy_file(suggested: &Suggestion) -> String {
    let measure = Measure::of(&suggested.runs);
    let mut text = head(suggested, measure);
    text.push_str("name = \"suggested\"\n\n[stop]\n");
    let proposed = |rule: &&SuggestedRule| rule.proposed == Proposed::Yes;
    for rule in suggested.rules.iter().filter(proposed) {
        let _ = write!(
            text,
            "# {}\n{}{}{} = \"{}\"\n\n",
            rule.purpose,
            figures(&rule.held_out, measure),
            not_told_by(rule),
            rule.id,
            rule.condition.as_deref().unwrap_or_default()
        );
    }
    let is_nothing = proposes_nothing(suggested);
    if is_nothing {
        text.push_str(&limits_to_enable(suggested));
    }
    let rest = suggested.rules.iter().filter(|rule| !(is_nothing && is_harmless_limit(rule)));
    let left_out: Vec<String> = rest.filter_map(|rule| left_out(rule, measure)).collect();
    if !left_out.is_empty() {
        let _ = write!(text, "# Left out:\n{}", left_out.concat());
    }
    text
}

fn proposes_nothing(suggested: &Suggestion) -> bool {
    !suggested.rules.iter().any(|rule| rule.proposed == Proposed::Yes)
}

/// The limits that stop none of the runs, as rules in comments: without any rule, the file is not yet a policy that
/// bounds a run.
fn limits_to_enable(suggested: &Suggestion) -> String {
    let mut text = match suggested.knows_outcomes {
        true => "# Nothing is proposed: no rule would have stopped a run that it should stop.\n",
        false => "# Nothing is proposed: a run that a rule stops may have been a success.\n",
    }
    .to_owned();
    let limits: Vec<_> = suggested.rules.iter().filter(|rule| is_harmless_limit(rule)).collect();
    if !limits.is_empty() {
        text.push_str(
            "# These limits stop none of these runs. Remove the `#` of those that you want:\n",
        );
    }
    for rule in limits {
        let condition = rule.condition.as_deref().unwrap_or_default();
        let _ = writeln!(text, "#{} = \"{condition}\"", rule.id);
    }
    text
}

/// Whether a rule that is left out stops none of the runs and alone would bound one.
fn is_harmless_limit(rule: &SuggestedRule) -> bool {
    let condition = rule.condition.as_deref().filter(|_| rule.proposed == Proposed::StopsNothing);
    let condition = condition.and_then(|condition| parse(condition).ok());
    condition.is_some_and(|condition| Policy::stop(condition).bounds().is_bounded())
}

fn head(suggested: &Suggestion, measure: Measure) -> String {
    let all = &suggested.together_held_out;
    let share = shown(suggested.lose_at_most);
    let mut text =
        format!("# Proposed by `endstop replay --suggest` from {}", counted(all.runs, "run"));
    if suggested.knows_outcomes {
        let _ = write!(text, " ({} succeeded, {} failed)", count(all.succeeded), count(all.failed));
    }
    let spent = measure.spent(all);
    let _ = writeln!(text, ", {}{} in all.", measure.amount(spent), measure.noun());
    let whom = if suggested.knows_outcomes {
        "successes"
    } else {
        "runs, each of which may have succeeded"
    };
    let _ = writeln!(
        text,
        "# Chosen to lose at most {share} of {whom}. Each effect is counted on runs that did not choose its\n\
         # rule: the runs were split into {} parts, and each part was judged by limits from the others, loosened\n\
         # until they lost at most {share} there. Ranges are 95% intervals (Wilson).",
        suggested.folds
    );
    if !suggested.knows_outcomes {
        text.push_str(
            "# No run's outcome is known, so a stopped run may have been a success. With --outcomes FILE, which says\n\
             # which runs failed, limits can be tighter.\n",
        );
    }
    if let Some(unpriced) = without_price(&suggested.runs) {
        let _ = writeln!(text, "# {unpriced}.");
    }
    let _ = writeln!(text, "#\n# All rules together:\n{}", figures(all, measure).trim_end());
    if let Some(note) = too_few(all, suggested.lose_at_most) {
        text.push_str(&note);
    }
    text
}

/// Two lines of comment: what is saved, and what is lost and cut.
fn figures(effect: &Effect, measure: Measure) -> String {
    let (saved, spent) = (measure.saved(effect), measure.spent(effect));
    let mut text = format!(
        "#   stops {} runs, saves {}{} ({})\n",
        of(effect.stopped, effect.runs),
        measure.amount(saved),
        measure.noun(),
        percent(saved, spent)
    );
    let share = |verb: &str, noun: &str, interval: Interval| {
        format!(
            "{verb} {} {noun} ({} to {})",
            of(interval.count, interval.of),
            shown(interval.low).trim_end_matches('%'),
            shown(interval.high)
        )
    };
    let lost = effect.lost().map(|interval| share("loses", "successes", interval));
    let caught = effect.caught().map(|interval| share("cuts", "failures", interval));
    let known: Vec<String> = lost.into_iter().chain(caught).collect();
    let unknown = (effect.unknown_stopped > 0).then(|| {
        format!("stops {} runs of unknown outcome", of(effect.unknown_stopped, effect.unknown))
    });
    let known: Vec<String> = known.into_iter().chain(unknown).collect();
    if !known.is_empty() {
        let _ = writeln!(text, "#   {}", known.join(", "));
    }
    text
}

/// Few successes cannot show that few are lost; how many could.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of runs, and a cast of a float saturates"
)]
fn too_few(all: &Effect, lose_at_most: f64) -> Option<String> {
    let lost = all.lost()?;
    if lost.high <= lose_at_most || lose_at_most <= 0.0 {
        return None;
    }
    let needed = (Z_SQUARED * (1.0 - lose_at_most) / lose_at_most).ceil() as u64;
    Some(format!(
        "# {} successes cannot show that a loss is below {}: to show {} takes {} of them, with none lost.\n",
        count(lost.of),
        shown(lost.high),
        shown(lose_at_most),
        count(needed)
    ))
}

fn left_out(rule: &SuggestedRule, measure: Measure) -> Option<String> {
    let condition = rule.condition.as_deref().unwrap_or("no value fits");
    let why = match rule.proposed {
        Proposed::Yes => return None,
        Proposed::StopsNothing => "stops none of these runs\n".to_owned(),
        Proposed::NotTestable => "these transcripts do not record it\n".to_owned(),
        Proposed::OnlyHarms => {
            format!("stops no failure, or saves nothing\n{}", figures(&rule.effect, measure))
        }
        Proposed::LosesTooMuch => format!(
            "on runs that did not choose it, it may lose too much\n{}",
            figures(&rule.held_out, measure)
        ),
        Proposed::LosesTooMuchTogether => {
            "it fits alone, but may lose too much together with other rules\n".to_owned()
        }
    };
    Some(format!("# {}, {condition}: {why}{}", rule.id, not_told_by(rule)))
}

/// A comment line with the formats of these runs that lack the data of the rule, or nothing.
fn not_told_by(rule: &SuggestedRule) -> String {
    if rule.not_told_by.is_empty() {
        return String::new();
    }
    let formats = rule.not_told_by.join(", ");
    let is_attended = |id: &&str| endstop_transcript::format(id).is_some_and(Format::is_attended);
    match rule.id == "time" && rule.not_told_by.iter().any(is_attended) {
        true => format!(
            "#   not judged on runs of {formats}: they count the time in which the person was away\n"
        ),
        false => format!("#   not judged on runs of {formats}, which do not record it\n"),
    }
}

/// A share for people, to a tenth of a percent if that is meaningful.
fn shown(share: f64) -> String {
    let percent = share * 100.0;
    let text = format!("{percent:.1}");
    format!("{}%", text.strip_suffix(".0").unwrap_or(&text))
}
