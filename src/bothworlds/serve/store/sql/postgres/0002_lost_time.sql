-- A deployment begins a new incarnation when its store went back in time. The salt, 16 bytes, is
-- part of every signature; a former incarnation's ids are accepted up to `ended`, the newest one
-- that the store knows for certain. timeline: what PostgreSQL counts its histories by.
CREATE TABLE incarnation (
    salt BYTEA PRIMARY KEY,
    started_at DOUBLE PRECISION NOT NULL,
    timeline TEXT,
    ended BYTEA
);

-- Ids of earlier versions were signed without a salt, which is the same as zeros.
INSERT INTO incarnation SELECT decode(repeat('00', 16), 'hex'), 0.0, NULL, NULL FROM deployment;

-- Random bytes for every epoch and number of known arms, part of the signatures of their ids.
CREATE TABLE seal (
    experiment BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    known BIGINT NOT NULL,
    seal BYTEA NOT NULL,
    PRIMARY KEY (experiment, epoch, known)
);

-- Retention has deleted feedback up to this id: no id up to it is learned from again.
CREATE TABLE forgotten (
    experiment BIGINT PRIMARY KEY,
    upto BYTEA NOT NULL
);

-- Feedback of a unit or a key (kind) in an hour, where an experiment has caps.
CREATE TABLE cap_use (
    experiment BIGINT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    hour BIGINT NOT NULL,
    used BIGINT NOT NULL,
    PRIMARY KEY (experiment, kind, name, hour)
);
