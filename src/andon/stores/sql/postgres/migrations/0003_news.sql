-- Heartbeats with notices for people, until the hub that leads has taken them.
CREATE TABLE news (
    node integer NOT NULL REFERENCES node,
    session text NOT NULL,
    sequence bigint NOT NULL,
    at double precision NOT NULL,
    snapshot bytea NOT NULL,
    PRIMARY KEY (node, session, sequence)
);
