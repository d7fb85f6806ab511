//! Kills as the store has them.

use super::*;

#[test]
fn a_record_has_the_time_and_is_read_as_the_kill_with_and_without_it() {
    for target in [KillTarget::All, KillTarget::Key("alice".to_owned())] {
        let kill = StoreKill { target, why: "bill (killed by ann)".to_owned() };
        let record = serde_json::to_value(KillRecord { kill: &kill, at: 1_795_608_000_000 });
        let record = record.unwrap();
        assert_eq!(record["at"], 1_795_608_000_000_u64);
        assert_eq!(serde_json::from_value::<StoreKill>(record).unwrap(), kill);
        let without = serde_json::to_value(&kill).unwrap();
        assert_eq!(serde_json::from_value::<StoreKill>(without).unwrap(), kill);
    }
}
