//! Tests of `pass`.

use tokio::io::duplex;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_is_silent_both_ways_is_closed_and_one_that_is_used_is_not() {
    let (mut client, near) = duplex(64);
    let (mut remote, far) = duplex(64);
    let idle = Duration::from_secs(60);
    let begun = Instant::now();
    let tunnel = tokio::spawn(both_ways(near, far, idle));
    let mut byte = [0];
    for _ in 0..5 {
        sleep(Duration::from_secs(50)).await;
        client.write_all(b"x").await.unwrap();
        remote.read_exact(&mut byte).await.unwrap();
    }
    assert!(!tunnel.is_finished());
    assert_eq!(client.read(&mut byte).await.unwrap(), 0, "it is closed");
    assert!(begun.elapsed() >= Duration::from_secs(5 * 50 + 60), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_end_of_one_direction_is_passed_on_and_the_other_goes_on() {
    let (mut client, near) = duplex(64);
    let (mut remote, far) = duplex(64);
    tokio::spawn(both_ways(near, far, Duration::from_secs(600)));
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut asked = String::new();
    remote.read_to_string(&mut asked).await.unwrap();
    remote.write_all(b"answer").await.unwrap();
    drop(remote);
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert_eq!((asked.as_str(), answer.as_str()), ("question", "answer"));
}
