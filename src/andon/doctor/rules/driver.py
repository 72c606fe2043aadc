"""Checks the kernel's drivers and NVIDIA's library: loaded, found, and of the same version."""

from collections.abc import Iterator

from andon.doctor.rules.facts import MachineFacts, PciCard
from andon.doctor.rules.findings import Check, CheckResult, failure, ok, unknown, warning
from andon.host.rules.nvml_library import Library, loaders_choice, version_of
from andon.model.vendors import GIVEN_AWAY, NVIDIA, VENDORS, VendorRow, titles
from andon.units import sh

_PCI = "lspci -nn | grep -i -e vga -e 3d -e display -e accelerator"
WSL_FOLDER = "/usr/lib/wsl/lib"

COUNTERS_FOR_ROOT = "profiling counters are for root only"


def judge(facts: MachineFacts) -> Iterator[CheckResult]:
    for vendor in VENDORS:
        cards = [card for card in facts.cards if card.vendor == vendor.name]
        yield from _loaded(vendor, cards, facts)
        yield from _given_away(cards)
        yield from _undriven(vendor, cards, facts)
    yield from _nothing(facts)
    yield from _sleep(facts)
    if facts.kernel.nvidia_version is not None:
        yield from _versions(facts)
        yield from _nvidia_modes(facts)
    if facts.kernel.nvidia_version is not None or facts.answers("nvidia"):
        yield _counters(facts)


def install_command(vendor: VendorRow, distribution: tuple[str, ...]) -> str:
    """Returns the command that installs a vendor's driver on this distribution."""
    known = (vendor.install[name] for name in distribution if name in vendor.install)
    return next(known, vendor.install_any)


def _loaded(vendor: VendorRow, cards: list[PciCard], facts: MachineFacts) -> Iterator[CheckResult]:
    for driver in vendor.driver_names:
        driven = [card for card in cards if card.driver == driver]
        if not driven and not (driver == "nvidia" and facts.kernel.nvidia_version):
            continue
        name = _driver_text(facts) if driver == "nvidia" else driver
        what = f"{len(driven)} cards" if len(driven) > 2 else _places(driven)
        what = what or "its cards (none listed on the PCI bus)"
        yield ok(Check.DRIVER_LOADED, f"{name} drives {what}", driver=driver, cards=len(driven))


def _driver_text(facts: MachineFacts) -> str:
    version = facts.kernel.nvidia_version
    flavour = " (open module)" if facts.kernel.nvidia_open else ""
    return f"nvidia {version}{flavour}" if version else "nvidia"


def _given_away(cards: list[PciCard]) -> Iterator[CheckResult]:
    given = [card for card in cards if card.driver in GIVEN_AWAY]
    if given:
        message = f"{_places(given)}: reserved for virtual machines ({given[0].driver})"
        yield ok(Check.PASSED_THROUGH, message, cards=len(given))


def _undriven(
    vendor: VendorRow, cards: list[PciCard], facts: MachineFacts
) -> Iterator[CheckResult]:
    rivals = [card for card in cards if card.driver in vendor.rival_drivers]
    free = [card for card in cards if card.driver is None]
    if rivals:
        name = rivals[0].driver
        yield failure(
            Check.NOUVEAU,
            f"{name} drives {_places(rivals)}, so {vendor.title}'s driver cannot",
            f"echo blacklist {name} | sudo tee /etc/modprobe.d/{name}.conf"
            " && sudo update-initramfs -u && sudo reboot",
            cards=len(rivals),
        )
    if free and any(driver in facts.kernel.modules for driver in vendor.driver_names):
        message = f"{vendor.drivers[0]} is loaded but does not drive {_places(free)}"
        fix = f"sudo dmesg | grep -i {vendor.log_search} | tail"
        yield failure(Check.CARD_UNBOUND, message, fix, cards=len(free))
    elif free:
        yield from _not_loaded(vendor, free, facts)


