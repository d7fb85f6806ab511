//! Tests of `sqlite_file`.

use std::path::PathBuf;

use super::*;
use crate::store::RunId;

const FIRST: FileKind = FileKind {
    application_id: 77,
    schema: "CREATE TABLE one (amount INTEGER NOT NULL) STRICT; INSERT INTO one VALUES (5);",
    migrations: &[],
    synchronous: "NORMAL",
};

/// Two versions later.
const THIRD: FileKind = FileKind {
    migrations: &[
        "ALTER TABLE one ADD COLUMN why TEXT NOT NULL DEFAULT 'unknown';",
        "CREATE TABLE two (amount INTEGER NOT NULL) STRICT; INSERT INTO two SELECT amount * 2 FROM one;",
    ],
    ..FIRST
};

const PATIENCE: Duration = Duration::from_secs(30);

struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("endstop-sqlite-{}", RunId::new()));
        std::fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_new_file_that_many_open_at_once_belongs_to_no_other_program() {
    let place = Place::new();
    for file in 0..40 {
        let path = place.file(&file.to_string());
        let start = std::sync::Barrier::new(8);
        thread::scope(|scope| {
            let opened: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        open(&path, &THIRD, PATIENCE).map(|_| ())
                    })
                })
                .collect();
            for opened in opened {
                opened.join().unwrap().unwrap();
            }
        });
        let connection = open(&path, &THIRD, PATIENCE).unwrap();
        let amount: i64 =
            connection.query_row("SELECT amount FROM two", (), |row| row.get(0)).unwrap();
        assert_eq!(amount, 10, "the tables were created once");
    }
}

#[test]
fn a_file_of_an_earlier_version_is_migrated_with_its_rows() {
    let place = Place::new();
    let path = place.file("old");
    let old = open(&path, &FIRST, PATIENCE).unwrap();
    old.execute("UPDATE one SET amount = 8", ()).unwrap();
    drop(old);
    for _ in 0..2 {
        let new = open(&path, &THIRD, PATIENCE).unwrap();
        let row: (i64, String, i64) = new
            .query_row("SELECT one.amount, why, two.amount FROM one, two", (), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .unwrap();
        assert_eq!(row, (8, "unknown".to_owned(), 16));
    }
    let Err(OpenError::Newer { found, known }) = open(&path, &FIRST, PATIENCE) else {
        panic!("an earlier program opens a file of a later version")
    };
    assert_eq!((found, known), (3, 1));
}

#[test]
fn a_migration_that_fails_leaves_the_file_as_it_was() {
    const BROKEN: FileKind =
        FileKind { migrations: &["UPDATE one SET amount = 0;", "this is no SQL"], ..FIRST };
    let place = Place::new();
    let path = place.file("old");
    drop(open(&path, &FIRST, PATIENCE).unwrap());
    assert!(matches!(open(&path, &BROKEN, PATIENCE), Err(OpenError::Failed(_))));
    let same = open(&path, &FIRST, PATIENCE).unwrap();
    let amount: i64 = same.query_row("SELECT amount FROM one", (), |row| row.get(0)).unwrap();
    assert_eq!(amount, 5);
}
