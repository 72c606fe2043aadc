-- History, alerts and the index of runs of any number of nodes, and what a hub keeps. Times of the
-- history are milliseconds, all others UTC seconds.
CREATE TABLE node (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE
);
CREATE TABLE device (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node integer NOT NULL REFERENCES node,
    uuid text NOT NULL,
    position integer,
    vendor text NOT NULL DEFAULT '',
    name text NOT NULL DEFAULT '',
    UNIQUE (node, uuid)
);
CREATE TABLE series (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    device integer NOT NULL REFERENCES device,
    metric text NOT NULL,
    UNIQUE (device, metric)
);
-- Ticks, in a partition for each hour in which they were written, whatever their own time is. A
-- partition is dropped whole, so a packed tick stays until then: a tick counts only if its window
-- is in `unpacked` and its write came after the one that is named there.
CREATE SEQUENCE head_write;
CREATE TABLE head (
    hour integer NOT NULL,
    node integer NOT NULL,
    since bigint NOT NULL,
    at bigint NOT NULL,
    device integer NOT NULL,
    written bigint NOT NULL,
    body bytea NOT NULL
) PARTITION BY LIST (hour);
ALTER TABLE head ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX head_place ON head (node, at, device);
CREATE TABLE unpacked (
    node integer NOT NULL,
    since bigint NOT NULL,
    after bigint NOT NULL,
    PRIMARY KEY (node, since)
);
-- Blocks are compressed already.
CREATE TABLE block (
    since bigint NOT NULL,
    series integer NOT NULL,
    tier smallint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (series, tier, since)
);
ALTER TABLE block ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE extent (
    node integer NOT NULL,
    tier smallint NOT NULL,
    since bigint NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (node, tier)
);
CREATE TABLE use (
    device integer NOT NULL REFERENCES device,
    pid integer NOT NULL,
    started double precision NOT NULL,
    first double precision NOT NULL,
    last double precision NOT NULL,
    "user" text,
    name text,
    peak_memory_bytes bigint,
    PRIMARY KEY (device, pid, started, first)
);
CREATE TABLE alert_state (
    node integer PRIMARY KEY REFERENCES node,
    body text NOT NULL
);
CREATE TABLE outbox (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node integer NOT NULL REFERENCES node,
    notice text NOT NULL,
    notifier text NOT NULL,
    due double precision NOT NULL,
    body text NOT NULL,
    UNIQUE (node, notice, notifier)
);
CREATE TABLE episode (
    node integer NOT NULL REFERENCES node,
    id text COLLATE "C" NOT NULL,
    rule text NOT NULL,
    subject text NOT NULL,
    level text NOT NULL,
    state text NOT NULL,
    since double precision NOT NULL,
    ended double precision,
    body_length integer NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (node, id)
);
CREATE INDEX episode_since ON episode (node, since, id, body_length);
CREATE TABLE runs (
    node integer NOT NULL REFERENCES node,
    id text COLLATE "C" NOT NULL,
    began double precision NOT NULL,
    state text NOT NULL,
    grouped text,
    "user" text,
    name text NOT NULL,
    open_name text NOT NULL,
    path text NOT NULL,
    devices text NOT NULL,
    models text NOT NULL,
    words text NOT NULL,
    open_words text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (node, id)
);
CREATE INDEX runs_by_begin ON runs (node, began);
CREATE INDEX runs_by_state ON runs (node, state);
CREATE TABLE run_tags (
    node integer NOT NULL,
    run text COLLATE "C" NOT NULL,
    tag text NOT NULL,
    PRIMARY KEY (node, run, tag)
);
CREATE TABLE baselines (
    node integer NOT NULL REFERENCES node,
    name text COLLATE "C" NOT NULL,
    at double precision NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (node, name)
);
-- The nodes that may report to a hub, with the digest of their last heartbeats. These rows change with
-- every heartbeat: room in each page lets PostgreSQL do that in place.
CREATE TABLE fleet_node (
    node integer PRIMARY KEY REFERENCES node,
    token_hash text NOT NULL UNIQUE,
    added double precision NOT NULL,
    drained boolean NOT NULL,
    session text,
    sequence bigint,
    heard double precision,
    sent double precision,
    digest bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
-- The other parts of heartbeats, deflated by the node, in a partition for each hour.
CREATE TABLE beat (
    hour integer NOT NULL,
    node integer NOT NULL,
    session text NOT NULL,
    sequence bigint NOT NULL,
    at double precision NOT NULL,
    sent double precision NOT NULL,
    snapshot bytea NOT NULL,
    ticks bytea NOT NULL
) PARTITION BY LIST (hour);
ALTER TABLE beat ALTER COLUMN snapshot SET STORAGE EXTERNAL;
ALTER TABLE beat ALTER COLUMN ticks SET STORAGE EXTERNAL;
CREATE INDEX beat_place ON beat (node, sequence);
-- Heartbeats with notices for people, until the hub that leads has taken them.
CREATE TABLE news (
    node integer NOT NULL REFERENCES node,
    session text NOT NULL,
    sequence bigint NOT NULL,
    at double precision NOT NULL,
    snapshot bytea NOT NULL,
    PRIMARY KEY (node, session, sequence)
);
-- Tokens of people and programs, with what each may do.
CREATE TABLE named_token (
    name text COLLATE "C" PRIMARY KEY,
    hash text NOT NULL UNIQUE,
    role text NOT NULL,
    added double precision NOT NULL
);
