//! The drawing.

use std::fmt::Write as _;

use super::{Chart, HEADS, Point, escape};

const WIDTH: f64 = 760.0;
/// Of the plot, its axes and their titles.
const PLOT_HEIGHT: f64 = 404.0;
/// Where the legend begins, and the room for the words at its end.
const LEGEND_LEFT: f64 = 16.0;
const LEGEND_NOTE: f64 = 210.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 40.0;
/// Room for the title and a line of the legend.
const TOP: f64 = 72.0;
const BOTTOM: f64 = 64.0;

/// Distance of a label from its point, and the room that a letter takes at its size.
const LABEL_GAP: f64 = 9.0;
const LETTER: f64 = 6.6;
const LINE: f64 = 13.0;

/// Height of a line of the sentences, and how many letters fit on one.
const SENTENCE: f64 = 18.0;
const SENTENCE_LETTERS: usize = 100;

/// Blue, vermilion, green, purple, orange, sky blue, black: distinguishable with any kind of color vision.
const COLOURS: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];

/// The title of the drawing.
const TITLE: &str = "What limits would have saved, against what they would have lost";

/// Points crowd if more than half of them lie in this share of the axis.
const CROWDED: f64 = 0.1;

/// How much of a value the axes show, and where its lines are.
struct Axis {
    most: f64,
    step: f64,
    decimals: usize,
    /// On a scale that is logarithmic above about this value; `None` if it is linear.
    bend: Option<f64>,
}

impl Axis {
    /// Over these points, whose intervals reach up to `largest`. Logarithmic if the points would crowd at 0.
    fn of(values: &[f64], largest: f64) -> Self {
        let axis = Self::over(values.iter().copied().fold(largest, f64::max));
        let crowded = values.iter().filter(|value| **value < axis.most * CROWDED).count();
        let least =
            values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let has_room = least.is_finite() && least < axis.most * CROWDED && values.len() > 2;
        let bend = (has_room && crowded * 2 > values.len()).then_some(least);
        Self { bend, ..axis }
    }

    /// Where a value is, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let value = value.clamp(0.0, self.most);
        match self.bend {
            Some(bend) => (value / bend).ln_1p() / (self.most / bend).ln_1p(),
            None => value / self.most,
        }
    }

    /// From 0 to a little more than `largest`, in steps of 1, 2 or 5.
    fn over(largest: f64) -> Self {
        let largest = largest.clamp(0.5, 100.0);
        let rough = largest / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let most = ((largest / step).ceil() * step).min(100.0);
        Self { most, step, decimals: usize::from(step < 1.0), bend: None }
    }

    /// The values with a line, and their texts.
    fn ticks(&self) -> Vec<(f64, String)> {
        if self.bend.is_some() {
            let decades = [0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
            let shown = decades.into_iter().filter(|tick| *tick <= self.most);
            return shown.map(|tick| (tick, tick.to_string())).collect();
        }
        let steps = (0u32..=100).map(|number| f64::from(number) * self.step);
        let shown = steps.take_while(|tick| *tick <= self.most + self.step / 1e6);
        shown.map(|tick| (tick, format!("{tick:.*}", self.decimals))).collect()
    }

    const fn note(&self) -> &'static str {
        if self.bend.is_some() { " (log scale)" } else { "" }
    }
}

/// The areas of the drawing: where its plot begins and ends.
struct Frame {
    sentences: Vec<(String, &'static str)>,
    /// Where each series is named: left, and the line from the top of the legend.
    legend: Vec<(f64, f64)>,
    top: f64,
    height: f64,
}

impl Frame {
    fn new(chart: &Chart, with_answer: bool) -> Self {
        let mut sentences = Vec::new();
        for (row, sentence) in chart.answer.lines().enumerate().filter(|_| with_answer) {
            let weight = if row == 0 { "400" } else { "600" };
            sentences.extend(wrapped(sentence).into_iter().map(|line| (line, weight)));
        }
        let lines = f64::from(u16::try_from(sentences.len()).unwrap_or(u16::MAX));
        let (mut legend, mut x, mut line) = (Vec::new(), LEGEND_LEFT, 0.0);
        for series in &chart.series {
            let room = 34.0 + wide(&series.name);
            if x > LEGEND_LEFT && x + room > WIDTH - LEGEND_NOTE {
                (x, line) = (LEGEND_LEFT, line + 1.0);
            }
            legend.push((x, line));
            x += room;
        }
        let top = TOP + SENTENCE * (lines + line);
        Self { sentences, legend, top, height: top + PLOT_HEIGHT }
    }

