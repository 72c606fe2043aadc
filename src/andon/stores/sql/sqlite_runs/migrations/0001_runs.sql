-- The runs of any number of nodes. What a caller without rights may search: `open_name` and
-- `open_words`.
CREATE TABLE node (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
CREATE TABLE runs (
    node INTEGER NOT NULL,
    id TEXT NOT NULL,
    began REAL NOT NULL,
    state TEXT NOT NULL,
    grouped TEXT,
    user TEXT,
    name TEXT NOT NULL,
    open_name TEXT NOT NULL,
    path TEXT NOT NULL,
    devices TEXT NOT NULL,
    models TEXT NOT NULL,
    words TEXT NOT NULL,
    open_words TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (node, id)
);
CREATE INDEX runs_by_begin ON runs (node, began);
CREATE INDEX runs_by_state ON runs (node, state);
CREATE TABLE run_tags (
    node INTEGER NOT NULL,
    run TEXT NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (node, run, tag)
) WITHOUT ROWID;
CREATE TABLE baselines (
    node INTEGER NOT NULL,
    name TEXT NOT NULL,
    at REAL NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (node, name)
);
