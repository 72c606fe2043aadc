-- Several nodes in one file. What it had before belongs to a node without a name: see `claim_node`.
-- A series, its blocks and an interval of use belong to the node of their device.
CREATE TABLE node (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
INSERT INTO node (id, name) VALUES (1, '');
CREATE TABLE node_device (
    id INTEGER PRIMARY KEY,
    node INTEGER NOT NULL REFERENCES node,
    uuid TEXT NOT NULL,
    position INTEGER,
    vendor TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL DEFAULT '',
    UNIQUE (node, uuid)
);
INSERT INTO node_device SELECT id, 1, uuid, position, vendor, name FROM device;
DROP TABLE device;
ALTER TABLE node_device RENAME TO device;
ALTER TABLE head ADD COLUMN node INTEGER NOT NULL DEFAULT 1;
DROP INDEX head_place;
CREATE UNIQUE INDEX head_place ON head (node, at, device);
CREATE TABLE node_extent (
    node INTEGER NOT NULL,
    tier INTEGER NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (node, tier)
) WITHOUT ROWID;
INSERT INTO node_extent SELECT 1, tier, since, until FROM extent;
DROP TABLE extent;
ALTER TABLE node_extent RENAME TO extent;
-- Current alerts have one row per node now.
CREATE TABLE node_alert_state (
    node INTEGER PRIMARY KEY,
    body TEXT NOT NULL
);
INSERT INTO node_alert_state SELECT id, body FROM alert_state;
DROP TABLE alert_state;
ALTER TABLE node_alert_state RENAME TO alert_state;
CREATE TABLE node_outbox (
    position INTEGER PRIMARY KEY,
    node INTEGER NOT NULL,
    notice TEXT NOT NULL,
    notifier TEXT NOT NULL,
    due REAL NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (node, notice, notifier)
);
INSERT INTO node_outbox SELECT position, 1, notice, notifier, due, body FROM outbox;
DROP TABLE outbox;
ALTER TABLE node_outbox RENAME TO outbox;
CREATE TABLE node_episode (
    node INTEGER NOT NULL,
    id TEXT NOT NULL,
    rule TEXT NOT NULL,
    subject TEXT NOT NULL,
    level TEXT NOT NULL,
    state TEXT NOT NULL,
    since REAL NOT NULL,
    ended REAL,
    body_length INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (node, id)
);
INSERT INTO node_episode
SELECT 1, id, rule, subject, level, state, since, ended, body_length, body FROM episode;
DROP TABLE episode;
ALTER TABLE node_episode RENAME TO episode;
CREATE INDEX episode_since ON episode (node, since, id, body_length);