def _not_loaded(
    vendor: VendorRow, free: list[PciCard], facts: MachineFacts
) -> Iterator[CheckResult]:
    message, fix = f"no driver is loaded for {_places(free)}", f"sudo modprobe {vendor.drivers[0]}"
    if not vendor.install:
        yield warning(Check.DRIVER_NOT_LOADED, message, fix, cards=len(free))
        return
    if not facts.libraries:
        fix = install_command(vendor, facts.kernel.distribution)
    yield failure(Check.DRIVER_NOT_LOADED, message, fix, cards=len(free))
    if facts.kernel.secure_boot:
        yield warning(
            Check.SECURE_BOOT,
            "Secure Boot is on: the kernel refuses a module that is not signed with a known key",
            "sudo dmesg | grep -i -e lockdown -e 'key was rejected' -e 'verification failed'",
            secure_boot=True,
        )


def _nothing(facts: MachineFacts) -> Iterator[CheckResult]:
    """Checks for no GPU at all; some are not on a PCI bus: in WSL, and in systems on a chip."""
    on_chip = any(name in facts.kernel.modules for v in VENDORS for name in v.chip_modules)
    seen = facts.cards or facts.kernel.wsl or on_chip
    if not seen and not facts.anything_answers and not facts.on_login_node:
        message = f"the PCI bus has no {titles(last='or')} GPU"
        yield warning(Check.NO_CARD, message, _PCI, cards=0)


def _sleep(facts: MachineFacts) -> Iterator[CheckResult]:
    asleep = [card for card in facts.cards if card.power_status == "suspended"]
    if asleep:
        message = f"{_places(asleep)}: suspended to save power; andon does not wake it"
        yield ok(Check.SUSPENDED, message, cards=len(asleep))
    awake = [
        card
        for card in facts.cards
        if card.vendor == "nvidia" and card.driver == "nvidia" and card.power_control == "on"
    ]
    if facts.kernel.battery and awake:
        yield warning(
            Check.KEPT_AWAKE,
            f"{_places(awake)} is never suspended, which drains the battery",
            f"echo auto | sudo tee /sys/bus/pci/devices/{awake[0].pci}/power/control",
            cards=len(awake),
        )


def _versions(facts: MachineFacts) -> Iterator[CheckResult]:
    picked = loaders_choice(facts.libraries)
    library, kernel = version_of(picked) if picked else None, facts.kernel.nvidia_version
    if library is None or kernel is None:
        return
    place = {"kernel": kernel, "library": library}
    if library == kernel:
        yield ok(Check.VERSIONS_MATCH, f"the kernel and the library are both {kernel}", **place)
        return
    message = f"the kernel runs driver {kernel}, but the library is {library}"
    fix = "sudo reboot"
    if facts.containers.inside:
        message += ", which is part of this container"
        fix = f"rm {sh(picked.path if picked else '')} # in the image: --gpus adds the right one"
    yield failure(Check.VERSION_MISMATCH, message, fix, **place)


def _nvidia_modes(facts: MachineFacts) -> Iterator[CheckResult]:
    kernel = facts.kernel
    if kernel.persistenced:
        yield ok(Check.PERSISTENCE, "nvidia-persistenced keeps the driver loaded")
    else:
        yield from _persistence(facts)
    yield from _ecc(facts)


def _counters(facts: MachineFacts) -> CheckResult:
    """Reports whether this user may profile with Nsight."""
    restricted = facts.kernel.counters_restricted
    if restricted is None:
        message = "whether Nsight can profile here is not known: the driver's parameters are hidden"
        return unknown(Check.COUNTERS_RESTRICTED, message)
    if not restricted:
        message = "profiling counters are open to all users: Nsight can be used"
        return ok(Check.COUNTERS_OPEN, message, restricted=False)
    way = "in a container with --cap-add=SYS_ADMIN" if facts.containers.inside else "with sudo"
    message = f"{facts.user.name} may use Nsight" if facts.user.profiles else f"use Nsight {way}"
    return ok(Check.COUNTERS_RESTRICTED, f"{COUNTERS_FOR_ROOT}: {message}", restricted=True)


def _persistence(facts: MachineFacts) -> Iterator[CheckResult]:
    modes = [d.device.setup.persistence for d in facts.devices if d.device.parent is None]
    on, off = modes.count(True), modes.count(False)
    if off:
        message = f"persistence mode is off ({off} of {on + off} devices)"
        message += ": the driver stops while nothing uses them"
        yield ok(Check.PERSISTENCE, message, off=off)
    elif on:
        yield ok(Check.PERSISTENCE, "persistence mode keeps the driver loaded", off=0)


