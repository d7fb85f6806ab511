CREATE TABLE act (
    number INTEGER PRIMARY KEY, run INTEGER NOT NULL, at INTEGER NOT NULL, who TEXT, what TEXT NOT NULL, detail TEXT,
    why TEXT
) STRICT;
CREATE TABLE call (
    number INTEGER PRIMARY KEY, run INTEGER NOT NULL, root INTEGER NOT NULL, at INTEGER NOT NULL,
    model TEXT, provider TEXT, tool TEXT, input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL,
    picos INTEGER NOT NULL, unconfirmed_picos INTEGER NOT NULL, is_priced INTEGER NOT NULL,
    is_estimate INTEGER NOT NULL, key TEXT, budgets TEXT, charge INTEGER
) STRICT;
CREATE TABLE journal (name TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT;
CREATE TABLE run (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL, process TEXT NOT NULL, root INTEGER, parent TEXT,
    kind TEXT NOT NULL, program TEXT NOT NULL, directory TEXT NOT NULL, agent TEXT NOT NULL,
    began INTEGER NOT NULL, ended INTEGER, status TEXT, reason TEXT, text TEXT
) STRICT;
CREATE INDEX act_by_run ON act (run);
CREATE INDEX act_by_time ON act (at);
CREATE INDEX call_by_root ON call (root);
CREATE INDEX call_by_time ON call (at);
CREATE INDEX run_by_id ON run (id);
CREATE INDEX run_by_root ON run (root) WHERE root IS NOT NULL;
PRAGMA application_id = 1701733480;
PRAGMA user_version = 2;
INSERT INTO run VALUES (1, 'nightly', 'process-1', NULL, NULL, 'run', 'agent', 'shop', 'main', 1793541910000, 1793541910020, 'stopped', 'user_requested', 'wrong repo (killed by ann)');
INSERT INTO run VALUES (2, 'nightly-1', 'process-1', 1, 'nightly', 'run', 'agent', 'shop', 'helper', 1793541910018, NULL, NULL, NULL, NULL);
INSERT INTO call VALUES (1, 1, 1, 1793541910016, 'gpt-5.2', 'openai', NULL, 10, 3, 2, 1000, 0, 1, 0, 'alice', '["me","org"]', NULL);
INSERT INTO call VALUES (2, 2, 1, 1793541910018, 'local-model', NULL, NULL, 5, 0, 1, 0, 0, 0, 1, NULL, NULL, 2);
INSERT INTO call VALUES (3, 1, 1, 1793541910019, NULL, NULL, 'search', 0, 0, 0, 2000, 2000, 1, 0, NULL, NULL, 3);
INSERT INTO act VALUES (1, 1, 1793541910001, 'ann', 'paused', NULL, 'lunch');
INSERT INTO act VALUES (2, 1, 1793541910005, 'bob', 'resumed', NULL, NULL);
INSERT INTO act VALUES (3, 1, 1793541910020, 'ann', 'killed', NULL, 'wrong repo');
