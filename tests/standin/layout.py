"""The layout of the calls file, which the library (C) and the control (Python) both map."""

FUNCTIONS = 128
DEVICES = 64
RING = 512
NAME = 64
FIRED = 64
FLAGS = 16

COLUMNS = DEVICES + 1  # The last column counts the calls without a device.
ROW = COLUMNS * 8

GENERATION_AT = 0
TOTALS_ONLY_AT = GENERATION_AT + 8
FIRED_AT = TOTALS_ONLY_AT + 8
FLAGS_AT = FIRED_AT + FIRED
NAMES_AT = FLAGS_AT + FLAGS * 8
TOTAL_AT = NAMES_AT + FUNCTIONS * NAME
FAULTED_AT = TOTAL_AT + FUNCTIONS * ROW
# Whole pages for the seconds, so that unused functions cost no memory.
SECONDS_AT = -(-(FAULTED_AT + FUNCTIONS * ROW) // 4096) * 4096
SIZE = SECONDS_AT + FUNCTIONS * ROW * RING

DEFINES = tuple(
    f"-D{name}={value}"
    for name, value in (
        ("FUNCTIONS", FUNCTIONS),
        ("DEVICES", DEVICES),
        ("RING", RING),
        ("NAME", NAME),
        ("FIRED", FIRED),
        ("FLAGS", FLAGS),
        ("SIZE", SIZE),
    )
)
