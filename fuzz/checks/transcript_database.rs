//! The readers of databases: never panic, whatever the records in one are. Bytes at random are no database, so this target
//! creates one with the tables that the readers ask for.

use endstop::core::Event;
use endstop_price::PriceTable;
use endstop_transcript::{
    FORMATS, Format, Part, RunFooter, RunHeader, RunSink, Transcript, Warning,
};
use rusqlite::types::Value;
use rusqlite::{Connection, params};

/// Ends a record in the bytes: it is in no text.
const END: u8 = 0xff;

#[derive(Default)]
struct Counting {
    runs: u64,
    ends: u64,
}

impl RunSink for Counting {
    fn begin(&mut self, _run: &RunHeader<'_>) {
        self.runs += 1;
    }

    fn event(&mut self, _event: &Event<'_>) {}

    fn end(&mut self, _end: &RunFooter<'_>) {
        self.ends += 1;
    }

    fn warn(&mut self, _warning: Warning) {}
}

/// A record as a text, or as bytes if it is none.
fn value(record: &[u8]) -> Value {
    match std::str::from_utf8(record) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Blob(record.to_vec()),
    }
}

/// Reads what a connection has as a database of the format; the number of runs.
fn read(format: &'static Format, connection: &mut Connection) -> u64 {
    let bytes = connection.serialize("main").unwrap().to_vec();
    let mut counting = Counting::default();
    let transcript = Transcript { format, main: Part::bytes("fuzz", bytes), children: Vec::new() };
    transcript.read(PriceTable::embedded(), &mut counting);
    assert_eq!(counting.runs, counting.ends, "{}", format.id());
    counting.runs
}

fn cursor(connection: &Connection, records: &[&[u8]]) {
    connection.execute_batch("CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB)").unwrap();
    let insert = "INSERT OR REPLACE INTO cursorDiskKV VALUES (?1, ?2)";
    let (composers, messages) = records.split_at(records.len().min(2));
    for (place, record) in composers.iter().enumerate() {
        let key = format!("composerData:{place}");
        connection.execute(insert, params![key, value(record)]).unwrap();
    }
    // The conversation decides which of them it names.
    for (place, record) in messages.iter().enumerate() {
        for composer in 0..2 {
            let key = format!("bubbleId:{composer}:{place}");
            connection.execute(insert, params![key, value(record)]).unwrap();
        }
    }
    let listed =
        r#"{"composerId":"0","fullConversationHeadersOnly":[{"bubbleId":"0"},{"bubbleId":"1"}]}"#;
    connection.execute(insert, params!["composerData:2", listed]).unwrap();
}

fn opencode(connection: &Connection, records: &[&[u8]]) {
    let tables =
        "CREATE TABLE session (id TEXT, project_id TEXT, parent_id TEXT, time_created INTEGER);
        CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
        CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);
        INSERT INTO session VALUES ('a', 'p', NULL, 1), ('b', 'p', 'a', 2), ('c', 'p', 'c', 3);";
    connection.execute_batch(tables).unwrap();
    for (place, record) in records.iter().enumerate() {
        let session = ["a", "b", "c"][place % 3];
        // Every third record is a message, and the others are parts of it.
        let message = place / 3;
        if place % 3 == 0 {
            let insert = "INSERT INTO message VALUES (?1, ?2, ?3, ?4)";
            let row = params![message.to_string(), session, message as i64, value(record)];
            connection.execute(insert, row).unwrap();
        } else {
            let insert = "INSERT INTO part VALUES (?1, ?2, ?3, ?4)";
            let row = params![place.to_string(), message.to_string(), session, value(record)];
            connection.execute(insert, row).unwrap();
        }
    }
}

/// Panics if the reader breaks its promise.
pub(crate) fn check(bytes: &[u8]) {
    let records: Vec<&[u8]> = bytes.split(|byte| *byte == END).take(64).collect();
    for format in FORMATS {
        let fill = match format.id() {
            "cursor" => cursor,
            "opencode-db" => opencode,
            _ => continue,
        };
        let mut connection = Connection::open_in_memory().unwrap();
        fill(&connection, &records);
        read(format, &mut connection);
    }
}
