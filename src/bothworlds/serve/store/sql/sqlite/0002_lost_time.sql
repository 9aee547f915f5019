-- A deployment begins a new incarnation when its store went back in time. The salt, 16 bytes, is
-- part of every signature; a former incarnation's ids are accepted up to `ended`, the newest one
-- that the store knows for certain. timeline: what PostgreSQL counts its histories by.
CREATE TABLE incarnation (
    salt BLOB PRIMARY KEY,
    started_at REAL NOT NULL,
    timeline TEXT,
    ended BLOB
) STRICT, WITHOUT ROWID;

-- Ids of earlier versions were signed without a salt, which is the same as zeros.
INSERT INTO incarnation SELECT zeroblob(16), 0.0, NULL, NULL FROM deployment;

-- Random bytes for every epoch and number of known arms, part of the signatures of their ids.
CREATE TABLE seal (
    experiment INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    known INTEGER NOT NULL,
    seal BLOB NOT NULL,
    PRIMARY KEY (experiment, epoch, known)
) STRICT, WITHOUT ROWID;

-- Retention has deleted feedback up to this id: no id up to it is learned from again.
CREATE TABLE forgotten (
    experiment INTEGER PRIMARY KEY,
    upto BLOB NOT NULL
) STRICT;

-- Feedback of a unit or a key (kind) in an hour, where an experiment has caps.
CREATE TABLE cap_use (
    experiment INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    hour INTEGER NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (experiment, kind, name, hour)
) STRICT, WITHOUT ROWID;
