"""What nvidia-smi prints, in its versions and moods, as devices and readings."""

import json

import pytest

from andon.drivers.nvidia_smi import cards, document, texts, trouble
from andon.drivers.nvidia_smi.cards import NOT_MEASURED, SystemMemory
from andon.drivers.nvidia_smi.report import SmiReport, parse_list, parse_unreachable
from andon.drivers.nvidia_smi.texts import Unknown
from andon.errors import Denied, Unavailable
from andon.model.device import Device, MemoryKind, ProcessKind, Reading, Setup, State
from andon.node.ssh.smi import snapshot_from_smi
from andon.units import MIB
from tests.support.nvidia_smi import H200, MIG, MIG_LIST, ODD, RECORDED, check, gpu, log
from tests.support.rows import rows

NO_MEMORY = SystemMemory()

NEVER = ("energy_joules", "sm_active_percent", "tensor_active_percent")


def seen(
    text: str, at: float = 1000.0, listed: str = "", memory: SystemMemory = NO_MEMORY
) -> tuple[list[Device], list[Reading]]:
    report = document.parse(text)
    assert report is not None
    return shown(report, at, listed, memory)


def shown(
    report: SmiReport, at: float = 1000.0, listed: str = "", memory: SystemMemory = NO_MEMORY
) -> tuple[list[Device], list[Reading]]:
    found = cards.recognise(report, (), parse_list(listed), memory, {})
    devices = [d for board in found for d in (board.device, *(part for _, part in board.parts))]
    return devices, cards.readings(found, memory, at)


# The recorded one.


def test_the_recording_says_what_it_is() -> None:
    header = json.loads((RECORDED / "h200-580.159.04-smi.json").read_text(encoding="utf-8"))
    report = document.parse((RECORDED / header["file"]).read_text(encoding="utf-8"))
    assert report is not None
    assert report.versions == {"driver": header["driver"], "cuda": "13.0"}
    assert [found.name for found in report.gpus] == [header["device"]]


def test_a_real_h200_is_one_device_with_its_facts() -> None:
    [device], _ = seen(H200)
    assert device.uuid == "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    assert device.pci == "0000:00:06.0"
    assert (device.vendor, device.name, device.index) == ("nvidia", "NVIDIA H200", 0)
    assert device.memory_kind is MemoryKind.DEVICE
    assert device.memory_total_bytes == 143771 * MIB
    assert device.limits.power_default_watts == 700.0
    assert (device.limits.pcie_generation, device.limits.pcie_width) == (5, 16)
    assert device.limits.sm_clock_mhz == 1980
    assert device.limits.slowdown_celsius is None  # it states a distance, and not a temperature
    assert device.setup == Setup(True, True, True, None, {"start_seconds": NOT_MEASURED.reason})


@pytest.mark.parametrize(
    ("printed", "known"),
    [("Enabled", True), ("Disabled", False), ("N/A", None), ("[Unknown Error]", None)],
)
def test_modes_are_on_off_or_unknown(printed: str, known: bool | None) -> None:
    body = f"""<persistence_mode>{printed}</persistence_mode>
      <ecc_mode><current_ecc>{printed}</current_ecc></ecc_mode>"""
    [device], _ = seen(log(gpu(body)))
    assert (device.setup.persistence, device.setup.ecc) == (known, known)
    said = None if known is not None else f'nvidia-smi says "{printed}"'
    assert device.setup.missing.get("ecc") == said
    assert device.setup.ecc_pending is None
    assert device.setup.missing["ecc_pending"] == texts.NOT_REPORTED.reason


