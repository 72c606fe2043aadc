"""Root's settings and policy in /etc/andon, as other users meet them."""

from tests.integration.machine import on_a_machine, told

AS_USER = r"""
said() { echo "@@$1"; cat; echo; echo "@@"; }
with_code() { "$@" 2>&1 && echo "exit 0" || echo "exit $?"; }
andon_as_user() { with_code user 1234 "$PYTHON" -P -m andon.cli "$@"; }
"""
CLOSED_UMASK = (
    AS_USER
    + r"""
rm -rf /etc/andon
umask 077
andon setup > /dev/null
andon alerts notify add command --no-test -- /bin/true > /dev/null 2>&1
umask 022
stat -c '%a' /etc/andon /etc/andon/andon.toml /etc/tmpfiles.d/andon.conf | said modes
with_code take 1234 | said run
andon_as_user submit --simulate 1 -- true | said submit
andon_as_user config check | said config
andon_as_user status --simulate 1 | said status
chmod 644 /etc/andon/andon.toml
andon_as_user config check | said readable
"""
)
CLOSED_BEFORE = (
    AS_USER
    + r"""
rm -rf /etc/andon; mkdir -m 700 /etc/andon
: > /etc/andon/andon.toml; chmod 600 /etc/andon/andon.toml
andon setup > /dev/null
with_code take 1234 | said run
andon_as_user submit --simulate 1 -- true | said submit
andon_as_user doctor --simulate 1 | said doctor
with_code andon doctor --simulate 1 | said root
chmod 755 /etc/andon
: > /etc/andon/policy.toml; chmod 600 /etc/andon/policy.toml
andon_as_user submit --simulate 1 -- true | said policy
"""
)


def test_the_folder_that_root_makes_for_notifiers_does_not_close_the_machine_to_others() -> None:
    found = told(on_a_machine(CLOSED_UMASK))
    assert found["modes"].split() == ["755", "600", "644"], "whatever the umask"
    assert "exit 0" in found["run"], found
    assert "exit 0" in found["submit"], found
    assert "exit 0" in found["status"], found
    assert "/etc/andon/andon.toml is not read: only its owner may" in found["config"]
    assert "/etc/andon/andon.toml: OK" in found["readable"]


def test_a_folder_that_may_not_be_entered_is_named_with_the_command_that_opens_it() -> None:
    found = told(on_a_machine(CLOSED_BEFORE))
    for name in ("run", "submit", "doctor", "root"):
        assert "only root may enter /etc/andon (0700)" in found[name], (name, found[name])
        assert "sudo chmod 755 /etc/andon" in found[name], (name, found[name])
    assert [found[name].split()[-1] for name in ("run", "submit")] == ["125", "3"]
    assert "sudo chmod 644 /etc/andon/policy.toml" in found["policy"], "the limits are not known"
    assert found["policy"].split()[-1] == "3"
