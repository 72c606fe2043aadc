"""Request bodies of the routes about alerts."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

LONGEST_SILENCE_SECONDS = 366 * 86_400.0
Short = Annotated[str, Field(max_length=200)]
Note = Annotated[str, Field(max_length=1000)]


class AcknowledgeRequest(BaseModel):
    """Who acknowledges an alert."""

    model_config = ConfigDict(extra="forbid")
    by: Short = ""
    note: Note = ""


class SilenceRequest(BaseModel):
    """What to silence and for how long; without rule, device and subject, everything."""

    model_config = ConfigDict(extra="forbid")
    seconds: Annotated[float, Field(ge=1, le=LONGEST_SILENCE_SECONDS)]
    rule: Short | None = None
    device: Short | int | None = None
    subject: Short | None = None
    by: Short = ""
    note: Note = ""


class NotifierTestRequest(BaseModel):
    """The notifier to test; null for all."""

    model_config = ConfigDict(extra="forbid")
    notifier: Short | None = None
