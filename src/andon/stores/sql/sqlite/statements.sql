-- name: add_device
INSERT INTO device (node, uuid) VALUES (?, ?) ON CONFLICT (node, uuid) DO NOTHING;

-- name: describe_device
INSERT INTO device (node, uuid, position, vendor, name)
VALUES (:node, :uuid, :position, :vendor, :name)
ON CONFLICT (node, uuid) DO UPDATE SET position = :position, vendor = :vendor, name = :name;

-- name: list_devices
SELECT id, uuid, position, vendor, name FROM device WHERE node = ?;

-- name: add_series
INSERT INTO series (device, metric) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: list_series
SELECT device.uuid, series.metric, series.id FROM series JOIN device ON device.id = series.device
WHERE device.node = ?;

-- name: find_series
SELECT series.device, series.id FROM series JOIN device ON device.id = series.device
WHERE device.node = ? AND device.uuid = ? AND series.metric = ?;

-- name: put_head
INSERT OR REPLACE INTO head (node, at, device, body) VALUES (?, ?, ?, ?);

-- name: heads
SELECT at, body FROM head WHERE node = ? AND at >= ? AND at < ? ORDER BY at;

-- name: oldest_head
SELECT min(at) FROM head WHERE node = ? AND at >= ?;

-- name: head_span
SELECT min(at), max(at) FROM head WHERE node = ?;

-- name: clear_head
DELETE FROM head WHERE node = ? AND at >= ? AND at < ?;

-- name: put_block
INSERT OR REPLACE INTO block (series, tier, since, body) VALUES (?, ?, ?, ?);

-- name: blocks
SELECT since, body FROM block WHERE series = ? AND tier = ? AND since >= ? AND since < ?
ORDER BY since;

-- name: window_blocks
SELECT block.series, block.body FROM device JOIN series ON series.device = device.id
JOIN block ON block.series = series.id WHERE device.node = ? AND block.tier = ? AND block.since = ?;

-- name: next_block
SELECT min(since) FROM block WHERE tier = :tier AND since >= :after AND series IN (
    SELECT series.id FROM series JOIN device ON device.id = series.device WHERE device.node = :node
);

-- name: drop_blocks
DELETE FROM block WHERE series IN (
    SELECT series.id FROM series JOIN device ON device.id = series.device WHERE device.node = ?
) AND tier = ? AND since < ?;

-- name: extents
SELECT tier, since, until FROM extent WHERE node = ?;

-- name: put_extent
INSERT INTO extent (node, tier, since, until) VALUES (:node, :tier, :since, :until)
ON CONFLICT (node, tier) DO UPDATE SET since = min(since, :since), until = max(until, :until);

-- name: shorten_extent
UPDATE extent SET since = max(since, :since) WHERE node = :node AND tier = :tier;

-- name: end_extent
UPDATE extent SET until = coalesce((
    SELECT max(since) FROM block WHERE tier = :tier AND since <= :last AND series IN (
        SELECT series.id FROM series JOIN device ON device.id = series.device WHERE device.node = :node
    )
) + :length, since)
WHERE node = :node AND tier = :tier;

-- name: drop_extent
DELETE FROM extent WHERE node = :node AND tier = :tier AND until <= since;

-- name: put_usage
INSERT INTO use (device, pid, started, first, last, user, name, peak_memory_bytes)
VALUES (:device, :pid, :started, :first, :last, :user, :name, :peak)
ON CONFLICT (device, pid, started, first) DO UPDATE SET
    last = max(last, :last), user = :user, name = :name, peak_memory_bytes = :peak;

-- name: usage
SELECT device.uuid, pid, started, user, use.name, first, last, peak_memory_bytes
FROM use JOIN device ON device.id = use.device
WHERE device.node = :node AND (:uuid IS NULL OR device.uuid = :uuid)
    AND last >= :since AND first < :until;

-- name: drop_usage
DELETE FROM use WHERE device IN (SELECT id FROM device WHERE node = ?) AND last < ?;

-- name: put_state
INSERT OR REPLACE INTO alert_state (node, body) VALUES (?, ?);

-- name: get_state
SELECT body FROM alert_state WHERE node = ?;

-- name: put_outbox
INSERT INTO outbox (node, notice, notifier, due, body) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (node, notice, notifier) DO NOTHING;

-- name: outbox
SELECT notice, notifier, due, body FROM outbox WHERE node = ? ORDER BY position;

-- name: drop_outbox
DELETE FROM outbox WHERE node = ? AND notice = ? AND notifier = ?;

-- name: put_episode
INSERT OR REPLACE INTO episode
    (node, id, rule, subject, level, state, since, ended, body_length, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: episodes
SELECT body FROM episode
WHERE node = :node
    AND (:since IS NULL OR ended IS NULL OR ended >= :since)
    AND (:until IS NULL OR since < :until)
    AND (:state IS NULL OR state = :state)
    AND (:level IS NULL OR level = :level)
    AND (:rule IS NULL OR rule = :rule)
    AND (:subject IS NULL OR subject = :subject)
ORDER BY since DESC, id DESC LIMIT :limit;

-- name: old_episodes
DELETE FROM episode WHERE node = ? AND ended IS NOT NULL AND ended < ?;

-- name: weigh_episodes
SELECT id, body_length FROM episode WHERE node = ? ORDER BY since DESC, id DESC;

-- name: drop_episode
DELETE FROM episode WHERE node = ? AND id = ?;
