-- Several nodes in one file (see `claim_node`), and what a caller without rights may search:
-- `open_name` and `open_words`. The columns that are empty here are filled from the bodies.
CREATE TABLE node (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
INSERT INTO node (id, name) VALUES (1, '');
CREATE TABLE node_runs (
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
INSERT INTO node_runs
SELECT 1, id, began, state, grouped, NULL, name, '', path, '', models, words, '', body FROM runs;
DROP TABLE runs;
ALTER TABLE node_runs RENAME TO runs;
CREATE INDEX runs_by_begin ON runs (node, began);
CREATE INDEX runs_by_state ON runs (node, state);
CREATE TABLE node_run_tags (
    node INTEGER NOT NULL,
    run TEXT NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (node, run, tag)
) WITHOUT ROWID;
INSERT INTO node_run_tags SELECT 1, run, tag FROM run_tags;
DROP TABLE run_tags;
ALTER TABLE node_run_tags RENAME TO run_tags;
CREATE TABLE node_baselines (
    node INTEGER NOT NULL,
    name TEXT NOT NULL,
    at REAL NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (node, name)
);
INSERT INTO node_baselines SELECT 1, name, at, body FROM baselines;
DROP TABLE baselines;
ALTER TABLE node_baselines RENAME TO baselines;
