-- Times are seconds since 1970, ids of decisions UUIDv7s, arrays little-endian 64-bit integers.

CREATE TABLE deployment (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    unit_key BLOB NOT NULL,
    config_version INTEGER NOT NULL
) STRICT;

CREATE TABLE tenant (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at REAL NOT NULL
) STRICT;

CREATE TABLE api_key (
    id TEXT PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenant (id),
    hash BLOB NOT NULL,
    scopes TEXT NOT NULL,
    label TEXT NOT NULL,
    created_at REAL NOT NULL,
    revoked_at REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE token_key (
    id INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 255),
    secret BLOB NOT NULL,
    created_at REAL NOT NULL,
    signs_until REAL
) STRICT;

-- config: what `bothworlds.serve.config.Config` holds, as JSON.
CREATE TABLE experiment (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenant (id),
    name TEXT NOT NULL,
    config TEXT NOT NULL,
    mode TEXT NOT NULL
        CHECK (mode IN ('learn', 'pinned', 'uniform', 'paused', 'shadow', 'archived')),
    pinned INTEGER,
    epoch INTEGER NOT NULL,
    version INTEGER NOT NULL,
    created_at REAL NOT NULL,
    UNIQUE (tenant, name)
) STRICT;

-- A retired arm keeps its place and its name: neither is used again.
CREATE TABLE arm (
    experiment INTEGER NOT NULL REFERENCES experiment (id),
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT,
    status TEXT NOT NULL CHECK (status IN ('active', 'retired')),
    entry INTEGER NOT NULL,
    added_at REAL NOT NULL,
    PRIMARY KEY (experiment, place),
    UNIQUE (experiment, name)
) STRICT, WITHOUT ROWID;

-- Each replica adds to rows of its own; the state of an experiment is their sum.
CREATE TABLE state (
    experiment INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    version INTEGER NOT NULL,
    sums BLOB NOT NULL,
    told BLOB NOT NULL,
    lost BLOB NOT NULL,
    decided BLOB NOT NULL,
    learned INTEGER NOT NULL,
    rounds INTEGER NOT NULL,
    newest INTEGER NOT NULL,
    PRIMARY KEY (experiment, epoch, shard)
) STRICT, WITHOUT ROWID;

-- What the feedback contributed that retention has deleted.
CREATE TABLE compacted (
    experiment INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    sums BLOB NOT NULL,
    told BLOB NOT NULL,
    lost BLOB NOT NULL,
    learned INTEGER NOT NULL,
    PRIMARY KEY (experiment, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE decision (
    experiment INTEGER NOT NULL,
    id BLOB NOT NULL,
    record BLOB NOT NULL,
    shard INTEGER NOT NULL,
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    shadow TEXT,
    PRIMARY KEY (experiment, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE feedback (
    experiment INTEGER NOT NULL,
    id BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    record BLOB NOT NULL,
    loss REAL NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('client', 'sweep')),
    status TEXT NOT NULL CHECK (status IN ('learned', 'quarantined', 'not_learnable')),
    told_at REAL NOT NULL,
    key_id TEXT,
    PRIMARY KEY (experiment, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX feedback_quarantined ON feedback (experiment, id) WHERE status = 'quarantined';

-- A request or a unit, and the decision it was given. kind: 'request' or 'unit'.
CREATE TABLE claim (
    experiment INTEGER NOT NULL,
    kind TEXT NOT NULL,
    hash BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    token TEXT NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (experiment, kind, hash)
) STRICT, WITHOUT ROWID;

CREATE INDEX claim_expires ON claim (expires_at);

CREATE TABLE activation (
    experiment INTEGER NOT NULL,
    id BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (experiment, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sweep (
    experiment INTEGER PRIMARY KEY,
    swept BLOB NOT NULL
) STRICT;

CREATE TABLE checkpoint (
    id INTEGER PRIMARY KEY,
    experiment INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at REAL NOT NULL,
    round INTEGER NOT NULL,
    learned INTEGER NOT NULL,
    told BLOB NOT NULL,
    lost BLOB NOT NULL,
    probabilities BLOB NOT NULL
) STRICT;

CREATE INDEX checkpoint_of ON checkpoint (experiment, id);

CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    tenant INTEGER NOT NULL,
    key_id TEXT,
    action TEXT NOT NULL,
    experiment TEXT,
    request_id TEXT NOT NULL,
    change TEXT NOT NULL
) STRICT;

-- A process that served: ended_at is set when it stopped with its log written.
CREATE TABLE run (
    shard INTEGER NOT NULL,
    run INTEGER NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL,
    PRIMARY KEY (shard, run)
) STRICT, WITHOUT ROWID;
