"""Which devices a mask leaves over, in every form that the variables take."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.model.device import Device
from andon.sampling.rules.masks import Visibility, in_pci_order, leading_number, visibility
from tests.support.rows import rows

UUIDS = (
    "GPU-50fc3cba-009b-4258-a3a2-f8be451b82e2",
    "GPU-50fc9999-1111-4258-a3a2-f8be451b82e2",
    "GPU-a1b2c3d4-2222-4258-a3a2-f8be451b82e2",
    "GPU-ffff0000-3333-4258-a3a2-f8be451b82e2",
)
MIG_A = "MIG-11111111-aaaa-4258-a3a2-f8be451b82e2"
MIG_B = "MIG-22222222-bbbb-4258-a3a2-f8be451b82e2"
MIG_C = "MIG-33333333-cccc-4258-a3a2-f8be451b82e2"


def gpu(number: int, name: str = "NVIDIA H200", vendor: str = "nvidia") -> Device:
    return Device(UUIDS[number], number, vendor, name, pci=f"00000000:{0x1A + number:02X}:00.0")


def instance(uuid: str, board: int, index: int = 9) -> Device:
    return Device(uuid, index, "nvidia", "NVIDIA H200 MIG 1g.18gb", parent=UUIDS[board])


FOUR = tuple(gpu(number) for number in range(4))
MIXED = (gpu(0, "NVIDIA T400"), gpu(1, "NVIDIA H200"))
CUT = (gpu(0), instance(MIG_A, 0), instance(MIG_B, 0))


def seen(devices: Sequence[Device], **env: str) -> Visibility:
    return visibility(devices, env)


def cuda(mask: str, devices: Sequence[Device] = FOUR) -> Visibility:
    return seen(devices, CUDA_VISIBLE_DEVICES=mask)


def numbers(view: Visibility) -> list[int]:
    """The visible boards as their place in UUIDS, in mask order."""
    return [UUIDS.index(uuid) for uuid in view.visible]


def test_with_no_mask_every_device_is_visible_in_pci_order() -> None:
    shuffled = [FOUR[2], FOUR[0], FOUR[3], FOUR[1]]
    view = seen(shuffled)
    assert dict(view.visible) == {UUIDS[n]: n for n in range(4)}
    assert (view.note, view.source, view.certain) == (None, None, True)


U, V = UUIDS[0], UUIDS[2]


@rows(
    ("mask", "left"),
    [
        ("0", [0]),
        ("2,0", [2, 0]),
        ("3,2,1,0", [3, 2, 1, 0]),
        ("", []),
        (" ", []),
        (",", []),
        (",0", []),
        ("0,", [0]),
        ("-1", []),
        ("-1,0", []),
        ("0,-1,1", [0]),
        ("0,2,-1,1", [0, 2]),
        ("0,99,0", [0]),
        ("99,0", []),
        ("4", []),
        ("0,4", [0]),
        ("0,,1", [0]),
        ("0,a,1", [0]),
        ("0,0", []),
        ("0,1,0", []),
        ("0, 0", []),
        ("00,0", []),
        (" 1", [1]),
        ("1 ", [1]),
        (" 1 , 2 ", [1, 2]),
        ("\t1", [1]),
        ("1\n", [1]),
        ("+1", [1]),
        ("-0", [0]),
        ("01", [1]),
        ("1x,2y", [1, 2]),
        ("1 2", [1]),
        ("1.5", [1]),
        ("1;2", [1]),
        ("0x1", [0]),
        ("18446744073709551616", []),
        ("0" * 30 + "1", [1]),
        ("gpu0", []),
        ("all", []),
        ("none", []),
        ("void", []),
        ("NoDevFiles", []),
        ("٣", []),
        (U, [0]),
        (f"{V},{U}", [2, 0]),
        ("GPU-a1", [2]),
        ("GPU-a", [2]),
        ("GPU-50fc3", [0]),
        ("GPU-50fc", []),
        ("GPU-a1,GPU-50fc,GPU-ffff", [2]),
        ("GPU-", []),
        ("GPU", []),
        (U[4:], []),
        (U.lower(), []),
        (U.upper(), [0]),
        (U + "x", [0]),
        (U + " ", [0]),
        (" " + U, []),
        (f"{U}, {V}", [0]),
        ("GPU-a1zz", []),
        (f"{U},{U}", []),
        (f"{U},GPU-50fc3", []),
        (f"{U},0", [0]),
        (f"0,{U}", [0]),
        (f"{U},1", [0]),
        (f"1,{U}", [1]),
        (f"{U},x,{U}", [0]),
        (f"GPU-dead,{U}", []),
        (f"MIG-{U}", []),
        (f"MIG-{U}/0/0", []),
        ("MIG-x,0", []),
        ("0,MIG-x", [0]),
    ],
)
def test_a_mask_is_read_as_cuda_reads_it(mask: str, left: list[int]) -> None:
    view = cuda(mask)
    assert numbers(view) == left
    assert list(view.visible.values()) == list(range(len(left)))


def test_the_source_names_the_variable_and_its_value() -> None:
    assert cuda("2,0").source == "CUDA_VISIBLE_DEVICES=2,0"
    assert cuda("").source == "CUDA_VISIBLE_DEVICES="
    assert cuda("0\n1").source == r"CUDA_VISIBLE_DEVICES=0\n1"


@pytest.mark.parametrize("mask", ["", "-1", "NoDevFiles", "0,-1", "1,", "0", U])
def test_a_mask_that_means_what_it_does_needs_no_note(mask: str) -> None:
    assert cuda(mask).note is None


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ("0,99", "list from 99 on: there is no such device"),
        ("all", "list from all on: it is not a number"),
        ("GPU-50fc", "it matches 2 devices"),
        (f"{U},1", "list from 1 on: the list began with GPU-"),
        ("1,1", "names a device twice: 1"),
    ],
)
def test_a_mask_that_is_cut_short_says_where_and_why(mask: str, words: str) -> None:
    assert words in (cuda(mask).note or "")


@pytest.mark.parametrize("order", ["", "junk", "pci_bus_id"])
def test_an_unknown_device_order_hides_everything_as_cuda_refuses_to_start(order: str) -> None:
    view = seen(FOUR, CUDA_DEVICE_ORDER=order, CUDA_VISIBLE_DEVICES="0")
    assert not view.visible
    assert view.source == f"CUDA_DEVICE_ORDER={order}"
    assert "PCI_BUS_ID" in (view.note or "")


def test_equal_cards_are_certain_in_either_order() -> None:
    for order in ("FASTEST_FIRST", "PCI_BUS_ID"):
        view = seen(FOUR, CUDA_DEVICE_ORDER=order, CUDA_VISIBLE_DEVICES="3,1")
        assert (dict(view.visible), view.note) == ({UUIDS[3]: 0, UUIDS[1]: 1}, None)


def test_a_number_among_different_models_is_a_guess_and_says_so() -> None:
    view = cuda("1", MIXED)
    assert dict(view.visible) == {UUIDS[1]: None}
    assert not view.certain
    assert "CUDA_DEVICE_ORDER" in (view.note or "")


def test_a_list_of_all_different_models_is_certain_but_its_numbers_are_not() -> None:
    for view in (cuda("1,0", MIXED), seen(MIXED)):
        assert set(view.visible) == {UUIDS[0], UUIDS[1]}
        assert set(view.visible.values()) == {None}
        assert view.certain
        assert view.note


@pytest.mark.parametrize(
    "env",
    [
        {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        {"CUDA_VISIBLE_DEVICES": UUIDS[1]},
    ],
)
def test_pci_order_or_a_uuid_makes_different_models_certain(env: Mapping[str, str]) -> None:
    view = visibility(MIXED, env)
    assert (dict(view.visible), view.note, view.certain) == ({UUIDS[1]: 0}, None, True)


def test_an_empty_mask_hides_different_models_without_a_doubt() -> None:
    view = cuda("", MIXED)
    assert (dict(view.visible), view.note, view.certain) == ({}, None, True)


def test_a_board_cut_into_instances_has_no_number_and_its_first_instance_has_0() -> None:
    for view in (seen(CUT), cuda("0", CUT), cuda(UUIDS[0], CUT)):
        assert dict(view.visible) == {UUIDS[0]: None, MIG_A: 0, MIG_B: None}
        assert "one MIG instance" in (view.note or "")


@rows(
    ("mask", "left"),
    [
        (MIG_A, {MIG_A: 0}),
        (MIG_B, {MIG_B: 0}),
        (f"{MIG_B},{MIG_A}", {MIG_B: 0, MIG_A: None}),
        ("MIG-2222", {MIG_B: 0}),
        (f"{MIG_A},{MIG_A}", {}),
        (f"{MIG_A},{UUIDS[0]}", {MIG_A: 0}),
        (f"{MIG_A},0", {MIG_A: 0}),
        (MIG_C, {}),
        (f"MIG-{UUIDS[0]}/1/0", {}),
        (f"MIG-{UUIDS[3]}/1/0", {}),
    ],
)
def test_mig_ids_name_instances(mask: str, left: dict[str, int | None]) -> None:
    assert dict(cuda(mask, CUT).visible) == left


def test_the_old_mig_form_is_read_where_only_one_instance_can_be_meant() -> None:
    lonely = (gpu(0), instance(MIG_A, 0), gpu(1), instance(MIG_B, 1), instance(MIG_C, 1))
    assert dict(cuda(f"MIG-{UUIDS[0]}/7/0", lonely).visible) == {MIG_A: 0}
    unclear = cuda(f"MIG-{UUIDS[1]}/7/0", lonely)
    assert not unclear.visible
    assert "matches 2 instances" in (unclear.note or "")


def test_the_old_mig_form_is_matched_whole_where_the_driver_still_speaks_it() -> None:
    old = [f"MIG-{UUIDS[0]}/{number}/0" for number in (1, 11)]
    boards = (gpu(0), instance(old[0], 0), instance(old[1], 0))
    assert dict(cuda(old[0], boards).visible) == {old[0]: 0}


def test_whole_gpus_beside_instances_have_no_certain_number() -> None:
    view = seen((*CUT, gpu(1)))
    assert set(view.visible.values()) == {None}
    assert "together" in (view.note or "")
    assert dict(cuda("1", (*CUT, gpu(1))).visible) == {UUIDS[1]: 0}


@rows("given", ["all", "none", "void", "", "0", "3", UUIDS[1], "junk"])
def test_what_a_container_was_given_masks_nothing_that_is_seen(given: str) -> None:
    view = seen(FOUR, NVIDIA_VISIBLE_DEVICES=given)
    assert (numbers(view), view.note, view.source) == ([0, 1, 2, 3], None, None)
    assert view.container is not None, "it is shown"
    assert view.container.startswith("NVIDIA_VISIBLE_DEVICES=")
    assert seen(FOUR).container is None


def test_what_a_container_was_given_explains_an_empty_list() -> None:
    assert "given no NVIDIA device" in (seen((), NVIDIA_VISIBLE_DEVICES="void").note or "")
    assert "--gpus" in (seen((), NVIDIA_VISIBLE_DEVICES="all").note or "")
    assert seen(()).note is None


@pytest.mark.parametrize("name", ["SLURM_STEP_GPUS", "SLURM_JOB_GPUS"])
def test_slurm_numbers_are_the_nodes_own_and_are_intersected(name: str) -> None:
    view = visibility(FOUR, {name: "1,3"})
    assert dict(view.visible) == {UUIDS[1]: 1, UUIDS[3]: 3}
    assert view.source == f"{name}=1,3"


@pytest.mark.parametrize(
    ("mask", "slurm", "left"),
    [
        ("1,3", "1,3", {1: 0, 3: 1}),
        ("3", "1,3", {3: 0}),
        ("0,3", "1,3", {3: 1}),
        ("0", "1,3", {}),
        ("", "1,3", {}),
        ("3,2", "0-2", {2: 1}),
    ],
)
def test_a_cuda_mask_inside_a_slurm_step_is_never_widened(
    mask: str, slurm: str, left: dict[int, int]
) -> None:
    view = seen(FOUR, CUDA_VISIBLE_DEVICES=mask, SLURM_STEP_GPUS=slurm)
    assert dict(view.visible) == {UUIDS[board]: number for board, number in left.items()}


def test_a_step_that_a_cgroup_confines_keeps_its_renumbered_devices() -> None:
    view = seen(FOUR[:2], CUDA_VISIBLE_DEVICES="0,1", SLURM_STEP_GPUS="6,7")
    assert dict(view.visible) == {UUIDS[0]: 0, UUIDS[1]: 1}
    assert (view.source, view.note, view.certain) == ("CUDA_VISIBLE_DEVICES=0,1", None, True)


@pytest.mark.parametrize("slurm", ["6,7", "x", "1,,2", "3-1"])
def test_a_slurm_list_that_does_not_fit_is_not_applied_and_says_so(slurm: str) -> None:
    view = seen(FOUR, SLURM_STEP_GPUS=slurm)
    assert numbers(view) == [0, 1, 2, 3]
    assert not view.certain
    assert "is ignored" in (view.note or "")


def test_the_step_outranks_its_job() -> None:
    view = seen(FOUR, SLURM_JOB_GPUS="0,1,2", SLURM_STEP_GPUS="2")
    assert numbers(view) == [2]


MODELS = (gpu(0, "NVIDIA A100"), *FOUR[1:])
UNSURE = "the models differ"


@rows(
    ("mask", "slurm", "left", "doubt"),
    [
        ("1", "1", [1], ""),  # not confined: Slurm's masks have the numbers of its list
        ("1,3", "1,3", [1, 3], ""),
        ("3", "1,3", [3], ""),  # a task of two
        ("0", "1", [1], ""),  # confined by a cgroup, but all devices are seen here
        ("0,1", "1,3", [1, 3], ""),
        ("0,1", "3,1", [1, 3], ""),
        ("0,1", "0,1", [0, 1], ""),
        ("0,1", "2-3", [2, 3], ""),
        (UUIDS[2], "2", [2], ""),
        ("", "1", [], ""),
        ("NoDevFiles", "1", [], ""),
        ("0", "1,3", [], UNSURE),  # somebody's own
        ("2", "1", [], UNSURE),
        ("1,0", "2,3", [], UNSURE),
        ("0", "", [0], UNSURE),  # no list
        ("0", "7", [0], "is ignored"),  # of a node with more
        ("0", "x", [0], "is ignored"),
        ("0", "0-3", [0], UNSURE),  # all of them, so the list narrows nothing
    ],
)
def test_slurms_list_says_which_of_mixed_models_a_number_means(
    mask: str, slurm: str, left: list[int], doubt: str
) -> None:
    view = seen(MODELS, CUDA_VISIBLE_DEVICES=mask, SLURM_STEP_GPUS=slurm)
    assert numbers(view) == left
    assert view.certain == (not doubt)
    assert doubt in (view.note or "")


@rows("mask", ["0", "0,1"])
def test_a_mask_that_slurm_counted_from_0_means_the_same_on_one_model(mask: str) -> None:
    given = ["3", "1,3"][mask.count(",")]
    view = seen(FOUR, CUDA_VISIBLE_DEVICES=mask, SLURM_JOB_GPUS=given)
    assert [str(number) for number in numbers(view)] == given.split(",")
    assert list(view.visible.values()) == list(range(len(view.visible)))


@rows(
    ("env", "left"),
    [
        ({"ROCR_VISIBLE_DEVICES": "0,1"}, [1, 3]),
        ({"ROCR_VISIBLE_DEVICES": "1,3"}, [1, 3]),
        ({"ROCR_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"}, [1, 3]),
        ({"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "1"}, [3]),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, [1, 3]),
        ({"ROCR_VISIBLE_DEVICES": "3"}, [3]),
    ],
)
def test_amds_driver_shows_devices_that_slurm_confines(
    env: dict[str, str], left: list[int]
) -> None:
    assert numbers(visibility(amd(4), {**env, "SLURM_STEP_GPUS": "1,3"})) == left


def test_a_mask_of_intel_devices_is_counted_by_slurm_too() -> None:
    arcs = tuple(gpu(number, "Arc", "intel") for number in range(4))
    assert numbers(seen(arcs, ZE_AFFINITY_MASK="0", SLURM_STEP_GPUS="2")) == [2]


def amd(count: int) -> tuple[Device, ...]:
    return tuple(gpu(number, "MI300X", "amd") for number in range(count))


@rows(
    ("env", "left"),
    [
        ({}, [0, 1, 2, 3]),
        ({"ROCR_VISIBLE_DEVICES": "2,1"}, [2, 1]),
        ({"ROCR_VISIBLE_DEVICES": f"0,{UUIDS[3]}"}, [0, 3]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
        ({"ROCR_VISIBLE_DEVICES": "3,2", "HIP_VISIBLE_DEVICES": "1"}, [2]),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}, [1]),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "0"}, [0]),
        ({"CUDA_VISIBLE_DEVICES": "3"}, [3]),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
        ({"HIP_VISIBLE_DEVICES": "0,9,1"}, [0]),
        ({"GPU_DEVICE_ORDINAL": "0"}, [0, 1, 2, 3]),
    ],
)
def test_amd_masks_count_what_the_layer_below_left(env: dict[str, str], left: list[int]) -> None:
    view = visibility(amd(4), env)
    assert numbers(view) == left
    assert list(view.visible.values()) == list(range(len(left)))


@pytest.mark.parametrize(
    ("mask", "left"), [("", [0, 1]), ("1", [1]), ("1.0,1.1", [1]), ("0.0,1", [0, 1]), ("9", [])]
)
def test_an_intel_mask_names_devices_and_tiles(mask: str, left: list[int]) -> None:
    arcs = tuple(gpu(number, "Arc", "intel") for number in range(2))
    view = seen(arcs, ZE_AFFINITY_MASK=mask, CUDA_VISIBLE_DEVICES="")
    assert numbers(view) == left
    assert set(view.visible.values()) <= {None}


def test_a_cuda_mask_leaves_an_unknown_vendor_alone() -> None:
    other = Device("X-1", 7, "other", "Other")
    assert dict(cuda("", (*FOUR, other)).visible) == {"X-1": None}


def test_pci_addresses_are_compared_as_numbers_and_need_all_of_them() -> None:
    low, high = (
        Device("a", 1, "nvidia", "n", "0000:9:00.0"),
        Device("b", 0, "nvidia", "n", "0000:1a:00.0"),
    )
    assert in_pci_order([high, low]) == [low, high]
    unknown = Device("c", 2, "nvidia", "n")
    assert in_pci_order([unknown, low, high]) == [high, low, unknown]


@given(st.text())
def test_a_leading_number_is_found_in_any_text_without_raising(text: str) -> None:
    number = leading_number(text)
    assert number is None or 0 <= number < 10**9


PIECES = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "3",
        "7",
        "-1",
        "",
        " ",
        "x",
        "GPU-",
        "GPU-5",
        "MIG-1",
        "0-2",
        *UUIDS,
        MIG_A,
        MIG_B,
    ]
)
MASKS = st.text() | st.lists(PIECES, max_size=6).map(",".join)
NAMES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)  # fmt: skip
ENVS = st.dictionaries(st.sampled_from(NAMES), MASKS | st.just("PCI_BUS_ID"))
NODES = st.sampled_from(
    [(), FOUR, FOUR[:1], MIXED, CUT, (*CUT, gpu(1)), amd(3), (gpu(0), gpu(1, "Arc", "intel"))]
)


@given(NODES, ENVS)
def test_no_environment_raises_or_shows_what_is_not_there(
    devices: tuple[Device, ...], env: dict[str, str]
) -> None:
    view = visibility(devices, env)
    assert set(view.visible) <= {device.uuid for device in devices}
    given_numbers = sorted(n for n in view.visible.values() if n is not None)
    assert len(given_numbers) == len(set(given_numbers))
    assert view.note is None or view.note.isprintable()
    assert view.source is None or view.source.isprintable()


@given(NODES, ENVS, MASKS)
def test_one_more_slurm_mask_never_widens(
    devices: tuple[Device, ...], env: dict[str, str], mask: str
) -> None:
    without = {key: text for key, text in env.items() if not key.startswith("SLURM")}
    wider = visibility(devices, without)
    narrower = visibility(devices, {**without, "SLURM_STEP_GPUS": mask})
    assert set(narrower.visible) <= set(wider.visible)


@given(MASKS)
def test_the_answer_written_as_uuids_gives_the_same_answer(mask: str) -> None:
    first = cuda(mask)
    again = cuda(",".join(first.visible))
    assert list(again.visible.items()) == list(first.visible.items())
    assert again.note is None