def test_a_real_h200_tells_all_but_four_values() -> None:
    _, [reading] = seen(H200, at=5.5)
    sample = reading.sample
    assert sample is not None
    assert sample.at == 5.5
    assert (sample.utilization_percent, sample.memory_utilization_percent) == (48, 11)
    assert sample.memory_used_bytes == 1008 * MIB
    assert sample.memory_free_bytes == 142149 * MIB
    assert sample.memory_reserved_bytes == 616 * MIB
    assert (sample.temperature_celsius, sample.memory_temperature_celsius) == (54, 49)
    assert (sample.power_watts, sample.power_limit_watts) == (649.54, 700.0)
    assert (sample.sm_clock_mhz, sample.memory_clock_mhz) == (1860, 3201)
    assert sample.throttle == ("sw_power_cap",)
    assert (sample.encoder_percent, sample.decoder_percent) == (0, 0)
    assert (sample.pcie_generation, sample.pcie_width) == (5, 16)
    assert (sample.ecc_uncorrected, sample.performance_state) == (0, 0)
    unprinted = {n for n, why in reading.missing.items() if why == texts.NOT_REPORTED.reason}
    assert set(reading.missing) - unprinted == {"fan_percent"}
    assert unprinted >= set(NEVER)
    assert reading.missing["fan_percent"] == 'nvidia-smi says "N/A"'
    check([reading])


def test_its_process_has_no_name_because_the_host_knows_better() -> None:
    _, [reading] = seen(H200)
    [process] = reading.processes
    assert (process.pid, process.kind) == (401, ProcessKind.COMPUTE)
    assert process.memory_bytes == 1002 * MIB
    assert process.name is None


# Odd words.


@rows("token", ODD)
def test_an_odd_word_is_unknown_and_is_the_reason(token: str) -> None:
    value = texts.read("memory_used_bytes", token)
    assert value == Unknown(f'nvidia-smi says "{token}"', absent="N/A" in token or "Not S" in token)


@pytest.mark.parametrize("nothing", ["", " ", "\t\n"])
def test_nothing_is_unknown_too(nothing: str) -> None:
    assert texts.read("power_watts", nothing) == Unknown("nvidia-smi printed nothing")


def test_a_value_that_this_version_does_not_print_is_told_apart() -> None:
    assert texts.read("power_watts", None) == Unknown("not reported by nvidia-smi")


@pytest.mark.parametrize("text", ["101 %", "-1 %", "999999999999999 %"])
def test_an_impossible_value_is_unknown(text: str) -> None:
    value = texts.read("utilization_percent", text)
    assert value == Unknown(f'nvidia-smi says "{text}", which is impossible')


def test_leading_zeros_and_fractions_are_numbers() -> None:
    assert texts.read("utilization_percent", "04 %") == 4
    assert texts.read("power_watts", "26.84 W") == 26.84
    assert texts.read("performance_state", "P8") == 8


def test_a_strange_word_cannot_write_to_a_terminal() -> None:
    value = texts.read("power_watts", "\x1b[31mred" + "x" * 500)
    assert isinstance(value, Unknown)
    assert "\x1b" not in value.reason
    assert len(value.reason) < 100


@pytest.mark.parametrize(
    ("text", "pci"),
    [
        ("00000000:00:06.0", "0000:00:06.0"),
        ("0000:1B:00.0", "0000:1b:00.0"),
        ("00000001:00:00.0", "0001:00:00.0"),
        ("00010000:3A:00.0", "10000:3a:00.0"),
        ("N/A", None),
        (None, None),
    ],
)
def test_an_address_is_spelled_as_the_kernel_does(text: str | None, pci: str | None) -> None:
    assert texts.pci_address(text) == pci


LOST = ("GPU is lost", "[GPU is lost]")


@rows("token", [token for token in ODD if token not in LOST])
def test_an_odd_word_in_the_document_costs_that_value_and_no_other(token: str) -> None:
    body = f"""<fan_speed>{token}</fan_speed><temperature><gpu_temp>41 C</gpu_temp></temperature>
      <clocks_event_reasons>{token}</clocks_event_reasons>"""
    _, [reading] = seen(log(gpu(body)))
    assert reading.sample is not None
    assert reading.sample.temperature_celsius == 41
    assert reading.missing["fan_percent"] == f'nvidia-smi says "{token}"'
    assert reading.missing["throttle"] == f'nvidia-smi says "{token}"'
    check([reading])


# Versions.


