-- Experiments whose policies learn in the order of their feedback. The store numbers that feedback
-- and changes of the arms, by experiment and epoch; latest: the latest round known when it came.
ALTER TABLE feedback ADD COLUMN number INTEGER;
ALTER TABLE feedback ADD COLUMN latest INTEGER;

CREATE INDEX feedback_numbered ON feedback (experiment, epoch, number) WHERE number IS NOT NULL;

-- What was learned from the feedback up to a number, one row for all replicas.
CREATE TABLE fold (
    experiment INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (experiment, epoch)
) STRICT, WITHOUT ROWID;

-- Where the fold over the feedback that is still there begins: after the feedback that retention
-- has deleted. Feedback that was deleted then had numbers up to `until`.
CREATE TABLE fold_base (
    experiment INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    until INTEGER NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (experiment, epoch)
) STRICT, WITHOUT ROWID;

-- Arms that joined with some numbers, or left (null), and when in the order.
CREATE TABLE fold_arm (
    experiment INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    place INTEGER NOT NULL,
    joined BLOB,
    PRIMARY KEY (experiment, epoch, number)
) STRICT, WITHOUT ROWID;
