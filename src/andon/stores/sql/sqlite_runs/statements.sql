-- name: put
INSERT INTO runs (id, began, name, state, grouped, path, models, words, body)
VALUES (:id, :began, :name, :state, :grouped, :path, :models, :words, :body)
ON CONFLICT (id) DO UPDATE SET
    began = excluded.began, name = excluded.name, state = excluded.state,
    grouped = excluded.grouped, path = excluded.path, models = excluded.models,
    words = excluded.words, body = excluded.body

-- name: get
SELECT body
FROM runs WHERE id = ?

-- name: find
SELECT body
FROM runs
WHERE (:since IS NULL OR began >= :since)
    AND (:until IS NULL OR began < :until)
    AND (:name IS NULL OR name GLOB :name)
    AND (:group IS NULL OR grouped = :group)
    AND (:state IS NULL OR state = :state)
    AND (:model IS NULL OR instr(models, :model) > 0)
    AND (:text IS NULL OR instr(words, :text) > 0)
    AND (:tag IS NULL OR EXISTS (SELECT 1 FROM run_tags WHERE run = id AND tag = :tag))
ORDER BY began DESC, id
LIMIT :limit OFFSET :offset

-- name: count
SELECT count(*)
FROM runs
WHERE (:since IS NULL OR began >= :since)
    AND (:until IS NULL OR began < :until)
    AND (:name IS NULL OR name GLOB :name)
    AND (:group IS NULL OR grouped = :group)
    AND (:state IS NULL OR state = :state)
    AND (:model IS NULL OR instr(models, :model) > 0)
    AND (:text IS NULL OR instr(words, :text) > 0)
    AND (:tag IS NULL OR EXISTS (SELECT 1 FROM run_tags WHERE run = id AND tag = :tag))

-- name: beginning
SELECT body
FROM runs
WHERE id >= :beginning AND id < :after
ORDER BY id = :beginning DESC, began DESC, id
LIMIT :limit

-- name: paths
SELECT path, id FROM runs

-- name: drop
DELETE FROM runs WHERE id = ?

-- name: drop_tags
DELETE FROM run_tags WHERE run = ?

-- name: put_tag
INSERT OR IGNORE INTO run_tags (run, tag) VALUES (?, ?)

-- name: baselines
SELECT body FROM baselines ORDER BY name

-- name: put_baseline
INSERT OR REPLACE INTO baselines (name, at, body) VALUES (?, ?, ?)

-- name: drop_baseline
DELETE FROM baselines WHERE name = ?