def test_schema_9_of_an_old_card_is_read() -> None:
    body = """<fan_speed>33 %</fan_speed><performance_state>P0</performance_state>
      <pci><pci_gpu_link_info><pcie_gen><max_link_gen>3</max_link_gen>
      <current_link_gen>1</current_link_gen></pcie_gen><link_widths>
      <max_link_width>16x</max_link_width><current_link_width>8x</current_link_width>
      </link_widths></pci_gpu_link_info></pci>
      <clocks_throttle_reasons>
        <clocks_throttle_reason_gpu_idle>Active</clocks_throttle_reason_gpu_idle>
        <clocks_throttle_reason_hw_slowdown>N/A</clocks_throttle_reason_hw_slowdown>
        <clocks_throttle_reason_unknown>Not Active</clocks_throttle_reason_unknown>
      </clocks_throttle_reasons>
      <fb_memory_usage><total>4799 MiB</total><used>828 MiB</used><free>3971 MiB</free>
      </fb_memory_usage>
      <utilization><gpu_util>04 %</gpu_util><memory_util>01 %</memory_util></utilization>
      <ecc_errors><volatile><single_bit><total>3</total></single_bit>
        <double_bit><device_memory>1</device_memory><total>2</total></double_bit></volatile>
      </ecc_errors>
      <temperature><gpu_temp>41 C</gpu_temp><gpu_temp_slow_threshold>90 C</gpu_temp_slow_threshold>
      </temperature>
      <power_readings><power_draw>60.12 W</power_draw><power_limit>225.00 W</power_limit>
        <default_power_limit>225.00 W</default_power_limit>
        <enforced_power_limit>200.00 W</enforced_power_limit></power_readings>"""
    [device], [reading] = seen(log(gpu(body), driver="384.111", schema="v9"))
    sample = reading.sample
    assert sample is not None
    assert (sample.fan_percent, sample.pcie_width, sample.utilization_percent) == (33, 8, 4)
    assert sample.throttle == ("gpu_idle",)
    assert sample.ecc_uncorrected == 2
    assert (sample.power_watts, sample.power_limit_watts) == (60.12, 200.0)
    assert sample.memory_reserved_bytes is None
    assert device.limits.slowdown_celsius == 90
    assert reading.missing["memory_reserved_bytes"] == "not reported by nvidia-smi"
    assert reading.missing["processes"] == "not reported by nvidia-smi"
    check([reading])


def test_schema_12_has_its_power_in_another_place() -> None:
    body = """<gpu_power_readings><power_draw>26.84 W</power_draw>
      <current_power_limit>450.00 W</current_power_limit></gpu_power_readings>
      <power_readings><power_draw>N/A</power_draw></power_readings>"""
    _, [reading] = seen(log(gpu(body)))
    assert reading.sample is not None
    assert (reading.sample.power_watts, reading.sample.power_limit_watts) == (26.84, 450.0)


def test_the_average_power_gives_way_where_it_is_not_known() -> None:
    body = """<gpu_power_readings><average_power_draw>N/A</average_power_draw>
      <instant_power_draw>61.00 W</instant_power_draw></gpu_power_readings>"""
    _, [reading] = seen(log(gpu(body), schema="v13"))
    assert reading.sample is not None
    assert reading.sample.power_watts == 61.0


def test_words_around_the_document_do_no_harm() -> None:
    noisy = f"WARNING: something\n{H200}\nWARNING: infoROM is corrupted at gpu 0000:00:06.0\n"
    assert seen(noisy) == seen(H200)


@pytest.mark.parametrize("cut", [0, 100, 5000, -30])
def test_a_document_that_ends_early_is_none(cut: int) -> None:
    assert document.parse(H200[:cut]) is None


def test_a_process_name_that_is_not_xml_does_not_matter() -> None:
    name = "<process_name></process_name>"
    for bad in ("a & b < c", "\x00\xff\x07", "x</process_name><fan_speed>9 %</fan_speed>", "a\n&b"):
        evil = H200.replace(name, f"<process_name>{bad}</process_name>")
        assert evil != H200
        assert seen(evil) == seen(H200)


