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
