-- Version 1: runs, what each cell of them found, and the figures that runs are compared by.

CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Which program understands `document`: models, peers, generators, study.
    kind TEXT NOT NULL,
    -- The experiment's name, or the file's.
    name TEXT NOT NULL,
    -- What repeats it.
    command TEXT NOT NULL,
    -- UTC, as 2026-11-21 09:30:00.
    started TEXT NOT NULL,
    -- running, complete, ended-early.
    state TEXT NOT NULL,
    -- Why it ended early.
    reason TEXT,
    -- Seconds of measuring, all attempts together.
    took_s REAL NOT NULL DEFAULT 0,
    -- Where its report is.
    folder TEXT NOT NULL,
    -- Which process measures it: boot, process id and start time, so that one that was killed is known.
    owner TEXT NOT NULL,
    -- One sentence of the answer.
    headline TEXT NOT NULL DEFAULT '',
    -- What is needed to go on, as JSON; absent where a run cannot be resumed.
    plan TEXT,
    -- All that was found, as JSON; absent until it has ended.
    document TEXT
) STRICT;

CREATE TABLE cell (
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    -- The experiment within the run.
    part TEXT NOT NULL,
    round INTEGER NOT NULL,
    target TEXT NOT NULL,
    load TEXT NOT NULL,
    -- What was found, its histogram of latencies included, as JSON.
    data TEXT NOT NULL,
    PRIMARY KEY (run, part, round, target, load)
) STRICT, WITHOUT ROWID;

CREATE TABLE value (
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    part TEXT NOT NULL,
    target TEXT NOT NULL,
    load TEXT NOT NULL,
    metric TEXT NOT NULL,
    round INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (run, part, target, load, metric, round)
) STRICT, WITHOUT ROWID;
