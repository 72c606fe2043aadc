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
