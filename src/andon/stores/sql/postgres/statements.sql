-- name: lock_node
SELECT pg_advisory_xact_lock(hashtext('andon'), %s)

-- name: add_device
INSERT INTO device (node, uuid) VALUES (%s, %s) ON CONFLICT (node, uuid) DO NOTHING

-- name: describe_device
INSERT INTO device (node, uuid, position, vendor, name)
VALUES (%(node)s, %(uuid)s, %(position)s, %(vendor)s, %(name)s)
ON CONFLICT (node, uuid) DO UPDATE SET
    position = excluded.position, vendor = excluded.vendor, name = excluded.name

-- name: list_devices
SELECT id, uuid, position, vendor, name FROM device WHERE node = %s

-- name: add_series
INSERT INTO series (device, metric) VALUES (%s, %s) ON CONFLICT DO NOTHING

-- name: list_series
SELECT device.uuid, series.metric, series.id FROM series JOIN device ON device.id = series.device
WHERE device.node = %s

-- name: find_series
SELECT series.device, series.id FROM series JOIN device ON device.id = series.device
WHERE device.node = %s AND device.uuid = %s AND series.metric = %s

-- name: next_write
SELECT floor(extract(epoch FROM now()) / 3600)::integer, nextval('head_write')

-- name: partitions
SELECT floor(extract(epoch FROM now()) / 3600)::integer, ARRAY(
    SELECT relname::text FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = %s::text::regclass
)

-- name: size_of
SELECT pg_total_relation_size(%s::text::regclass)

-- name: lock_partitions
SELECT pg_advisory_xact_lock(hashtext('andon partitions'))

-- name: put_unpacked
INSERT INTO unpacked (node, since, after) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING

-- name: put_head
INSERT INTO head (hour, node, since, at, device, written, body)
SELECT %(hour)s, %(node)s, %(since)s, %(at)s, %(device)s, %(written)s, %(body)s
WHERE NOT EXISTS (
    SELECT 1 FROM head WHERE node = %(node)s AND at = %(at)s AND device = %(device)s
)

-- name: heads
SELECT head.at, head.body FROM head JOIN unpacked USING (node, since)
WHERE node = %s AND at >= %s AND at < %s AND written > after ORDER BY at, written

-- name: cut_heads
-- A row is the number of its series, their ids of 4 bytes each and their values of 8 bytes each. An
-- id that is found across two others may also come later: then the whole row is returned.
SELECT at, CASE WHEN place %% 4 = 1
    THEN substring(body FROM 3 + 4 * count + 2 * (place - 1) FOR 8) ELSE body END
FROM (
    SELECT *, position(id IN substring(body FROM 3 FOR 4 * count)) AS place
    FROM (
        SELECT at, written, body, get_byte(body, 0) + 256 * get_byte(body, 1) AS count, id
        FROM head JOIN unpacked USING (node, since), (
            SELECT %s::integer AS asked, %s::bigint AS begins, %s::bigint AS ends, %s::bytea AS id
        ) AS given
        WHERE node = asked AND at >= begins AND at < ends AND written > after
    ) AS counted
) AS placed
WHERE place > 0 ORDER BY at, written

-- name: unpacked
SELECT since FROM unpacked WHERE node = %s ORDER BY since

-- name: clear_head
DELETE FROM unpacked WHERE node = %s AND since >= %s AND since < %s

-- name: put_block
INSERT INTO block (series, tier, since, body) VALUES (%s, %s, %s, %s)
ON CONFLICT (series, tier, since) DO UPDATE SET body = excluded.body

-- name: put_block_rows
INSERT INTO block (series, tier, since, body)
SELECT * FROM unnest(%b::integer[], %b::smallint[], %b::bigint[], %b::bytea[])
ON CONFLICT (series, tier, since) DO UPDATE SET body = excluded.body

-- name: blocks
SELECT since, body FROM block WHERE series = %s AND tier = %s AND since >= %s AND since < %s
ORDER BY since

-- name: fleet_blocks
-- Minutes where there are some, and finer ones after them.
SELECT node.name, block.tier, block.since, block.body
FROM node JOIN device ON device.node = node.id JOIN series ON series.device = device.id
LEFT JOIN extent AS minutes ON minutes.node = node.id AND minutes.tier = 1
JOIN block ON block.series = series.id AND block.tier < 2 AND block.since < %(until)s
    AND block.since >= CASE block.tier WHEN 1 THEN %(since)s ELSE coalesce(minutes.until, %(since)s) END
WHERE node.name = ANY(%(nodes)s::text[]) AND series.metric = %(metric)s

