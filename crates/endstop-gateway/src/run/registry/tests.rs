//! Runs that come and go.

use std::sync::mpsc;
use std::thread;

use endstop_core::condition::named::max_steps;
use endstop_core::probe::Probes;
use endstop_core::{Policy, Program};

use super::*;
use crate::config::{IssuedKeys, Unnamed};

/// Otherwise one that is named in between would begin again, with a new budget, before its stop is recorded.
#[tokio::test]
async fn a_run_is_evicted_only_while_it_cannot_be_opened() {
    let program = Program::new(&Policy::from(max_steps(9)), &Probes::new()).unwrap();
    let runs = Runs::Many { unnamed: Unnamed::Refuse, keys: IssuedKeys::default() };
    let mut config = Config::new(Upstreams::none(), Arc::new(program), runs);
    config.bounds.runs = 1;
    let registry = Registry::open(Arc::new(config)).await.unwrap();
    let open = |name: &str| {
        registry.get_or_begin(&RunId::parse(name).unwrap(), RunOrigin::default()).unwrap()
    };
    open("stopped").kill(kill_signal("a test"));
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        let evicting = registry.openings.evict(&RunId::parse("stopped").unwrap());
        scope.spawn(|| {
            open("other");
            done.send(()).unwrap();
        });
        assert!(is_done.recv_timeout(Duration::from_millis(50)).is_err());
        assert!(registry.get(&RunId::parse("stopped").unwrap()).is_some());
        drop(evicting);
        is_done.recv().unwrap();
    });
    assert!(registry.get(&RunId::parse("stopped").unwrap()).is_none());
    assert!(open("stopped").stop().is_some());
}
