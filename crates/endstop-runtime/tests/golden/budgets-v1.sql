CREATE TABLE adjustment (
    id TEXT PRIMARY KEY NOT NULL, at INTEGER NOT NULL, account TEXT NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL,
    spent TEXT NOT NULL, returned TEXT NOT NULL
) STRICT;
CREATE TABLE clock (latest INTEGER NOT NULL) STRICT;
CREATE TABLE counter (
    account TEXT NOT NULL, kind TEXT NOT NULL, ended INTEGER NOT NULL, begun INTEGER NOT NULL,
    settled_steps INTEGER NOT NULL, settled_tokens INTEGER NOT NULL, settled_picos INTEGER NOT NULL,
    held_steps INTEGER NOT NULL, held_tokens INTEGER NOT NULL, held_picos INTEGER NOT NULL,
    unconfirmed_steps INTEGER NOT NULL, unconfirmed_tokens INTEGER NOT NULL,
    unconfirmed_picos INTEGER NOT NULL,
    PRIMARY KEY (account, kind, ended, begun)
) STRICT, WITHOUT ROWID;
CREATE TABLE hold (
    id TEXT PRIMARY KEY NOT NULL, owner TEXT NOT NULL, expires INTEGER NOT NULL, state INTEGER NOT NULL,
    steps INTEGER NOT NULL, tokens INTEGER NOT NULL, picos INTEGER NOT NULL, places TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX held ON hold (expires) WHERE state = 0;
PRAGMA application_id = 1701733474;
PRAGMA user_version = 1;
INSERT INTO clock VALUES (1795636861000);
INSERT INTO counter VALUES ('me', 'day', 1795651200000, 1795564800000, 2, 7, 140000000000, 1, 0, 100000000000, 1, 0, 100000000000);
INSERT INTO counter VALUES ('me', 'rolling 5h', 1795637100000, 1795636800000, 2, 7, 140000000000, 1, 0, 100000000000, 1, 0, 100000000000);
INSERT INTO hold VALUES ('expired', 'pid 7', 1795636860000, 1, 1, 0, 100000000000, '[{"account":"me","kind":"day","end":1795651200000,"start":1795564800000},{"account":"me","kind":"rolling 5h","end":1795637100000,"start":1795636800000}]');
INSERT INTO hold VALUES ('held', 'pid 7', 1795636921000, 0, 1, 0, 100000000000, '[{"account":"me","kind":"day","end":1795651200000,"start":1795564800000},{"account":"me","kind":"rolling 5h","end":1795637100000,"start":1795636800000}]');
INSERT INTO hold VALUES ('settled', 'pid 7', 1795636861000, 2, 1, 0, 100000000000, '[{"account":"me","kind":"day","end":1795651200000,"start":1795564800000},{"account":"me","kind":"rolling 5h","end":1795637100000,"start":1795636800000}]');
INSERT INTO adjustment VALUES ('adjust-1', 1795636861000, 'me', 'ann', 'spent elsewhere', '{"steps":0,"attempts":0,"tool_calls":0,"tokens":7,"cost_picos":10000000000}', '{"steps":0,"attempts":0,"tool_calls":0,"tokens":0,"cost_picos":0}');