def test_a_process_name_cannot_declare_a_device_lost() -> None:
    for bad in ("GPU is lost", "Unable to determine the device handle for GPU 0000:00:06.0: x"):
        evil = H200.replace("<process_name>", f"<process_name>{bad}")
        assert seen(evil) == seen(H200)
        assert parse_unreachable(document.around(evil)) == ()


def test_no_document_type_can_define_an_entity() -> None:
    bomb = H200.replace("<nvidia_smi_log>", "<nvidia_smi_log>&a;", 1).replace(
        'SYSTEM "nvsmi_device_v13.dtd"', '[<!ENTITY a "b">]'
    )
    assert document.parse(bomb) is None


# Kinds of devices.


def test_a_desktop_card_has_a_fan_and_graphics_processes() -> None:
    body = """<fan_speed>30 %</fan_speed><processes>
      <process_info><pid>900</pid><type>G</type><process_name>/usr/lib/xorg/Xorg</process_name>
        <used_memory>120 MiB</used_memory></process_info>
      <process_info><pid>901</pid><type>C+G</type><process_name>a, b</process_name>
        <used_memory>N/A</used_memory></process_info>
      <process_info><pid>901</pid><type>G</type><process_name>a</process_name>
        <used_memory>1 MiB</used_memory></process_info>
      <process_info><pid>[N/A]</pid><type>C</type><process_name>a</process_name>
        <used_memory>1 MiB</used_memory></process_info></processes>"""
    _, [reading] = seen(log(gpu(body)))
    assert reading.sample is not None
    assert reading.sample.fan_percent == 30
    assert [(p.pid, p.kind, p.memory_bytes) for p in reading.processes] == [
        (900, ProcessKind.GRAPHICS, 120 * MIB),
        (901, ProcessKind.COMPUTE, None),
    ]
    assert "processes" not in reading.missing


def test_wsl_and_vgpu_say_little_and_each_silence_has_its_word() -> None:
    body = """<fan_speed>N/A</fan_speed><performance_state>P8</performance_state>
      <fb_memory_usage><total>8192 MiB</total><reserved>100 MiB</reserved><used>512 MiB</used>
      <free>7580 MiB</free></fb_memory_usage>
      <utilization><gpu_util>N/A</gpu_util></utilization>
      <clocks_event_reasons>N/A</clocks_event_reasons>
      <ecc_errors><volatile><dram_uncorrectable>N/A</dram_uncorrectable></volatile></ecc_errors>
      <processes>N/A</processes>"""
    _, [reading] = seen(log(gpu(body)))
    assert reading.missing["utilization_percent"] == 'nvidia-smi says "N/A"'
    assert reading.missing["throttle"] == 'nvidia-smi says "N/A"'
    assert reading.missing["ecc_uncorrected"] == 'nvidia-smi says "N/A"'
    assert reading.missing["processes"] == 'nvidia-smi says "N/A"'
    check([reading])


def test_an_ecc_counter_that_failed_is_not_left_out_of_the_sum() -> None:
    body = """<ecc_errors><volatile><sram_uncorrectable_parity>N/A</sram_uncorrectable_parity>
      <sram_uncorrectable_secded>2</sram_uncorrectable_secded>
      <dram_uncorrectable>{}</dram_uncorrectable></volatile></ecc_errors>"""
    _, [fine] = seen(log(gpu(body.format("1"))))
    _, [failed] = seen(log(gpu(body.format("Unknown Error"))))
    assert fine.sample is not None
    assert fine.sample.ecc_uncorrected == 3
    assert failed.missing["ecc_uncorrected"] == 'nvidia-smi says "Unknown Error"'


def test_a_device_without_memory_of_its_own_uses_the_system_s() -> None:
    body = """<fb_memory_usage><total>N/A</total><reserved>N/A</reserved><used>N/A</used>
      <free>Not Supported</free></fb_memory_usage>"""
    memory = cards.parse_meminfo("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\nx\n")
    [device], [reading] = seen(log(gpu(body)), memory=memory)
    assert (device.memory_kind, device.memory_total_bytes) == (MemoryKind.UNIFIED, 1024000)
    assert reading.sample is not None
    assert reading.sample.memory_used_bytes == 600 * 1024
    assert reading.sample.memory_free_bytes == 400 * 1024
    check([reading])


