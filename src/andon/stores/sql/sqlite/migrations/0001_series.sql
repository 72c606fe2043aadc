-- Devices, their series, the ticks of the last minutes, and packed blocks in three tiers.
-- A new reading is a new row in `series`: no table changes for it.
CREATE TABLE device (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    position INTEGER,
    vendor TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL DEFAULT ''
);
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES device,
    metric TEXT NOT NULL,
    UNIQUE (device, metric)
);
-- Times are milliseconds. In order of time, so that a tick touches few pages.
CREATE TABLE head (
    at INTEGER NOT NULL,
    device INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (at, device)
) WITHOUT ROWID;
CREATE TABLE block (
    series INTEGER NOT NULL,
    tier INTEGER NOT NULL,
    since INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX block_place ON block (series, tier, since);
CREATE TABLE extent (
    tier INTEGER PRIMARY KEY,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL
);
