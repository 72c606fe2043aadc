"""Which devices this environment may use, and what CUDA calls them.

CUDA's rules as documented, and as observed with a 580 driver:

- The first entry fixes the form of the list: numbers, `GPU-...` or `MIG-...`. The list ends at the
  first entry that has another form, is out of range, unknown or ambiguous.
- A number is read like C's strtoul: ` 2`, `+2` and `2x` are all 2. A UUID may be shortened to any
  unique prefix and ignores case after `GPU-`, but a space before it is not allowed.
- A device named twice, or an unknown CUDA_DEVICE_ORDER, makes CUDA refuse to start: nothing is
  visible. An empty list hides all devices.
- A board partitioned into MIG instances cannot be used as a whole, and a process sees one instance.

NVIDIA_VISIBLE_DEVICES says which devices a container runtime adds; the devices seen here are
already the result and CUDA does not read it: it is shown, masks nothing and explains an empty list.
GPU_DEVICE_ORDINAL is for OpenCL only (Slurm sets it everywhere) and masks nothing either.

Slurm's own lists (SLURM_STEP_GPUS, SLURM_JOB_GPUS) number the GPUs of the node, whatever is visible
here. The masks that it sets (as seen with 22.05) repeat those numbers, unless a cgroup confines the
step to its devices (ConstrainDevices): then they count these from 0.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from andon.model.device import Device, DeviceStatus
from andon.model.vendors import AMD, MASKED, NVIDIA, SIMULATED, vendor_of

_CONTAINER = NVIDIA.container_variable
NOT_A_MASK = "is for the container runtime; programs do not read it, so it hides nothing here"
_SLURM = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
VARIABLES = (*dict.fromkeys(name for vendor in MASKED for name in vendor.environment), *_SLURM)
"""All variables that are read: if these are unchanged, so is the answer."""
MASKS = tuple(name for name in VARIABLES if name != _CONTAINER)
"""Without these every device is visible that can be used."""

_NUMBER = r"\s*([+-]?)0*([0-9]+)"
_SLURM_ENTRY = r"\s*([0-9]{1,5})(?:-([0-9]{1,5}))?\s*"
_OLD_MIG = r"MIG-(GPU-[0-9a-f-]+)/[0-9]+/[0-9]+"
_HIDERS = ("", "-1", "NoDevFiles")  # how people and Slurm hide everything on purpose
_ORDERS = ("FASTEST_FIRST", "PCI_BUS_ID")
_HEX = frozenset("0123456789abcdefABCDEF")
_UUID_CHARACTERS = 36  # without GPU- or MIG-
_SHOWN_CHARACTERS = 120


class Visibility(Struct, frozen=True):
    """The devices that remain visible under the masks."""

    visible: Mapping[str, int | None]
    """uuid -> the number CUDA (or HIP) gives it, None where there is none or it is not certain;
    in mask order."""
    note: str | None = None  # anything a person should know about the result
    source: str | None = None  # the variable that decided, e.g. "CUDA_VISIBLE_DEVICES=2,0"
    certain: bool = True  # False: which devices are meant is a guess, so none should be leased
    container: str | None = None  # what the container runtime was asked for: it masks nothing here


class _View(Struct):
    """One vendor's visibility while it is built."""

    visible: dict[str, int | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    certain: bool = True


def visibility(devices: Sequence[Device], env: Mapping[str, str]) -> Visibility:
    """Returns the devices that every mask of this environment allows; a mask never adds one."""
    by_vendor: dict[str, list[Device]] = {NVIDIA.name: []}
    for device in devices:
        by_vendor.setdefault(device.vendor, []).append(device)
    whole = _View()
    slurm, given = _slurm_list(devices, env)
    for vendor, own in by_vendor.items():
        view = _RUNTIMES.get(vendor, _listed)(own, env, given)
        whole.visible |= view.visible
        whole.notes += view.notes
        whole.sources += [source for source in view.sources if source not in whole.sources]
        whole.certain &= view.certain
    _intersect_slurm(whole, devices, slurm, given)
    return Visibility(
        whole.visible,
        "; ".join(whole.notes) or None,
        "; ".join(whole.sources) or None,
        whole.certain,
        _setting(_CONTAINER, env) if by_vendor[NVIDIA.name] and _CONTAINER in env else None,
    )


def doubt_about(statuses: Sequence[DeviceStatus], env: Mapping[str, str]) -> str | None:
    """Returns why it is not certain which devices this process may use; None if it is."""
    if not any(name in env for name in MASKS):
        return None
    seen = visibility([status.device for status in statuses], env)
    if seen.certain:
        return None
    return f"cannot tell which devices this process may use: {seen.note}"


# NVIDIA.


def _nvidia(devices: Sequence[Device], env: Mapping[str, str], given: Sequence[int]) -> _View:
    if not devices:
        return _View(notes=_container_notes(env))
    order = env.get("CUDA_DEVICE_ORDER")
    if order is not None and order not in _ORDERS:
        setting = _setting("CUDA_DEVICE_ORDER", env)
        note = f"CUDA refuses to start with {setting}: use PCI_BUS_ID or FASTEST_FIRST"
        return _View(notes=[note], sources=[setting])
    boards = in_pci_order(device for device in devices if device.parent is None)
    guessed = order != "PCI_BUS_ID" and len({board.name for board in boards}) > 1
    mask = env.get("CUDA_VISIBLE_DEVICES")
    if mask is None:
        return _numbered(boards, devices, guessed, [])
    view = _masked(_node_numbers(mask, given), boards, devices, guessed, given)
    view.sources.append(_setting("CUDA_VISIBLE_DEVICES", env))
    return view


def _masked(
    mask: str,
    boards: Sequence[Device],
    devices: Sequence[Device],
    guessed: bool,
    given: Sequence[int],
) -> _View:
    named, notes = _cuda_list(mask, boards, devices)
    guessed = guessed and bool(named) and not mask.startswith(("GPU-", "MIG-"))
    view = _numbered(named, devices, guessed, notes)
    meant = len(named) == len(boards) or {device.index for device in named} <= set(given)
    view.certain = not guessed or meant
    return view


def _cuda_list(
    mask: str, boards: Sequence[Device], devices: Sequence[Device]
) -> tuple[list[Device], list[str]]:
    """Returns the devices that a CUDA mask names, in its order, and what is wrong with the mask."""
    form = mask[:4] if mask[:4] in ("GPU-", "MIG-") else ""
    named: list[Device] = []
    for entry in mask.split(","):
        device, why = _cuda_entry(entry, form, boards, devices)
        if device is None:
            hidden_on_purpose = entry.strip() in _HIDERS
            return named, [] if hidden_on_purpose else [
                f"CUDA ignores the list from {_shown(entry)} on: {why}"
            ]
        if device in named:
            return [], [f"CUDA refuses a list that names a device twice: {_shown(entry)}"]
        named.append(device)
    return named, []


def _cuda_entry(
    entry: str, form: str, boards: Sequence[Device], devices: Sequence[Device]
) -> tuple[Device | None, str]:
    if form == "":
        number = leading_number(entry)
        if number is None:
            return None, "it is not a number"
        return (boards[number], "") if number < len(boards) else (None, "there is no such device")
    if not entry.startswith(form):
        return None, f"the list began with {form}..."
    if form == "GPU-":
        return _by_uuid(entry, boards)
    return _by_mig_id(entry, devices)


def _by_uuid(entry: str, devices: Sequence[Device]) -> tuple[Device | None, str]:
    """The one device whose UUID has this prefix; as in CUDA, text after a full UUID is ignored."""
    wanted = entry[4:].lower()
    tails = {device.uuid[4:].lower(): device for device in devices if device.uuid[:4] == entry[:4]}
    whole = tails.get(wanted[:_UUID_CHARACTERS])
    found = [device for tail, device in tails.items() if wanted and tail.startswith(wanted)]
    if whole or len(found) == 1:
        return whole or found[0], ""
    return None, f"it matches {len(found)} devices" if found else "there is no such device"


def _by_mig_id(entry: str, devices: Sequence[Device]) -> tuple[Device | None, str]:
    instances = [device for device in devices if device.parent is not None]
    old = re.fullmatch(_OLD_MIG, entry, re.ASCII | re.IGNORECASE)
    if old is None or any(device.uuid.lower() == entry.lower() for device in instances):
        return _by_uuid(entry, instances)
    siblings = [d for d in instances if d.parent and d.parent.lower() == old[1].lower()]
    if len(siblings) == 1:
        return siblings[0], ""
    if not siblings:
        return None, "there is no such instance"
    return None, f"it matches {len(siblings)} instances: use the MIG-<uuid> from nvidia-smi -L"


def _numbered(
    named: Sequence[Device], devices: Sequence[Device], guessed: bool, notes: list[str]
) -> _View:
    """Returns the view of a CUDA mask: boards and their instances, with CUDA's numbers."""
    reach: list[Device] = []
    for device in named:
        reach += [device, *(part for part in devices if part.parent == device.uuid)]
    cut = {device.parent for device in devices if device.parent}
    usable = [device for device in reach if device.uuid not in cut]
    view = _View({device.uuid: None for device in reach}, list(notes))
    if guessed:
        view.notes.append(
            "the models differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID, so a number may mean "
            "another device to CUDA: set CUDA_DEVICE_ORDER=PCI_BUS_ID or name devices by UUID"
        )
    elif not any(device.parent for device in usable):
        view.visible |= {device.uuid: number for number, device in enumerate(usable)}
    else:
        _number_instances(view, usable)
    return view


def _number_instances(view: _View, usable: Sequence[Device]) -> None:
    if all(device.parent for device in usable):
        view.visible[usable[0].uuid] = 0
        if len(usable) > 1:
            view.notes.append(
                "a CUDA process sees one MIG instance, here the first: name one by UUID"
            )
    else:
        view.notes.append(
            "CUDA does not show MIG instances and whole GPUs together: name one by UUID"
        )


def _container_notes(env: Mapping[str, str]) -> list[str]:
    given = env.get(_CONTAINER)
    if given is None:
        return []
    setting = _setting(_CONTAINER, env)
    if given in ("", "void", "none"):
        return [f"the container was given no NVIDIA device ({setting})"]
    return [f"{setting} requests NVIDIA devices, but none is here: start the container with --gpus"]


# Other vendors, in a simple form.


def _listed(devices: Sequence[Device], env: Mapping[str, str], given: Sequence[int]) -> _View:
    """Returns a vendor's view, numbered in PCI order; `1.0` is a part of device 1."""
    view, left = _View(), in_pci_order(devices)
    row = vendor_of(devices[0].vendor)
    for mask in row.masks if row.pci_id else ():
        if text := env.get(mask.name):
            entries = _node_numbers(text, given).split(",")
            numbers = dict.fromkeys(leading_number(entry) for entry in entries)
            left = [left[n] for n in numbers if n is not None and n < len(left)]
            view.sources.append(_setting(mask.name, env))
    view.visible = dict.fromkeys(device.uuid for device in left)
    return view


def _amd(devices: Sequence[Device], env: Mapping[str, str], given: Sequence[int]) -> _View:
    """Returns AMD's view: ROCR filters first, HIP numbers the rest, else by CUDA's list."""
    view, left = _View(), in_pci_order(devices)
    if "ROCR_VISIBLE_DEVICES" in env:
        left = _plain_list(_node_numbers(env["ROCR_VISIBLE_DEVICES"], given), left)
        view.sources.append(_setting("ROCR_VISIBLE_DEVICES", env))
        given = ()  # what follows counts these
    for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        if env.get(name):
            left = _plain_list(_node_numbers(env[name], given), left)
            view.sources.append(_setting(name, env))
            break
    view.visible = {device.uuid: number for number, device in enumerate(left)}
    return view


def _plain_list(mask: str, devices: Sequence[Device]) -> list[Device]:
    """Parses numbers and UUIDs mixed; the list ends at the first unknown or repeated one."""
    named: list[Device] = []
    for entry in mask.split(","):
        text, number = entry.strip(), leading_number(entry)
        if text.startswith("GPU-"):
            device = _by_uuid(text, devices)[0]
        else:
            device = devices[number] if number is not None and number < len(devices) else None
        if device is None or device in named:
            break
        named.append(device)
    return named


def _simulated(devices: Sequence[Device], env: Mapping[str, str], _: Sequence[int]) -> _View:
    """Returns the view of simulated devices. No runtime uses them, so numbers and other UUIDs do
    not match; a mask that `andon run --simulate` set names them by their UUIDs."""
    view, mask = _View(), env.get("CUDA_VISIBLE_DEVICES", "")
    named = [one for uuid in mask.split(",") for one in devices if one.uuid == uuid]
    if named:
        view.sources.append(_setting("CUDA_VISIBLE_DEVICES", env))
    view.visible = dict.fromkeys(device.uuid for device in named or in_pci_order(devices))
    return view


_RUNTIMES = {NVIDIA.name: _nvidia, AMD.name: _amd, SIMULATED.name: _simulated}
"""Runtimes with rules of their own."""


# Slurm.


def _slurm_list(devices: Sequence[Device], env: Mapping[str, str]) -> tuple[str, Sequence[int]]:
    """Returns the list of the step, else of the job, and its numbers in order: none if they do not
    match the devices here. Where a cgroup hides the devices of other jobs, the visible ones are
    the allocation: then there is no list."""
    name = next((n for n in _SLURM if env.get(n)), None)
    if name is None:
        return "", ()
    indexes = [device.index for device in devices if device.parent is None]
    given = _slurm_numbers(env[name])
    if given is not None and len(given) >= len(indexes):
        return "", ()
    if given is None or not given <= set(indexes) or _numbers_are_unclear(devices):
        return _setting(name, env), ()
    return _setting(name, env), sorted(given)


def _node_numbers(mask: str, given: Sequence[int]) -> str:
    """Returns a mask with the node's numbers: a list from 0 as long as Slurm's own was renumbered
    by Slurm for the step."""
    is_renumbered = mask == ",".join(str(number) for number in range(len(given)))
    return ",".join(str(number) for number in given) if is_renumbered else mask


def _intersect_slurm(
    view: _View, devices: Sequence[Device], slurm: str, given: Sequence[int]
) -> None:
    """Removes devices that Slurm gave to other jobs."""
    if not slurm:
        return
    if not given:
        view.notes.append(f"{slurm} does not match the devices here and is ignored")
        view.certain = False
        return
    ours = {d.uuid for d in devices if d.parent is None and d.index in given}
    view.visible = {uuid: number for uuid, number in view.visible.items() if uuid in ours}
    view.sources.append(slurm)


def _numbers_are_unclear(devices: Sequence[Device]) -> bool:
    """Whether Slurm's numbers are ambiguous: it may count MIG instances, and numbers two vendors
    in its own order."""
    return any(device.parent for device in devices) or len({d.vendor for d in devices}) > 1


def _slurm_numbers(text: str) -> set[int] | None:
    """Parses `0,2` or `0-3`; None if it is neither."""
    numbers: set[int] = set()
    for entry in text.split(","):
        match = re.fullmatch(_SLURM_ENTRY, entry, re.ASCII)
        span = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not span:
            return None
        numbers.update(span)
    return numbers


# Text.


def leading_number(text: str) -> int | None:
    """Returns the number that C's strtoul would find; None if missing, negative or absurd."""
    match = re.match(_NUMBER, text, re.ASCII)
    if match is None or len(match[2]) > 9:
        return None
    number = int(match[2])
    return None if match[1] == "-" and number else number


def in_pci_order(devices: Iterable[Device]) -> list[Device]:
    """Orders devices by PCI address as numbers (`00000000:1A:00.0`); by index if an address is
    missing."""
    listed = sorted(devices, key=lambda device: device.index)
    addresses = {device.uuid: _pci_numbers(device.pci) for device in listed}
    if any(address is None for address in addresses.values()):
        return listed
    return sorted(listed, key=lambda device: addresses[device.uuid] or ())


def _pci_numbers(pci: str | None) -> tuple[int, ...] | None:
    parts = (pci or "").replace(".", ":").split(":")
    if len(parts) < 3 or not all(0 < len(part) <= 8 and _HEX.issuperset(part) for part in parts):
        return None
    return tuple(int(part, 16) for part in parts)


def _setting(name: str, env: Mapping[str, str]) -> str:
    return f"{name}={_shown(env[name]) if env[name] else ''}"


def _shown(text: str) -> str:
    plain = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
    return plain if len(plain) <= _SHOWN_CHARACTERS else plain[:_SHOWN_CHARACTERS] + "..."
