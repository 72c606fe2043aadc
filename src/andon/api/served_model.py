"""The model that a server answers for, where a benchmark does not name one."""

import json
import time
from contextlib import closing
from urllib.parse import urlsplit

from andon.errors import Invalid, Unavailable
from andon.node.connection import FAILURES, TimedConnection, plain_message
from andon.work.rules.load import CHAT, COMPLETIONS, route_of

ANSWER_SECONDS, MOST_BYTES, MOST_SHOWN = 10.0, 1 << 20, 20


def only_model(url: str, key: str) -> str:
    """Returns the only model of a server; raises an error if it has several, or does not say."""
    route = route_of(url).removesuffix(CHAT).removesuffix(COMPLETIONS) + "/models"
    hint = "name it: --model NAME, or model in a specification"
    try:
        found = [str(one["id"])[:100] for one in json.loads(_get(route, key))["data"]]
    except (*FAILURES, KeyError, TypeError) as error:
        reason = plain_message(error) if isinstance(error, FAILURES) else "its answer has no list"
        raise Unavailable(f"no model is named, and none by {route}: {reason}", hint=hint) from error
    if len(found) != 1:
        names = ", ".join(found[:MOST_SHOWN])
        raise Invalid(f"the server has {len(found)} models: {names}", hint=hint)
    return found[0]


def _get(route: str, key: str) -> bytes:
    place, until = urlsplit(route), time.monotonic() + ANSWER_SECONDS
    encrypted = place.scheme == "https"
    port = place.port or (443 if encrypted else 80)
    with closing(TimedConnection(place.hostname or "", port, until, encrypted)) as connection:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        connection.request("GET", place.path, headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"HTTP {answer.status}")
        return answer.read(MOST_BYTES)