def test_memory_that_may_not_be_read_is_not_the_system_s() -> None:
    body = """<fb_memory_usage><total>Insufficient Permissions</total>
      <used>Insufficient Permissions</used><free>N/A</free></fb_memory_usage>"""
    [device], [reading] = seen(log(gpu(body)), memory=SystemMemory(10, 5))
    assert (device.memory_kind, device.memory_total_bytes) == (MemoryKind.DEVICE, None)
    assert reading.missing["memory_used_bytes"] == 'nvidia-smi says "Insufficient Permissions"'


def test_more_memory_in_use_than_there_is_is_not_shown() -> None:
    body = "<fb_memory_usage><total>10 MiB</total><used>11 MiB</used></fb_memory_usage>"
    _, [reading] = seen(log(gpu(body)))
    assert "more used than total" in reading.missing["memory_used_bytes"]
    check([reading])


def test_mig_instances_are_devices_named_by_the_list() -> None:
    devices, readings = seen(log(gpu(MIG)), listed=MIG_LIST)
    board, first, second = devices
    assert board.parent is None
    assert (first.uuid, first.parent) == ("MIG-aaaa0000-0000-0000-0000-000000000000", board.uuid)
    assert first.name == "NVIDIA X MIG 1g.5gb"
    assert second.name == "NVIDIA X MIG 1g.5gb+me"
    assert (first.index, first.pci) == (board.index, board.pci)
    assert first.memory_total_bytes == 4864 * MIB
    check(readings)


def test_a_mig_instance_has_its_own_memory_and_processes_and_not_the_board_s_values() -> None:
    _, (board, first, second) = seen(log(gpu(MIG)), listed=MIG_LIST)
    assert first.sample is not None
    assert first.sample.memory_used_bytes == 100 * MIB
    assert first.missing["power_watts"] == "not reported for a MIG instance"
    assert second.missing["memory_used_bytes"] == 'nvidia-smi says "N/A"'
    assert [p.pid for p in first.processes] == [p.pid for p in board.processes] == [77]
    assert second.processes == ()


def test_a_mig_instance_without_a_uuid_is_named_by_its_place() -> None:
    devices, _ = seen(log(gpu(MIG)))
    assert devices[1].uuid == "MIG-GPU-00000001-0000-0000-0000-000000000000/3/0"


# Lost ones.


@pytest.mark.parametrize("word", ["GPU is lost", "[GPU is lost]", "GPU requires reset"])
def test_a_lost_device_is_lost_and_its_neighbour_is_not(word: str) -> None:
    body = f"<temperature><gpu_temp>{word}</gpu_temp></temperature>"
    text = log(gpu(body), gpu("", bus="00000000:02:00.0", number=2))
    _, (lost, fine) = seen(text)
    assert (lost.state, lost.sample) == (State.LOST, None)
    assert lost.reason
    assert lost.reason.startswith(("it has fallen", "it needs a reset"))
    assert fine.state is State.OK


@pytest.mark.parametrize(
    ("line", "pci", "index", "word"),
    [
        ("GPU 0000:0A:00.0: GPU is lost.  Reboot the system", "0000:0a:00.0", None, "fallen off"),
        ("GPU0000:CB:00.0: Unknown Error", "0000:cb:00.0", None, "Unknown Error"),
        ("GPU1: 0000:34:00.0: Unknown Error", "0000:34:00.0", 1, "Unknown Error"),
        ("GPU 3: Not Found", None, 3, "Not Found"),
        ("GPU", None, None, "no reason"),
    ],
)
def test_a_device_that_cannot_be_reached_is_told_apart(
    line: str, pci: str | None, index: int | None, word: str
) -> None:
    [found] = parse_unreachable(f"x\nUnable to determine the device handle for {line}\n")
    assert (found.pci, found.index) == (pci, index)
    assert word in found.reason


