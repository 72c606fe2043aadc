-- Who was on a device: one row per process and unbroken interval. Times are UTC seconds.
CREATE TABLE use (
    device INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    started REAL NOT NULL,
    first REAL NOT NULL,
    last REAL NOT NULL,
    user TEXT,
    name TEXT,
    peak_memory_bytes INTEGER,
    PRIMARY KEY (device, pid, started, first)
) WITHOUT ROWID;
