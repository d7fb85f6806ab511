CREATE TABLE state (
    run TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL,
    saved_at INTEGER NOT NULL,
    label TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE TABLE trace (
    run TEXT NOT NULL,
    line INTEGER NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (run, line)
) STRICT;
PRAGMA application_id = 1701733491;
PRAGMA user_version = 1;
INSERT INTO state VALUES ('nightly-17', 2, 1796040000000, 'the nightly check', 65, '{"version":1,"label":"the nightly\tcheck","messages":["grüße"]}');
INSERT INTO trace VALUES ('nightly-17', 0, '{"endstop_trace":1,"run":"nightly-17"}');
INSERT INTO trace VALUES ('nightly-17', 1, '{"at_ms":0}');
INSERT INTO trace VALUES ('nightly-17', 2, 'no object');
INSERT INTO trace VALUES ('nightly-17', 3, '');
INSERT INTO trace VALUES ('nightly-17', 4, '{"line":"grüße"}');
