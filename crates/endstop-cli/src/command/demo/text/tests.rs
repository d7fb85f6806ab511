//! Tests of `text`.

use super::*;

fn act(cost: &str) -> DemoAct {
    DemoAct {
        whole: Value::Null,
        cost: cost.parse().unwrap(),
        calls: 1_150,
        sub_agents: 50,
        tokens: 59_400_000,
        elapsed_ms: 4_200,
    }
}

#[test]
fn lines_fit_where_a_terminal_is_narrow() {
    let usd = "2".parse().unwrap();
    let stage = Stage { usd, steps: 50, iterations: 50, is_watched: false, is_silent: false };
    let (first, second) = (act("199.60"), act("1.88"));
    for columns in [30, 40, 60, 80, 120] {
        let page = Page { columns };
        let text = [
            page.opening(&stage),
            page.first_act(&stage, &first),
            page.between(&stage),
            page.second_act(&stage, &first, &second),
        ]
        .concat();
        let bold = Style::new().bold();
        let text = text.replace(&bold.to_string(), "").replace(&format!("{bold:#}"), "");
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        let in_one = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(in_one.contains("The planner kept its limit of 50 iterations."), "{text}");
        assert!(in_one.contains("Saved $197.72 of $199.60 (99%)."), "{text}");
    }
}

#[test]
fn what_is_said_of_the_limit_is_true_of_the_figures() {
    let usd = |text: &str| text.parse::<Money>().unwrap();
    let told = |spent: &str| {
        let (all, limit) = (usd("200"), usd("2"));
        (saved(all, usd(spent)), kept(all, usd(spent), limit))
    };
    let (saved, kept) = told("2");
    assert_eq!(saved, "Saved $198.00 of $200.00 (99%).");
    assert!(kept.starts_with("The run stayed within"), "{kept}");
    assert!(told("2.01").1.starts_with("The run spent more"));
    assert_eq!(told("200").0, "Nothing was saved.");
}