-- name: window_blocks
SELECT block.series, block.body FROM device JOIN series ON series.device = device.id
JOIN block ON block.series = series.id
WHERE device.node = %s AND block.tier = %s AND block.since = %s

-- name: next_block
SELECT min(since) FROM block WHERE tier = %(tier)s AND since >= %(after)s AND series IN (
    SELECT series.id FROM series JOIN device ON device.id = series.device
    WHERE device.node = %(node)s
)

-- name: drop_blocks
DELETE FROM block WHERE series IN (
    SELECT series.id FROM series JOIN device ON device.id = series.device WHERE device.node = %s
) AND tier = %s AND since < %s

-- name: used_bytes
-- A row has 28 bytes of its own and 14 of numbers, its place in the index about 24.
SELECT coalesce(sum(octet_length(body) + 66), 0)::bigint FROM block WHERE series IN (
    SELECT series.id FROM series JOIN device ON device.id = series.device WHERE device.node = %s
)

-- name: extents
SELECT tier, since, until FROM extent WHERE node = %s

-- name: put_extent
INSERT INTO extent (node, tier, since, until)
VALUES (%(node)s, %(tier)s, %(since)s, %(until)s)
ON CONFLICT (node, tier) DO UPDATE SET
    since = least(extent.since, excluded.since), until = greatest(extent.until, excluded.until)

-- name: shorten_extent
UPDATE extent SET since = greatest(since, %(since)s) WHERE node = %(node)s AND tier = %(tier)s

-- name: end_extent
UPDATE extent SET until = coalesce((
    SELECT max(since) FROM block WHERE tier = %(tier)s AND since <= %(last)s AND series IN (
        SELECT series.id FROM series JOIN device ON device.id = series.device
        WHERE device.node = %(node)s
    )
) + %(length)s, since)
WHERE node = %(node)s AND tier = %(tier)s

-- name: drop_extent
DELETE FROM extent WHERE node = %(node)s AND tier = %(tier)s AND until <= since

-- name: put_usage
INSERT INTO use (device, pid, started, first, last, "user", name, peak_memory_bytes)
VALUES (%(device)s, %(pid)s, %(started)s, %(first)s, %(last)s, %(user)s, %(name)s, %(peak)s)
ON CONFLICT (device, pid, started, first) DO UPDATE SET
    last = greatest(use.last, excluded.last), "user" = excluded."user", name = excluded.name,
    peak_memory_bytes = excluded.peak_memory_bytes

-- name: usage
SELECT device.uuid, pid, started, "user", use.name, first, last, peak_memory_bytes
FROM use JOIN device ON device.id = use.device
WHERE device.node = %(node)s AND (%(uuid)s::text IS NULL OR device.uuid = %(uuid)s)
    AND last >= %(since)s AND first < %(until)s

-- name: drop_usage
DELETE FROM use WHERE device IN (SELECT id FROM device WHERE node = %s) AND last < %s

-- name: put_state
INSERT INTO alert_state (node, body) VALUES (%s, %s)
ON CONFLICT (node) DO UPDATE SET body = excluded.body

-- name: get_state
SELECT body FROM alert_state WHERE node = %s

-- name: put_outbox
INSERT INTO outbox (node, notice, notifier, due, body) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (node, notice, notifier) DO NOTHING

-- name: outbox
SELECT notice, notifier, due, body FROM outbox WHERE node = %s ORDER BY position

-- name: drop_outbox
DELETE FROM outbox WHERE node = %s AND notice = %s AND notifier = %s

-- name: put_episode
INSERT INTO episode (node, id, rule, subject, level, state, since, ended, body_length, body)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (node, id) DO UPDATE SET
    rule = excluded.rule, subject = excluded.subject, level = excluded.level,
    state = excluded.state, since = excluded.since, ended = excluded.ended,
    body_length = excluded.body_length, body = excluded.body

-- name: episodes
SELECT body FROM episode
WHERE node = %(node)s
    AND (%(since)s::double precision IS NULL OR ended IS NULL OR ended >= %(since)s)
    AND (%(until)s::double precision IS NULL OR since < %(until)s)
    AND (%(state)s::text IS NULL OR state = %(state)s)
    AND (%(level)s::text IS NULL OR level = %(level)s)
    AND (%(rule)s::text IS NULL OR rule = %(rule)s)
    AND (%(subject)s::text IS NULL OR subject = %(subject)s)
ORDER BY since DESC, id DESC LIMIT %(limit)s