    fn bottom(&self) -> f64 {
        self.height - BOTTOM
    }
}

/// The text in lines that fit.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < SENTENCE_LETTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A box that a label takes: left, top, right, bottom.
type LabelBox = [f64; 4];

/// Draws the chart, with the answer in words above it unless the page already has it.
pub(super) fn draw(chart: &Chart, with_answer: bool) -> String {
    let frame = Frame::new(chart, with_answer);
    let height = frame.height;
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let values = |value: fn(&Point) -> f64| points().map(value).collect::<Vec<f64>>();
    let reach =
        points().filter_map(|point| point.interval).map(|(_, high)| high).fold(0.0, f64::max);
    let (across, up) = (Axis::of(&values(|p| p.x), reach), Axis::of(&values(|p| p.y), 0.0));
    let right = |x: f64| LEFT + across.place(x) * (WIDTH - LEFT - RIGHT);
    let place = |point: &Point| {
        (right(point.x), frame.bottom() - up.place(point.y) * (frame.bottom() - frame.top))
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <title>{}</title>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n",
        escape(&chart.answer)
    );
    head(&mut svg, chart, &frame);
    axes(&mut svg, chart, &frame, [&across, &up]);
    let mut taken: Vec<LabelBox> =
        points().map(place).map(|(x, y)| [x - 5.0, y - 5.0, x + 5.0, y + 5.0]).collect();
    for (index, series) in chart.series.iter().enumerate() {
        let corners: Vec<(f64, f64)> = series.points.iter().map(&place).collect();
        taken.extend(corners.windows(2).flat_map(along));
        line(&mut svg, index, &corners);
        for point in &series.points {
            interval(
                &mut svg,
                index,
                point.interval.map(|(low, high)| (right(low), right(high))),
                place(point).1,
            );
            dot(&mut svg, index, point, place(point));
        }
    }
    for point in points() {
        label(&mut svg, point, place(point), frame.bottom(), &mut taken);
    }
    svg.push_str("</svg>\n");
    svg
}

/// The answer, and which line is which.
fn head(svg: &mut String, chart: &Chart, frame: &Frame) {
    let mut y = 24.0;
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"{y}\" font-size=\"16\" font-weight=\"600\" fill=\"#111\">{TITLE}</text>"
    );
    y += SENTENCE + 6.0;
    for (line, weight) in &frame.sentences {
        let _ = writeln!(
            svg,
            "<text x=\"16\" y=\"{y}\" font-weight=\"{weight}\" fill=\"#111\">{}</text>",
            escape(line)
        );
        y += SENTENCE;
    }
    for ((index, series), (x, line)) in chart.series.iter().enumerate().zip(&frame.legend) {
        let (color, y) = (color(index), y + line * SENTENCE);
        let _ = writeln!(
            svg,
            "{}<text x=\"{}\" y=\"{y}\" fill=\"#333\">{}</text>",
            shape(index, x + 5.0, y - 4.0, color),
            x + 14.0,
            escape(&series.name)
        );
    }
    let better = "up and to the left is better; bars: 95%";
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\" font-style=\"italic\" fill=\"#595959\">{better}</text>",
        WIDTH - RIGHT
    );
}

fn axes(svg: &mut String, chart: &Chart, frame: &Frame, [across, up]: [&Axis; 2]) {
    let (top, bottom, right) = (frame.top, frame.bottom(), WIDTH - RIGHT);
    for (tick, text) in up.ticks() {
        let y = bottom - up.place(tick) * (bottom - top);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e2e2e2\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#444\">{text}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    for (tick, text) in across.ticks() {
        let x = LEFT + across.place(tick) * (right - LEFT);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\" stroke=\"#f0f0f0\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#444\">{text}</text>",
            bottom + 18.0
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#444\"/>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#111\">{}</text>\n\
         <text transform=\"translate(20 {}) rotate(-90)\" text-anchor=\"middle\" fill=\"#111\">{}</text>",
        f64::midpoint(LEFT, right),
        frame.height - 20.0,
        escape(&format!("{}{}", chart.x_title, across.note())),
        f64::midpoint(top, bottom),
        escape(&format!("{}{}", chart.y_title, up.note()))
    );
}

