"""The executors of this machine keep the contract; Docker's does in the integration tests."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from andon.engines.local import LocalExecutor
from andon.model.execution import WorkOrder
from andon.ports import Executor
from andon.testing.executor_contract import ExecutorContract


@pytest.mark.process
@pytest.mark.slow
class TestLocalExecutor(ExecutorContract):
    """Processes of this machine."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self._place = str(tmp_path)

    @pytest.fixture
    def executor(self) -> Executor:
        return LocalExecutor()

    def order(self, command: Sequence[str], label: str) -> WorkOrder:
        return WorkOrder(tuple(command), self._place, label, environment={"GREETING": "hello"})
