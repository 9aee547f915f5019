-- Segments. id: 12 random bytes, new with every life of a name; entries: those of arms that were
-- added later, by place. An evicted segment has no state, and its name stays for the log.
CREATE TABLE segment (
    experiment INTEGER NOT NULL,
    id BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    name TEXT NOT NULL,
    entries BLOB NOT NULL,
    created_at REAL NOT NULL,
    evicted_at REAL,
    PRIMARY KEY (experiment, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX segment_living ON segment (experiment, name) WHERE evicted_at IS NULL;

-- How often segments were created, changed or evicted.
ALTER TABLE deployment ADD COLUMN segments INTEGER NOT NULL DEFAULT 0;

-- A state is of a segment, or of all decisions of an experiment: then the segment is no bytes.
-- used_at: when the latest decision or feedback of a segment came.
CREATE TABLE state_of_segment (
    experiment INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    segment BLOB NOT NULL,
    shard INTEGER NOT NULL,
    version INTEGER NOT NULL,
    sums BLOB NOT NULL,
    told BLOB NOT NULL,
    lost BLOB NOT NULL,
    decided BLOB NOT NULL,
    learned INTEGER NOT NULL,
    rounds INTEGER NOT NULL,
    newest INTEGER NOT NULL,
    used_at REAL NOT NULL,
    PRIMARY KEY (experiment, epoch, segment, shard)
) STRICT, WITHOUT ROWID;

INSERT INTO state_of_segment
    SELECT experiment, epoch, x'', shard, version, sums, told, lost, decided, learned, rounds,
        newest, 0.0
    FROM state;
DROP TABLE state;
ALTER TABLE state_of_segment RENAME TO state;

CREATE TABLE compacted_of_segment (
    experiment INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    segment BLOB NOT NULL,
    sums BLOB NOT NULL,
    told BLOB NOT NULL,
    lost BLOB NOT NULL,
    learned INTEGER NOT NULL,
    PRIMARY KEY (experiment, epoch, segment)
) STRICT, WITHOUT ROWID;

INSERT INTO compacted_of_segment
    SELECT experiment, epoch, x'', sums, told, lost, learned FROM compacted;
DROP TABLE compacted;
ALTER TABLE compacted_of_segment RENAME TO compacted;
