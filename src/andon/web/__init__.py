"""The server: the board, REST and live events, over one sampler.

    accept -> silent socket -> turn -> TLS, protocol -> turn -> gate -> REST, live events
              (oldest closed first)    (the token and /healthz first)   (a quota, or 503)

History is read in a thread of its own, the audit log is written in another, and lease requests run
in a pool: none of them delays the event loop. Unchanged parts of a snapshot stay the same object
from the reader to the page; `python -m bench.server` measures what an idle server costs.

`answers` says which route has which shape; `frontend/openapi.json` is the golden file of it, and
the board's types are generated from that. The board is one script and a second one for the runs'
pages, which is loaded right after the first page, because a page must open while the server is
away.
"""
