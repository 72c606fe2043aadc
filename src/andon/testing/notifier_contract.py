"""The contract of every notifier, as a pytest suite that other packages can use too.

class TestMyNotifier(NotifierContract):
    @pytest.fixture
    def service(self):
        return NotifierService(heard, behave, settings, unreachable)

    def make(self, settings):
        return MyNotifier(settings, self.context)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from andon.alerts.rules.messages import MessageContext
from andon.errors import AndonError
from andon.model.alert import NoticeKind
from andon.ports import Notifier
from andon.settings.alerts import NotifierSettings
from andon.testing.alert_store_contract import HOT, notice, over

SECRET = "s3cr3tT0kenValue"  # noqa: S105 (it is there to be looked for)
"""Part of the address in the settings; it must appear in no error."""


class NotifierService(Struct):
    """The real other side of a notifier: what it heard, and how it behaves."""

    heard: Callable[[], list[str]]
    """One text for each message that arrived."""
    behave: Callable[[str], None]
    """As one of "well", "badly" (it refuses) and "never" (it does not answer)."""
    settings: NotifierSettings
    """How to reach it; with SECRET in its address, and the name `phone`."""
    unreachable: NotifierSettings
    """The same kind, where no one listens."""


class NotifierContract:
    """Subclass it with a fixture `service` and a method `make`."""

    context: ClassVar[MessageContext] = MessageContext(
        "node7", lambda _at: 3600.0, "https://gpus.example/"
    )

    def make(self, settings: NotifierSettings) -> Notifier:
        """The notifier for these settings, with `self.context`."""
        raise NotImplementedError

    def test_what_is_sent_has_arrived_when_it_returns(self, service: NotifierService) -> None:
        with self._opened(service.settings) as notifier:
            assert notifier.name == "phone"
            notifier.send([notice()], [HOT])
        (text,) = service.heard()
        for word in ("GPU 3 is too hot: 91 °C", "ada", "cooling", "https://gpus.example/", "node7"):
            assert word in text, word

    def test_the_end_of_an_alert_is_sent_too(self, service: NotifierService) -> None:
        with self._opened(service.settings) as notifier:
            notifier.send([notice()], [HOT])
            notifier.send([notice(over(HOT), NoticeKind.RESOLVED)], [])
        assert len(service.heard()) == 2

    def test_a_test_message_arrives(self, service: NotifierService) -> None:
        test = replace(HOT, message="This is a test: nothing is wrong.")
        with self._opened(service.settings) as notifier:
            notifier.send([notice(test, NoticeKind.TEST)], [])
        assert "This is a test" in service.heard()[0]

    def test_with_nothing_to_send_nothing_is_sent(self, service: NotifierService) -> None:
        with self._opened(service.settings) as notifier:
            notifier.send([], [])
        assert service.heard() == []

    def test_what_is_simulated_says_so(self, service: NotifierService) -> None:
        with self._opened(service.settings) as notifier:
            notifier.send([notice(simulated=True)], [])
        assert "SIMULATED" in service.heard()[0]

    def test_no_secret_of_a_command_line_leaves(self, service: NotifierService) -> None:
        with self._opened(service.settings) as notifier:
            notifier.send([notice()], [HOT])
        assert "hunter2" not in service.heard()[0]

    def test_a_refusal_is_an_error_without_secrets_and_can_be_tried_again(
        self, service: NotifierService
    ) -> None:
        with self._opened(service.settings) as notifier:
            service.behave("badly")
            error = _refused(notifier)
            assert SECRET not in error.reason + error.hint
            assert error.hint
            service.behave("well")
            notifier.send([notice()], [HOT])
        assert len(service.heard()) == 1

    def test_where_no_one_listens_the_error_says_so(self, service: NotifierService) -> None:
        with self._opened(service.unreachable) as notifier:
            error = _refused(notifier)
        assert SECRET not in error.reason + error.hint

    def test_what_never_answers_is_given_up(self, service: NotifierService) -> None:
        service.behave("never")
        with self._opened(replace(service.settings, timeout_seconds=0.05)) as notifier:
            error = _refused(notifier)
        assert SECRET not in error.reason

    def test_the_address_is_not_in_its_repr(self, service: NotifierService) -> None:
        assert SECRET not in repr(service.settings)

    @contextmanager
    def _opened(self, settings: NotifierSettings) -> Iterator[Notifier]:
        notifier = self.make(settings)
        try:
            yield notifier
        finally:
            notifier.close()
            notifier.close()


def _refused(notifier: Notifier) -> AndonError:
    try:
        notifier.send([notice()], [HOT])
    except AndonError as exc:
        return exc
    raise AssertionError("it must raise an AndonError")
