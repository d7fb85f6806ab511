//! Tests of `measure`.

use super::*;

#[test]
fn streams_are_counted_by_what_arrived_of_them() {
    let text = r#"{"answers": 2, "seconds": 0.5, "bytes": 30000, "size": 10000, "served": 3,
            "cpu_us": 600, "failed": 0}"#;
    let one = read(text, PACED).unwrap();
    assert!((one.cpu_us - 200.0).abs() < 1e-9 && (one.per_second - 6.0).abs() < 1e-9, "{one:?}");
    let one = read(text, JSON).unwrap();
    assert!((one.cpu_us - 300.0).abs() < 1e-9, "{one:?}");
}

#[test]
fn answers_that_the_upstream_did_not_give_are_an_error() {
    let text = r#"{"answers": 900, "seconds": 1, "served": 3, "failed": 0}"#;
    assert!(read(text, JSON).unwrap_err().contains("upstream"));
}

#[test]
fn the_median_is_over_rounds_that_worked() {
    let mut taken = Taken::default();
    for cpu_us in [9.0, 1.0, 5.0] {
        taken.add(JSON.name, Some(Ok(One { cpu_us, ..One::default() })));
    }
    taken.add(JSON.name, Some(Err("cut".to_owned())));
    taken.add(JSON.name, Some(Err("cut".to_owned())));
    assert_eq!(taken.median(JSON, |one| one.cpu_us), Some(5.0));
    assert_eq!(taken.median(PACED, |one| one.cpu_us), None);
    assert_eq!(taken.troubles.len(), 1);
}

#[test]
fn the_figures_of_a_gateway_are_those_that_were_measured() {
    let mut taken = Taken::default();
    taken.add(JSON.name, Some(Ok(One { cpu_us: 70.0, p50_ms: 0.5, ..One::default() })));
    let figures: Vec<_> = taken
        .figures("endstop")
        .into_iter()
        .map(|figure| (figure.name, figure.value, figure.unit))
        .collect();
    let cpu = ("endstop: JSON, c=16, CPU".to_owned(), 70.0, "us");
    let p50 = ("endstop: JSON, c=16, p50".to_owned(), 0.5, "ms");
    assert_eq!(figures, [cpu, p50]);
}
