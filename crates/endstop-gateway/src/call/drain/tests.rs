//! Tests of `drain`.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_call_that_is_adopted_again_has_no_more_time() {
    let (client, drains) = (ClientPresence::default(), Drains::new(Duration::from_secs(60)));
    let begun = Instant::now();
    drains.adopt(client.leave(), tokio::time::sleep(Duration::from_secs(40)));
    drains.end(Duration::from_secs(100)).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(40));
    let drains = Drains::new(Duration::from_secs(60));
    drains.adopt(client.leave(), std::future::pending());
    drains.end(Duration::from_secs(100)).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn more_calls_without_clients_than_the_limit_are_dropped() {
    let drains = Drains::new(Duration::from_secs(60));
    let live = Arc::new(());
    for _ in 0..MAX_DRAINS + 5 {
        let held = Arc::clone(&live);
        drains.adopt(Instant::now(), async move {
            std::future::pending::<()>().await;
            drop(held);
        });
    }
    assert_eq!(Arc::strong_count(&live), MAX_DRAINS + 1);
}
