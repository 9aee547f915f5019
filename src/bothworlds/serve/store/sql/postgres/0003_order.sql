-- Experiments whose policies learn in the order of their feedback. The store numbers that feedback
-- and changes of the arms, by experiment and epoch; latest: the latest round known when it came.
ALTER TABLE feedback ADD COLUMN number BIGINT;
ALTER TABLE feedback ADD COLUMN latest BIGINT;

CREATE INDEX feedback_numbered ON feedback (experiment, epoch, number) WHERE number IS NOT NULL;

-- What was learned from the feedback up to a number, one row for all replicas. A row is written
-- again and again: half of each page is left to its next versions.
CREATE TABLE fold (
    experiment BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    number BIGINT NOT NULL,
    state BYTEA NOT NULL,
    PRIMARY KEY (experiment, epoch)
) WITH (fillfactor = 50);

-- Where the fold over the feedback that is still there begins: after the feedback that retention
-- has deleted. Feedback that was deleted then had numbers up to `until`.
CREATE TABLE fold_base (
    experiment BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    number BIGINT NOT NULL,
    until BIGINT NOT NULL,
    state BYTEA NOT NULL,
    PRIMARY KEY (experiment, epoch)
);

-- Arms that joined with some numbers, or left (null), and when in the order.
CREATE TABLE fold_arm (
    experiment BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    number BIGINT NOT NULL,
    place BIGINT NOT NULL,
    joined BYTEA,
    PRIMARY KEY (experiment, epoch, number)
);
