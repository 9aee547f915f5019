-- Segments. id: 12 random bytes, new with every life of a name; entries: those of arms that were
-- added later, by place. An evicted segment has no state, and its name stays for the log.
CREATE TABLE segment (
    experiment BIGINT NOT NULL,
    id BYTEA NOT NULL,
    epoch BIGINT NOT NULL,
    name TEXT NOT NULL,
    entries BYTEA NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    evicted_at DOUBLE PRECISION,
    PRIMARY KEY (experiment, id)
);

CREATE UNIQUE INDEX segment_living ON segment (experiment, name) WHERE evicted_at IS NULL;

-- How often segments were created, changed or evicted.
ALTER TABLE deployment ADD COLUMN segments BIGINT NOT NULL DEFAULT 0;

-- A state is of a segment, or of all decisions of an experiment: then the segment is no bytes.
-- used_at: when the latest decision or feedback of a segment came.
ALTER TABLE state ADD COLUMN segment BYTEA NOT NULL DEFAULT '';
ALTER TABLE state ADD COLUMN used_at DOUBLE PRECISION NOT NULL DEFAULT 0;
ALTER TABLE state DROP CONSTRAINT state_pkey;
ALTER TABLE state ADD PRIMARY KEY (experiment, epoch, segment, shard);

ALTER TABLE compacted ADD COLUMN segment BYTEA NOT NULL DEFAULT '';
ALTER TABLE compacted DROP CONSTRAINT compacted_pkey;
ALTER TABLE compacted ADD PRIMARY KEY (experiment, epoch, segment);
