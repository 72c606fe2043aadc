-- History and alerts of any number of nodes. Times of the history are milliseconds, all others UTC
-- seconds. A series, its blocks and an interval of use belong to the node of their device.
CREATE TABLE node (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
CREATE TABLE device (
    id INTEGER PRIMARY KEY,
    node INTEGER NOT NULL REFERENCES node,
    uuid TEXT NOT NULL,
    position INTEGER,
    vendor TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL DEFAULT '',
    UNIQUE (node, uuid)
);
-- A new reading is a new row: no table changes for it.
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES device,
    metric TEXT NOT NULL,
    UNIQUE (device, metric)
);
-- The ticks of the last minutes. A row holds a whole tick, which is larger than a table without row
-- numbers keeps in one piece. `device` is the first of the tick's devices: ticks of other devices
-- may have the same time.
CREATE TABLE head (
    node INTEGER NOT NULL,
    at INTEGER NOT NULL,
    device INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX head_place ON head (node, at, device);
-- Packed blocks in three tiers.
CREATE TABLE block (
    series INTEGER NOT NULL,
    tier INTEGER NOT NULL,
    since INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX block_place ON block (series, tier, since);
CREATE TABLE extent (
    node INTEGER NOT NULL,
    tier INTEGER NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (node, tier)
) WITHOUT ROWID;
-- Who was on a device: one row per process and unbroken interval.
CREATE TABLE use (
    device INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    started REAL NOT NULL,
    first REAL NOT NULL,
    last REAL NOT NULL,
    user TEXT,
    name TEXT,
    peak_memory_bytes INTEGER,
    PRIMARY KEY (device, pid, started, first)
) WITHOUT ROWID;
-- Current alerts (one row per node), pending notifications, and past alerts.
CREATE TABLE alert_state (
    node INTEGER PRIMARY KEY,
    body TEXT NOT NULL
);
CREATE TABLE outbox (
    position INTEGER PRIMARY KEY,
    node INTEGER NOT NULL,
    notice TEXT NOT NULL,
    notifier TEXT NOT NULL,
    due REAL NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (node, notice, notifier)
);
-- What still fires has no end.
CREATE TABLE episode (
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
CREATE INDEX episode_since ON episode (node, since, id, body_length);
