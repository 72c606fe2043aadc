CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    began REAL NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    grouped TEXT,
    path TEXT NOT NULL,
    models TEXT NOT NULL,
    words TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX runs_by_begin ON runs (began);

CREATE INDEX runs_by_state ON runs (state);

CREATE TABLE run_tags (
    run TEXT NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (run, tag)
) WITHOUT ROWID;

CREATE TABLE baselines (
    name TEXT PRIMARY KEY,
    at REAL NOT NULL,
    body TEXT NOT NULL
);