def test_a_device_that_cannot_be_reached_keeps_its_number_among_the_others() -> None:
    report = document.parse(log(gpu("", bus="00000000:0b:00.0")))
    assert report is not None
    line = "Unable to determine the device handle for GPU 0000:0A:00.0: Unknown Error"
    devices, readings = shown(SmiReport(report.gpus, parse_unreachable(line)))
    assert {(d.pci, d.index) for d in devices} == {("0000:0a:00.0", 0), ("0000:0b:00.0", 1)}
    assert {r.state for r in readings} == {State.OK, State.LOST}
    check(readings)


# Failures.


@rows(
    ("code", "text", "kind", "word"),
    [
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
            "sure that the latest NVIDIA driver is installed and running.", Unavailable,
            "not loaded"),
        (18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: "
             "535.1", Unavailable, "versions differ"),
        (6, "No devices were found", Unavailable, "no GPU"),
        (4, "Failed to initialize NVML: Insufficient Permissions", Denied, "no permission"),
        (12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", Unavailable,
             "libnvidia-ml"),
        (17, "Failed to initialize NVML: GPU access blocked by the operating system", Unavailable,
             "blocked"),
        (255, "Failed to initialize NVML: Unknown Error", Unavailable, "unknown error"),
        (9, "words of tomorrow", Unavailable, "not loaded"),
    ],
)  # fmt: skip
def test_each_failure_has_its_own_words_and_a_hint(
    code: int, text: str, kind: type, word: str
) -> None:
    error = trouble.failure(code, text)
    assert isinstance(error, kind)
    assert error is not None
    assert word in error.reason
    assert error.hint


def test_an_unheard_of_failure_is_told_in_its_own_words() -> None:
    assert trouble.failure(77, "the moon is full") is None
    error = trouble.misunderstood(77, "\n  the moon is full\n")
    assert error.reason == 'nvidia-smi says "the moon is full" (exit code 77)'


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    ["<nvidia_smi_log>", "</nvidia_smi_log>", "<process_name>", "</process_name> ", " ", "<"],
)
def test_the_cost_of_a_hostile_document_grows_no_faster_than_it(piece: str) -> None:
    """Others choose the names of processes, and nvidia-smi writes them unescaped."""
    document.parse(f"<nvidia_smi_log>{piece * 100_000}</nvidia_smi_log>")
    document.around(piece * 100_000)


USE = "<process_info><pid>7</pid></process_info>"


@pytest.mark.parametrize(
    "body",
    [
        "<gpu/>" * 5000,
        gpu(
            "<mig_devices>" + "<mig_device><index>1</index></mig_device>" * 5000 + "</mig_devices>"
        ),
        gpu("<processes>" + USE * 70_000 + "</processes>"),
    ],
    ids=["boards", "instances", "processes"],
)
def test_a_report_of_more_than_a_machine_can_have_is_none(body: str) -> None:
    text = log(body)
    assert document.parse(text) is None
    with pytest.raises(Unavailable, match="prints no report of 1 to 4096 devices"):
        snapshot_from_smi(text.encode(), "lab", 1.0)


def test_a_process_that_is_named_like_many_boards_hides_none() -> None:
    name = "<process_name>" + "<gpu/>" * 5000 + "</process_name><used_memory>1 MiB</used_memory>"
    use = USE.replace("</process_info>", f"{name}</process_info>")
    report = document.parse(log(gpu(f"<processes>{use}</processes>")))
    assert report is not None
    assert len(report.gpus) == 1


def test_boards_without_a_handle_are_as_few_as_devices() -> None:
    line = "Unable to determine the device handle for GPU0000:{:02x}:00.0: Unknown Error"
    assert len(parse_unreachable("\n".join(line.format(n % 256) for n in range(5000)))) == 4096


def test_traffic_is_what_nvidia_smi_measured() -> None:
    body = "<pci><rx_util>13499 KB/s</rx_util><tx_util>N/A</tx_util></pci>"
    _, [reading] = seen(log(gpu(body)))
    assert reading.sample is not None
    assert reading.sample.pcie_received_bytes_per_second == 13_499_000
    assert reading.sample.pcie_sent_bytes_per_second is None
    assert reading.missing["pcie_sent_bytes_per_second"] == 'nvidia-smi says "N/A"'