-- name: old_episodes
DELETE FROM episode WHERE node = %s AND ended IS NOT NULL AND ended < %s

-- name: weigh_episodes
SELECT id, body_length FROM episode WHERE node = %s ORDER BY since DESC, id DESC

-- name: drop_episode
DELETE FROM episode WHERE node = %s AND id = %s

-- name: put
INSERT INTO runs (
    node, id, began, state, grouped, "user", name, open_name, path, devices, models, words,
    open_words, body
) VALUES (
    %(node)s, %(id)s, %(began)s, %(state)s, %(grouped)s, %(user)s, %(name)s, %(open_name)s,
    %(path)s, %(devices)s, %(models)s, %(words)s, %(open_words)s, %(body)s
)
ON CONFLICT (node, id) DO UPDATE SET
    began = excluded.began, state = excluded.state, grouped = excluded.grouped,
    "user" = excluded."user", name = excluded.name, open_name = excluded.open_name,
    path = excluded.path, devices = excluded.devices, models = excluded.models,
    words = excluded.words, open_words = excluded.open_words, body = excluded.body

-- name: get
SELECT body FROM runs WHERE node = %s AND id = %s

-- name: matching
-- Without a node, the runs of all of them.
(%(node)s::integer IS NULL OR runs.node = %(node)s)
    AND (%(since)s::double precision IS NULL OR began >= %(since)s)
    AND (%(until)s::double precision IS NULL OR began < %(until)s)
    AND (%(state)s::text IS NULL OR state = %(state)s)
    AND (%(group)s::text IS NULL OR grouped = %(group)s
        AND (%(everything)s OR "user" = %(user)s::text OR open_name <> 'hidden'))
    AND (%(not_user)s::text IS NULL OR "user" IS DISTINCT FROM %(not_user)s)
    AND (%(name)s::text IS NULL OR CASE
        WHEN %(everything)s OR "user" = %(user)s::text THEN name ELSE open_name
    END LIKE %(name)s)
    AND (%(on)s::text IS NULL OR body::json ->> 'node' = %(on)s)
    AND (%(model)s::text IS NULL OR strpos(models, %(model)s) > 0)
    AND (%(words)s::text IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_array_elements_text(%(words)s::json) AS term WHERE strpos(CASE
            WHEN %(everything)s OR "user" = %(user)s::text THEN words ELSE open_words
        END, term) = 0
    ))
    AND (%(tag)s::text IS NULL OR (%(everything)s OR "user" = %(user)s::text) AND EXISTS (
        SELECT 1 FROM run_tags AS own
        WHERE own.node = runs.node AND own.run = runs.id AND own.tag = %(tag)s
    ))
    AND (%(without)s::text IS NULL OR runs.id NOT IN (
        SELECT * FROM json_array_elements_text(%(without)s::json)
    ))

-- name: find
SELECT body FROM runs WHERE {matching}
ORDER BY began DESC, id
LIMIT %(limit)s OFFSET %(offset)s

-- name: count
SELECT count(*) FROM runs WHERE {matching}

-- name: kinds
SELECT
    state,
    CASE WHEN %(everything)s OR "user" = %(user)s::text OR open_name <> 'hidden' THEN grouped END
        AS shown,
    devices,
    count(*)
FROM runs WHERE {matching}
GROUP BY state, shown, devices

-- name: tags
SELECT tag, count(*) FROM runs JOIN run_tags ON run_tags.node = runs.node AND run = runs.id
WHERE (%(everything)s OR "user" = %(user)s::text) AND {matching}
GROUP BY tag

-- name: beginning
SELECT body
FROM runs
WHERE (%(node)s::integer IS NULL OR node = %(node)s) AND id >= %(beginning)s AND id < %(after)s
ORDER BY id = %(beginning)s DESC, began DESC, id
LIMIT %(limit)s

-- name: paths
SELECT path, id FROM runs WHERE node = %s

-- name: states
SELECT id, state FROM runs WHERE node = %s

-- name: drop
DELETE FROM runs WHERE node = %s AND id = %s

-- name: drop_tags
DELETE FROM run_tags WHERE node = %s AND run = %s

-- name: put_tag
INSERT INTO run_tags (node, run, tag) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING

-- name: baselines
SELECT body FROM baselines WHERE node = %s ORDER BY name

-- name: put_baseline
INSERT INTO baselines (node, name, at, body) VALUES (%s, %s, %s, %s)
ON CONFLICT (node, name) DO UPDATE SET at = excluded.at, body = excluded.body

-- name: drop_baseline
DELETE FROM baselines WHERE node = %s AND name = %s

