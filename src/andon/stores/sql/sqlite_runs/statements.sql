-- name: put
INSERT INTO runs (
    node, id, began, state, grouped, user, name, open_name, path, devices, models, words,
    open_words, body
) VALUES (
    :node, :id, :began, :state, :grouped, :user, :name, :open_name, :path, :devices, :models,
    :words, :open_words, :body
)
ON CONFLICT (node, id) DO UPDATE SET
    began = excluded.began, state = excluded.state, grouped = excluded.grouped,
    user = excluded.user, name = excluded.name, open_name = excluded.open_name,
    path = excluded.path, devices = excluded.devices, models = excluded.models,
    words = excluded.words, open_words = excluded.open_words, body = excluded.body

-- name: get
SELECT body FROM runs WHERE node = ? AND id = ?

-- name: matching
runs.node = :node
    AND (:since IS NULL OR began >= :since)
    AND (:until IS NULL OR began < :until)
    AND (:state IS NULL OR state = :state)
    AND (:group IS NULL
        OR grouped = :group AND (:everything OR user = :user OR open_name <> 'hidden'))
    AND (:not_user IS NULL OR user IS NOT :not_user)
    AND (:name IS NULL
        OR CASE WHEN :everything OR user = :user THEN name ELSE open_name END GLOB :name)
    AND (:on IS NULL OR json_extract(body, '$.node') = :on)
    AND (:model IS NULL OR instr(models, :model) > 0)
    AND (:words IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(:words) WHERE
            instr(CASE WHEN :everything OR user = :user THEN words ELSE open_words END, value) = 0
    ))
    AND (:tag IS NULL OR (:everything OR user = :user) AND EXISTS (
        SELECT 1 FROM run_tags AS own
        WHERE own.node = runs.node AND own.run = runs.id AND own.tag = :tag
    ))
    AND (:without IS NULL OR runs.id NOT IN (SELECT value FROM json_each(:without)))

-- name: find
SELECT body FROM runs WHERE {matching}
ORDER BY began DESC, id
LIMIT :limit OFFSET :offset

-- name: count
SELECT count(*) FROM runs WHERE {matching}

-- name: kinds
SELECT
    state,
    CASE WHEN :everything OR user = :user OR open_name <> 'hidden' THEN grouped END AS shown,
    devices,
    count(*)
FROM runs WHERE {matching}
GROUP BY state, shown, devices

-- name: tags
SELECT tag, count(*) FROM runs JOIN run_tags ON run_tags.node = runs.node AND run = runs.id
WHERE (:everything OR user = :user) AND {matching}
GROUP BY tag

-- name: beginning
SELECT body
FROM runs
WHERE node = :node AND id >= :beginning AND id < :after
ORDER BY id = :beginning DESC, began DESC, id
LIMIT :limit

-- name: paths
SELECT path, id FROM runs WHERE node = ?

-- name: states
SELECT id, state FROM runs WHERE node = ?

-- name: drop
DELETE FROM runs WHERE node = ? AND id = ?

-- name: drop_tags
DELETE FROM run_tags WHERE node = ? AND run = ?

-- name: put_tag
INSERT OR IGNORE INTO run_tags (node, run, tag) VALUES (?, ?, ?)

-- name: baselines
SELECT body FROM baselines WHERE node = ? ORDER BY name

-- name: put_baseline
INSERT OR REPLACE INTO baselines (node, name, at, body) VALUES (?, ?, ?, ?)

-- name: drop_baseline
DELETE FROM baselines WHERE node = ? AND name = ?
