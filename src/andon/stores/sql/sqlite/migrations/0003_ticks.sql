-- A row holds a whole tick now, which is larger than a table without row numbers keeps in one piece.
-- `device` is the first of the tick's devices: ticks of other devices may have the same time.
CREATE TABLE tick (
    at INTEGER NOT NULL,
    device INTEGER NOT NULL,
    body BLOB NOT NULL
);
INSERT INTO tick (at, device, body) SELECT at, device, body FROM head ORDER BY at, device;
DROP TABLE head;
ALTER TABLE tick RENAME TO head;
CREATE UNIQUE INDEX head_place ON head (at, device);
