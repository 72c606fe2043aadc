"""Names of Intel's cards; integrated GPUs are named by the system's list."""

from typing import Final

WELL_KNOWN: Final = {
    0x0BD5: "Intel Data Center GPU Max 1550",
    0x0BDA: "Intel Data Center GPU Max 1100",
    0x5690: "Intel Arc A770M",
    0x5691: "Intel Arc A730M",
    0x5692: "Intel Arc A550M",
    0x5693: "Intel Arc A370M",
    0x5694: "Intel Arc A350M",
    0x56A0: "Intel Arc A770",
    0x56A1: "Intel Arc A750",
    0x56A2: "Intel Arc A580",
    0x56A5: "Intel Arc A380",
    0x56A6: "Intel Arc A310",
    0x56C0: "Intel Data Center GPU Flex 170",
    0x56C1: "Intel Data Center GPU Flex 140",
    0xE20B: "Intel Arc B580",
    0xE20C: "Intel Arc B570",
    0xE211: "Intel Arc Pro B60",
    0xE212: "Intel Arc Pro B50",
    0x9A49: "Intel Iris Xe Graphics",
    0x46A6: "Intel Iris Xe Graphics",
    0xA7A0: "Intel Iris Xe Graphics",
    0x4680: "Intel UHD Graphics 770",
    0xA780: "Intel UHD Graphics 770",
    0x3E92: "Intel UHD Graphics 630",
    0x7D55: "Intel Arc Graphics",
    0x64A0: "Intel Arc Graphics 130V/140V",
}
