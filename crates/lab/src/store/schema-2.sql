-- Version 2: how far a run is, for those who look on.

-- Cells of the part of the run that is measured now, and those of them that are done.
ALTER TABLE run ADD COLUMN total INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN done INTEGER NOT NULL DEFAULT 0;
-- What is measured now, in words.
ALTER TABLE run ADD COLUMN doing TEXT NOT NULL DEFAULT '';
