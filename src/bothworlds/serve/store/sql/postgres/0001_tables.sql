-- Times are seconds since 1970, ids of decisions UUIDv7s, arrays little-endian 64-bit integers.

CREATE TABLE deployment (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    unit_key BYTEA NOT NULL,
    config_version BIGINT NOT NULL
);

CREATE TABLE tenant (
    id BIGINT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at DOUBLE PRECISION NOT NULL
);

CREATE TABLE api_key (
    id TEXT PRIMARY KEY,
    tenant BIGINT NOT NULL REFERENCES tenant (id),
    hash BYTEA NOT NULL,
    scopes TEXT NOT NULL,
    label TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    revoked_at DOUBLE PRECISION
);

CREATE TABLE token_key (
    id BIGINT PRIMARY KEY CHECK (id BETWEEN 1 AND 255),
    secret BYTEA NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    signs_until DOUBLE PRECISION
);

-- config: what `bothworlds.serve.config.Config` holds, as JSON.
CREATE TABLE experiment (
    id BIGINT PRIMARY KEY,
    tenant BIGINT NOT NULL REFERENCES tenant (id),
    name TEXT NOT NULL,
    config TEXT NOT NULL,
    mode TEXT NOT NULL
        CHECK (mode IN ('learn', 'pinned', 'uniform', 'paused', 'shadow', 'archived')),
    pinned BIGINT,
    epoch BIGINT NOT NULL,
    version BIGINT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    UNIQUE (tenant, name)
);

-- A retired arm keeps its place and its name: neither is used again.
CREATE TABLE arm (
    experiment BIGINT NOT NULL REFERENCES experiment (id),
    place BIGINT NOT NULL,
    name TEXT NOT NULL,
    value TEXT,
    status TEXT NOT NULL CHECK (status IN ('active', 'retired')),
    entry BIGINT NOT NULL,
    added_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (experiment, place),
    UNIQUE (experiment, name)
);

-- Each replica adds to rows of its own; the state of an experiment is their sum. A row is written
-- again and again: half of each page is left to its next versions.
CREATE TABLE state (
    experiment BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    shard BIGINT NOT NULL,
    version BIGINT NOT NULL,
    sums BYTEA NOT NULL,
    told BYTEA NOT NULL,
    lost BYTEA NOT NULL,
    decided BYTEA NOT NULL,
    learned BIGINT NOT NULL,
    rounds BIGINT NOT NULL,
    newest BIGINT NOT NULL,
    PRIMARY KEY (experiment, epoch, shard)
) WITH (fillfactor = 50);

-- What the feedback contributed that retention has deleted.
CREATE TABLE compacted (
    experiment BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    sums BYTEA NOT NULL,
    told BYTEA NOT NULL,
    lost BYTEA NOT NULL,
    learned BIGINT NOT NULL,
    PRIMARY KEY (experiment, epoch)
);

CREATE TABLE decision (
    experiment BIGINT NOT NULL,
    id BYTEA NOT NULL,
    record BYTEA NOT NULL,
    shard BIGINT NOT NULL,
    run BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    shadow TEXT,
    PRIMARY KEY (experiment, id)
);

CREATE TABLE feedback (
    experiment BIGINT NOT NULL,
    id BYTEA NOT NULL,
    epoch BIGINT NOT NULL,
    record BYTEA NOT NULL,
    loss DOUBLE PRECISION NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('client', 'sweep')),
    status TEXT NOT NULL CHECK (status IN ('learned', 'quarantined', 'not_learnable')),
    told_at DOUBLE PRECISION NOT NULL,
    key_id TEXT,
    PRIMARY KEY (experiment, id)
);

CREATE INDEX feedback_quarantined ON feedback (experiment, id) WHERE status = 'quarantined';

-- A request or a unit, and the decision it was given. kind: 'request' or 'unit'.
CREATE TABLE claim (
    experiment BIGINT NOT NULL,
    kind TEXT NOT NULL,
    hash BYTEA NOT NULL,
    fingerprint BYTEA NOT NULL,
    token TEXT NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (experiment, kind, hash)
);

CREATE INDEX claim_expires ON claim (expires_at);

CREATE TABLE activation (
    experiment BIGINT NOT NULL,
    id BYTEA NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (experiment, id)
);

CREATE TABLE sweep (
    experiment BIGINT PRIMARY KEY,
    swept BYTEA NOT NULL
);

CREATE TABLE checkpoint (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    experiment BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    round BIGINT NOT NULL,
    learned BIGINT NOT NULL,
    told BYTEA NOT NULL,
    lost BYTEA NOT NULL,
    probabilities BYTEA NOT NULL
);

CREATE INDEX checkpoint_of ON checkpoint (experiment, id);

CREATE TABLE audit (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at DOUBLE PRECISION NOT NULL,
    tenant BIGINT NOT NULL,
    key_id TEXT,
    action TEXT NOT NULL,
    experiment TEXT,
    request_id TEXT NOT NULL,
    change TEXT NOT NULL
);

-- A process that served: ended_at is set when it stopped with its log written.
CREATE TABLE run (
    shard BIGINT NOT NULL,
    run BIGINT NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION,
    PRIMARY KEY (shard, run)
);

-- Numbers of replicas. A replica holds an advisory lock on its number and writes now and then that
-- it lives; one that stops writes 0.
CREATE TABLE replica (
    shard BIGINT PRIMARY KEY,
    alive_at DOUBLE PRECISION NOT NULL
);
