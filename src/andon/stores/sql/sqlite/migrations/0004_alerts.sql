-- Current alerts (one row), pending notifications, and past alerts.
CREATE TABLE alert_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    body TEXT NOT NULL
);
CREATE TABLE errand (
    position INTEGER PRIMARY KEY,
    notice TEXT NOT NULL,
    notifier TEXT NOT NULL,
    due REAL NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (notice, notifier)
);
-- Times are UTC seconds; what still fires has no end. The weight is the length of the body.
CREATE TABLE episode (
    id TEXT NOT NULL UNIQUE,
    rule TEXT NOT NULL,
    subject TEXT NOT NULL,
    level TEXT NOT NULL,
    state TEXT NOT NULL,
    since REAL NOT NULL,
    ended REAL,
    weight INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX episode_since ON episode (since, id, weight);
