-- The outbox and kept alerts under the names that everything else has. (`use` keeps its name: commands
-- that only read the history must be able to read a file that no server has brought up to date yet.)
-- In the JSON a quotation mark without a backslash and a name with its colon is a key.
ALTER TABLE errand RENAME TO outbox;
ALTER TABLE episode RENAME COLUMN weight TO body_length;
UPDATE episode SET
    id = replace(id, 'ghost_memory@', 'leftover_memory@'),
    rule = replace(rule, 'ghost_memory', 'leftover_memory'),
    body = replace(replace(replace(body,
        '"who":', '"affected":'),
        '"ghost_memory@', '"leftover_memory@'),
        '"ghost_memory"', '"leftover_memory"');
UPDATE episode SET body_length = length(body);
UPDATE outbox SET
    notice = replace(notice, 'ghost_memory@', 'leftover_memory@'),
    body = replace(replace(replace(body,
        '"who":', '"affected":'),
        '"ghost_memory@', '"leftover_memory@'),
        '"ghost_memory"', '"leftover_memory"');
UPDATE alert_state SET
    body = replace(replace(replace(replace(replace(replace(replace(replace(body,
        '"who":', '"affected":'),
        '"begun":', '"since":'),
        '"anew":', '"restarted":'),
        '"tellable":', '"notifiable":'),
        '"told":', '"notified_rank":'),
        '"told_at":', '"notified_at":'),
        '"ghost_memory@', '"leftover_memory@'),
        '"ghost_memory"', '"leftover_memory"');