fn line(svg: &mut String, index: usize, corners: &[(f64, f64)]) {
    let corners: Vec<String> = corners.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-opacity=\".45\" stroke-width=\"1.5\"/>",
        corners.join(" "),
        color(index)
    );
}

/// Where what is lost may be by chance: a bar through the point.
fn interval(svg: &mut String, index: usize, ends: Option<(f64, f64)>, y: f64) {
    let Some((low, high)) = ends else { return };
    let (color, above, below) = (color(index), y - 3.0, y + 3.0);
    let _ = writeln!(
        svg,
        "<path d=\"M{low:.1} {above:.1}V{below:.1}M{low:.1} {y:.1}H{high:.1}M{high:.1} {above:.1}V{below:.1}\" \
         fill=\"none\" stroke=\"{color}\" stroke-opacity=\".35\"/>"
    );
}

/// Small boxes along a line, which labels stay clear of.
fn along(ends: &[(f64, f64)]) -> Vec<LabelBox> {
    let [(x1, y1), (x2, y2)] = ends else { return Vec::new() };
    let pieces = ((x2 - x1).hypot(y2 - y1) / 4.0).ceil().clamp(1.0, 400.0);
    let at = (0u16..=400).map(|piece| f64::from(piece) / pieces).take_while(|share| *share <= 1.0);
    at.map(|share| {
        let (x, y) = (x1 + (x2 - x1) * share, y1 + (y2 - y1) * share);
        [x - 1.0, y - 1.0, x + 1.0, y + 1.0]
    })
    .collect()
}

/// The point; its row shows where the pointer rests on it.
fn dot(svg: &mut String, index: usize, point: &Point, (x, y): (f64, f64)) {
    let row: Vec<String> =
        HEADS.iter().zip(&point.cells).map(|(head, cell)| format!("{head}: {cell}")).collect();
    let _ = writeln!(
        svg,
        "<g>{}<title>{}</title></g>",
        shape(index, x, y, color(index)),
        escape(&row.join("\n"))
    );
}

/// Writes the point's value next to it, if there is room.
fn label(
    svg: &mut String,
    point: &Point,
    (x, y): (f64, f64),
    bottom: f64,
    taken: &mut Vec<LabelBox>,
) {
    let room = wide(&point.label);
    let sides = [
        (x + LABEL_GAP, y + 4.0, "start", x + LABEL_GAP),
        (x - LABEL_GAP, y + 4.0, "end", x - LABEL_GAP - room),
        (x, y - LABEL_GAP, "middle", x - room / 2.0),
        (x, y + LABEL_GAP + 9.0, "middle", x - room / 2.0),
    ];
    for (at, base, anchor, left) in sides {
        let wanted = [left, base - LINE + 3.0, left + room, base + 2.0];
        let is_inside = wanted[0] > LEFT && wanted[2] < WIDTH - 4.0 && wanted[3] < bottom;
        // Its own point is where it is; the label stands clear of it.
        if is_inside && !taken.iter().any(|other| overlap(&wanted, other)) {
            taken.push(wanted);
            let _ = writeln!(
                svg,
                "<text x=\"{at:.1}\" y=\"{base:.1}\" text-anchor=\"{anchor}\" fill=\"#222\">{}</text>",
                escape(&point.label)
            );
            return;
        }
    }
}

fn overlap(one: &LabelBox, other: &LabelBox) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

/// The room that a text takes, about.
fn wide(text: &str) -> f64 {
    f64::from(u16::try_from(text.chars().count()).unwrap_or(u16::MAX)) * LETTER
}

fn color(index: usize) -> &'static str {
    COLOURS.get(index % COLOURS.len()).unwrap_or(&"#000000")
}

/// A circle, a square, a triangle or a diamond.
fn shape(index: usize, x: f64, y: f64, color: &str) -> String {
    match index % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{color}\"/>"),
        1 => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"{color}\"/>",
            x - 4.0,
            y - 4.0
        ),
        2 => format!("<path d=\"M{x:.1} {:.1}l5 9h-10z\" fill=\"{color}\"/>", y - 5.0),
        _ => format!(
            "<path d=\"M{x:.1} {:.1}l5.5 5.5-5.5 5.5-5.5-5.5z\" fill=\"{color}\"/>",
            y - 5.5
        ),
    }
}