def _ecc(facts: MachineFacts) -> Iterator[CheckResult]:
    """Checks ECC; devices without it do not count."""
    setups = [d.device.setup for d in facts.devices if d.device.setup.ecc is not None]
    off = [setup for setup in setups if not setup.ecc]
    if off:
        message = f"ECC is off ({len(off)} of {len(setups)} devices that support it)"
        later = sum(setup.ecc_pending is True for setup in off)
        message += f"; {later} will have it on after a reboot" if later else ""
        yield ok(Check.ECC, message, off=len(off))
    elif setups:
        yield ok(Check.ECC, "ECC is on", off=0)


# The library.


def judge_library(facts: MachineFacts) -> Iterator[CheckResult]:
    if not facts.expects_nvidia and not facts.kernel.wsl:
        return
    picked = loaders_choice(facts.libraries)
    yield _absent(facts) if picked is None else _picked(picked, facts)


def _absent(facts: MachineFacts) -> CheckResult:
    graded = warning if facts.answers("nvidia") else failure
    off = [lib for lib in facts.libraries if not lib.source and lib.fits is not False]
    if off:
        folder = off[0].path.rpartition("/")[0]
        return graded(
            Check.LIBRARY_OFF_PATH,
            f"libnvidia-ml.so.1 is in {folder}, which is not on the loader's path",
            f"echo {folder} | sudo tee /etc/ld.so.conf.d/nvidia.conf && sudo ldconfig",
            path=off[0].path,
        )
    if facts.libraries:
        message = f"{facts.libraries[0].path} is for another processor"
        fix = f"file -L {facts.libraries[0].path}"
        return graded(Check.LIBRARY_FOREIGN, message, fix, path=facts.libraries[0].path)
    message = "libnvidia-ml.so.1 was not found in any known folder"
    return graded(Check.LIBRARY_MISSING, message, _install(facts))


def _install(facts: MachineFacts) -> str:
    if facts.containers.inside:
        return "docker run --gpus all ... # or, in Kubernetes, limits: nvidia.com/gpu: 1"
    if facts.kernel.wsl:
        return "wsl --update # and install the NVIDIA driver in Windows, not in WSL"
    return install_command(NVIDIA, facts.kernel.distribution)


def _picked(library: Library, facts: MachineFacts) -> CheckResult:
    path, folder = library.path, library.path.rpartition("/")[0]
    if library.size_bytes == 0:
        message = f"{path} is empty: the image was saved from a container that had a GPU"
        return failure(Check.LIBRARY_EMPTY, message, f"rm {sh(path)}", path=path)
    if "/stubs" in path or "/stubs" in library.target:
        message = f"the loader uses {path}, a stub for linking only"
        return failure(Check.LIBRARY_STUB, message, _without(library, folder), path=path)
    if facts.kernel.wsl and not (library.target or path).startswith("/usr/lib/wsl/"):
        message = f"the loader uses {path}: in WSL only the one from Windows in {WSL_FOLDER} works"
        fix = f"export LD_LIBRARY_PATH={WSL_FOLDER}:$LD_LIBRARY_PATH"
        graded = warning if facts.answers("nvidia") else failure
        return graded(Check.LIBRARY_NOT_WSL, message, fix, path=path)
    message = f"{path} (in {library.source})"
    return ok(Check.LIBRARY_FOUND, message, path=path, target=library.target)


def _without(library: Library, folder: str) -> str:
    if library.source == "LD_LIBRARY_PATH":
        pattern = sh(f"s#{folder}/*:*##")
        return f"export LD_LIBRARY_PATH=$(echo $LD_LIBRARY_PATH | sed {pattern})"
    return f"grep -rlF {sh(folder)} /etc/ld.so.conf.d # remove that line, then: sudo ldconfig"


def _places(cards: list[PciCard]) -> str:
    if len(cards) <= 2:
        return " and ".join(card.pci for card in cards)
    return f"{len(cards)} cards ({cards[0].pci} to {cards[-1].pci})"
