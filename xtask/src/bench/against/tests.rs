//! Tests of `against`.

use super::*;

fn read(read: ReadLine, text: &str) -> Vec<(String, f64, &'static str)> {
    text.lines().filter_map(read).collect()
}

fn found(name: &str, value: f64, unit: &'static str) -> (String, f64, &'static str) {
    (name.to_owned(), value, unit)
}

#[test]
fn conditions_are_read_without_their_peers() {
    let text = "8 conditions, nothing trips; median of 41 rounds
  a clock read alone                          25.1 ns
  checkpoint, with clocks     endstop        60.5 ns
                              llm-stop-conditions   30.0 ns   ratio 2.02
8 phrases in streamed text, none occurs; evaluation included
  pieces of    4 bytes                         1.25 GB/s
";
    let expected = [
        found("a clock read alone", 25.1, "ns"),
        found("checkpoint, with clocks endstop", 60.5, "ns"),
        found("pieces of 4 bytes", 1.25, "GB/s"),
    ];
    assert_eq!(read(at_the_end, text), expected);
}

#[test]
fn the_ledger_is_read_without_its_peers_and_without_money() {
    let text = "reserve and settle, 5 dimensions; ns a thread, median of 1001 rounds; read the ratios
  1 thread(s)  endstop, 4 level(s)                       90.0 ns
  1 thread(s)  governor 0.10 check, one count            9.0 ns   ratio 3.00 (1 level), 9.00 (4 levels)
  endstop                                         4      1.79      1.79
";
    assert_eq!(read(at_the_end, text), [found("1 thread(s) endstop, 4 level(s)", 90.0, "ns")]);
}

#[test]
fn kept_bytes_are_read() {
    let text = "bytes kept a step beyond the messages; goal 1024
  from step 10 to 200                               96 bytes
";
    assert_eq!(read(at_the_end, text), [found("from step 10 to 200", 96.0, "bytes")]);
}

#[test]
fn the_median_of_the_agent_loop_is_read_without_its_peer() {
    let text = "                                          best    median
      10 steps, a loop by hand             0.50      0.60
      10 steps, endstop                    1.10      1.20   2.0 times the loop by hand
      10 steps, rig-agent 0.44            12.00     12.50   ratio 10.4; 15 rounds
   10000 steps, rig-agent 0.44        not finished in 20 s: 900 us a step in the first 22000
      10 steps, depth 4                    2.10      2.20
";
    let expected = [
        found("10 steps, a loop by hand", 0.6, "us"),
        found("10 steps, endstop", 1.2, "us"),
        found("10 steps, depth 4", 2.2, "us"),
    ];
    assert_eq!(read(in_columns, text), expected);
}

#[test]
fn a_replay_is_read_by_its_first_word() {
    let read = read(at_the_beginning, "0.125 0.25 10240 2000 150 900 12.5\n");
    assert_eq!(read, [found("", 0.125, "s")]);
}

#[test]
fn a_figure_has_the_name_of_its_benchmark_and_is_a_number() {
    let name = |read| figure("replay, 1 policy", read).map(|figure| figure.name);
    assert_eq!(name(found("", 1.0, "s")).unwrap(), "replay, 1 policy");
    assert_eq!(name(found("a part", 1.0, "s")).unwrap(), "replay, 1 policy: a part");
    assert_eq!(name(found("a part", f64::NAN, "s")), None);
}

#[test]
fn a_benchmark_is_known_by_the_name_of_its_program() {
    assert_eq!(check_names(&["ratios", "flat"]), Ok(()));
    let error = check_names(&["ratio"]).unwrap_err();
    let known = "ratios, ledger, agent, agent_bytes, replay, flat";
    assert_eq!(error, format!("no benchmark `ratio`; there are {known}"));
}