-- name: size_bytes
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relkind = 'r' AND relnamespace = (
    SELECT relnamespace FROM pg_class WHERE oid = 'andon_schema'::regclass
)

-- name: fleet_nodes
SELECT name, token_hash, added, drained, heard, sent, digest
FROM fleet_node JOIN node ON node.id = fleet_node.node ORDER BY name COLLATE "C"

-- name: add_node
INSERT INTO node (name) VALUES (%s) ON CONFLICT DO NOTHING

-- name: put_fleet_node
INSERT INTO fleet_node (node, token_hash, added, drained)
SELECT id, %(token_hash)s, %(added)s, %(drained)s FROM node WHERE name = %(name)s
ON CONFLICT (node) DO UPDATE SET token_hash = excluded.token_hash, drained = excluded.drained

-- name: remove_fleet_node
DELETE FROM fleet_node WHERE node = (SELECT id FROM node WHERE name = %s)

-- name: known_node
SELECT id FROM node WHERE name = %s

-- name: clear_devices
DELETE FROM block WHERE series IN (
    SELECT series.id FROM series JOIN device ON device.id = device WHERE node = %(node)s
);
DELETE FROM series WHERE device IN (SELECT id FROM device WHERE node = %(node)s);
DELETE FROM use WHERE device IN (SELECT id FROM device WHERE node = %(node)s)

-- name: reporters
SELECT name, node, session, sequence, floor(extract(epoch FROM now()) / 3600)::integer
FROM fleet_node JOIN node ON node.id = fleet_node.node
WHERE name = ANY(%s::text[]) ORDER BY node FOR UPDATE OF fleet_node

-- name: last_of_session
SELECT coalesce(max(sequence), 0) FROM beat WHERE node = %s AND session = %s

-- name: put_beats
COPY beat (hour, node, session, sequence, at, sent, snapshot, ticks) FROM STDIN (FORMAT BINARY)

-- name: hear
UPDATE fleet_node AS known SET session = new.session, sequence = new.sequence, heard = new.at,
    sent = new.sent, digest = new.digest
FROM unnest(%b::integer[], %b::text[], %b::bigint[], %b::float8[], %b::float8[], %b::bytea[])
    AS new (node, session, sequence, at, sent, digest)
WHERE known.node = new.node

-- name: last_beat
SELECT name, beat.session, beat.sequence, at, beat.sent, digest, snapshot, ticks
FROM node JOIN fleet_node ON fleet_node.node = node.id JOIN beat ON beat.node = node.id
    AND beat.session = fleet_node.session AND beat.sequence = fleet_node.sequence
WHERE name = %s LIMIT 1

-- name: beats
SELECT name, beat.session, beat.sequence, at, beat.sent, digest, snapshot, ticks
FROM node JOIN fleet_node ON fleet_node.node = node.id JOIN beat ON beat.node = node.id
WHERE name = %s AND at > %s ORDER BY at, beat.sequence

-- name: put_news
INSERT INTO news (node, session, sequence, at, snapshot) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING

-- name: news
SELECT name, session, sequence, at, at, ''::bytea, ''::bytea, ''::bytea, notices FROM (
    SELECT DISTINCT ON (node) node, session, sequence, at, snapshot AS notices
    FROM news ORDER BY node, at, sequence
) AS first JOIN node ON node.id = first.node ORDER BY at LIMIT 200

-- name: thin_news
DELETE FROM news USING (
    SELECT node, session, sequence, row_number() OVER (
        PARTITION BY node ORDER BY at DESC, sequence DESC
    ) AS place FROM news
) AS old WHERE place > %s
    AND (news.node, news.session, news.sequence) = (old.node, old.session, old.sequence)
RETURNING (SELECT name FROM node WHERE id = news.node)

-- name: drop_news
DELETE FROM news WHERE node = (SELECT id FROM node WHERE name = %s)
    AND session = %s AND sequence = %s

-- name: named_tokens
SELECT name, hash, role, added FROM named_token ORDER BY name

-- name: add_named_token
INSERT INTO named_token (name, hash, role, added) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING

-- name: remove_named_token
DELETE FROM named_token WHERE name = %s

-- name: lead
-- The lock is the connection's. A standby would also give it, and could write nothing.
SELECT NOT pg_is_in_recovery() AND (
    EXISTS (
        SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted
            AND classid = 0 AND objid = number AND objsubid = 1
    ) OR pg_try_advisory_lock(number)
) FROM (
    SELECT hashtext('andon hub ' || current_schema())::bigint & 4294967295 AS number
) AS lock
