"""`[ssh.groups]`: what is read, and what is refused."""

import pytest

from andon.errors import Invalid
from andon.settings.resolution import resolve


def test_groups_are_lists_of_hosts() -> None:
    text = '[ssh]\nandon = "/opt/a"\n[ssh.groups]\nlab = ["lab1", "me@lab2"]\nnone = []\n'
    found = resolve(("andon.toml", text), {}, {}).settings
    assert found.ssh_andon == "/opt/a"
    assert found.ssh_groups == (("lab", ("lab1", "me@lab2")), ("none", ()))


@pytest.mark.parametrize("text", ['lab = "lab1"', "lab = [1]", '"a b" = []'])
def test_anything_else_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        resolve(("andon.toml", f"[ssh.groups]\n{text}\n"), {}, {})
    assert caught.value.mistakes[0].startswith("andon.toml: ssh.groups.")
    with pytest.raises(Invalid):
        resolve(("andon.toml", "[ssh]\ngroups = 3\n"), {}, {})
