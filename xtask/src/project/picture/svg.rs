//! The screens as one SVG: light and dark, animated unless the reader prefers reduced motion.

use std::fmt::Write as _;

use super::frames::Frames;
use super::{COLUMNS, ROWS};

/// Sizes in pixels.
const CELL: f64 = 8.4;
const LINE: f64 = 20.0;
const MARGIN: f64 = 18.0;
const BAR: f64 = 38.0;
/// How long each screen stays, in seconds: the typed command, a step, the stop, the end.
const TYPED: f64 = 1.2;
const STEP: f64 = 0.45;
const STOPPED: f64 = 1.8;
const END: f64 = 9.0;

const STYLE: &str = "\
:root { --paper: #ffffff; --ink: #1f2328; --bar: #f0f2f5; --edge: #d1d9e0; --faint: #59636e; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #10151c; --ink: #e6edf3; --bar: #1b222c; --edge: #3d444d; --faint: #9198a1; }
}
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace;
  white-space: pre; fill: var(--ink); }
.bar { fill: var(--bar); stroke: var(--edge); }
.paper { fill: var(--paper); stroke: var(--edge); }
.name { fill: var(--faint); text-anchor: middle; }
.f { visibility: hidden; }
.f:last-of-type { visibility: visible; }
";

/// The text of the file.
pub(super) fn draw(command: &str, frames: &Frames) -> String {
    let width = f64::from(COLUMNS) * CELL + 2.0 * MARGIN;
    let height = f64::from(ROWS) * LINE + BAR + MARGIN;
    let mut rows: Vec<&str> = Vec::new();
    let mut groups = String::new();
    for (index, screen) in frames.screens.iter().enumerate() {
        let _ = write!(groups, "<g class=\"f f{index}\">");
        for (row, text) in (0_u16..).zip(screen).filter(|(_, text)| !text.is_empty()) {
            let at = rows.iter().position(|known| known == text).unwrap_or_else(|| {
                rows.push(text);
                rows.len() - 1
            });
            let y = BAR + LINE * f64::from(row + 1);
            let _ = write!(groups, "<use href=\"#l{at}\" x=\"{MARGIN}\" y=\"{y}\"/>");
        }
        groups.push_str("</g>\n");
    }
    let mut lines = String::new();
    for (index, text) in rows.iter().enumerate() {
        // Letters of any font keep to the columns.
        let length = CELL * text.chars().fold(0.0, |sum, _| sum + 1.0);
        let _ = writeln!(
            lines,
            "<text id=\"l{index}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\">{}</text>",
            escape(text)
        );
    }
    let times = times(frames.screens.len());
    let description = escape(&frames.transcript.join("\n"));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
         <!-- Written by `cargo xtask picture`. -->\n\
         <title>Endstop stops an agent at its limit of $2.00</title>\n\
         <desc>{description}</desc>\n\
         <style>\n{STYLE}{times}</style>\n\
         <defs>\n{lines}</defs>\n\
         <rect class=\"paper\" x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\"/>\n\
         <path class=\"bar\" d=\"M0.5 29.5v-21a8 8 0 0 1 8-8h{:.0}a8 8 0 0 1 8 8v21z\"/>\n\
         <text class=\"name\" x=\"{:.0}\" y=\"20\">{}</text>\n\
         {groups}</svg>\n",
        width - 1.0,
        height - 1.0,
        width - 17.0,
        width / 2.0,
        escape(command),
    )
}

/// The rules that show one screen after the other, again and again.
fn times(screens: usize) -> String {
    let stay = |index: usize| match screens - index {
        1 => END,
        2 => STOPPED,
        _ if index == 0 => TYPED,
        _ => STEP,
    };
    let whole: f64 = (0..screens).map(stay).sum();
    let mut rules = "@media (prefers-reduced-motion: no-preference) {\n".to_owned();
    let _ = writeln!(rules, ".f {{ animation: {whole:.2}s step-end infinite; }}");
    let mut since = 0.0;
    for index in 0..screens {
        let until = since + stay(index);
        let _ = write!(rules, ".f{index} {{ animation-name: s{index}; }} @keyframes s{index} {{ ");
        if index > 0 {
            rules.push_str("0% { visibility: hidden; } ");
        }
        let _ = write!(rules, "{:.3}% {{ visibility: visible; }} ", 100.0 * since / whole);
        if index + 1 < screens {
            let _ = write!(rules, "{:.3}% {{ visibility: hidden; }} ", 100.0 * until / whole);
        }
        rules.push_str("}\n");
        since = until;
    }
    rules.push_str("}\n");
    rules
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
