//! Kills as the store has them.

use super::*;

#[test]
fn a_record_has_the_time_and_is_read_as_the_kill_with_and_without_it() {
    for target in [KillTarget::All, KillTarget::Key("alice".to_owned())] {
        let kill = StoreKill { target, why: "bill (killed by ann)".to_owned() };
        let record = serde_json::to_value(KillRecord { kill: &kill, at: 1_795_608_000_000 });
        let record = record.unwrap();
        assert_eq!(record["at"], 1_795_608_000_000_u64);
        assert_eq!(serde_json::from_value::<StoreKill>(record.clone()).unwrap(), kill);
        let past = PastKill { kill: kill.clone(), at: Some(WallTime(1_795_608_000_000)) };
        assert_eq!(PastKill::read(&record.to_string()), past);
        assert_eq!(PastKill::read(&json_of(&kill)), PastKill { at: None, ..past.clone() });
        // The store adds its order.
        let mut stored = record;
        stored["epoch"] = 1_795_608_000_123_u64.into();
        stored["after"] = 0.into();
        assert_eq!(PastKill::read(&stored.to_string()), past);
        let without = serde_json::to_value(&kill).unwrap();
        assert_eq!(serde_json::from_value::<StoreKill>(without).unwrap(), kill);
    }
}

#[test]
fn a_record_of_another_form_is_a_kill_of_all() {
    for record in [r#"{"target":{"planet":"x"},"why":"y"}"#, "none", ""] {
        let past = PastKill::read(record);
        assert_eq!((past.kill.target, past.at), (KillTarget::All, None), "{record}");
    }
}
