/** Made from andon's own tables by tests/unit/model/test_throttling.py: make golden. */
export const THROTTLE: Record<string, { title: string; kind: string; alarming: boolean }> = {
  "gpu_idle": {
    "title": "idle",
    "kind": "idle",
    "alarming": false
  },
  "applications_clocks_setting": {
    "title": "application clock setting",
    "kind": "setting",
    "alarming": false
  },
  "sw_power_cap": {
    "title": "power cap",
    "kind": "power",
    "alarming": false
  },
  "hw_slowdown": {
    "title": "hardware slowdown",
    "kind": "hardware",
    "alarming": true
  },
  "sync_boost": {
    "title": "sync boost",
    "kind": "setting",
    "alarming": false
  },
  "sw_thermal_slowdown": {
    "title": "thermal (software)",
    "kind": "thermal",
    "alarming": true
  },
  "hw_thermal_slowdown": {
    "title": "thermal (hardware)",
    "kind": "thermal",
    "alarming": true
  },
  "hw_power_brake_slowdown": {
    "title": "power brake",
    "kind": "power",
    "alarming": true
  },
  "display_clock_setting": {
    "title": "display clock setting",
    "kind": "setting",
    "alarming": false
  },
  "current_limit": {
    "title": "current limit",
    "kind": "power",
    "alarming": false
  },
  "temperature_limit": {
    "title": "temperature limit",
    "kind": "thermal",
    "alarming": false
  },
  "reliability_limit": {
    "title": "reliability limit",
    "kind": "setting",
    "alarming": false
  }
};

export const VENDORS: Record<string, string> = {
  "nvidia": "NVIDIA",
  "amd": "AMD",
  "intel": "Intel"
};

/** What a vendor calls the number and the clock of its devices. */
export const OWN_WORDS: Record<string, { index: string; clock: string }> = {
  "nvidia": {
    "index": "CUDA index",
    "clock": "SM clock"
  },
  "amd": {
    "index": "HIP index",
    "clock": "core clock"
  },
  "intel": {
    "index": "device number",
    "clock": "clock"
  },
  "sim": {
    "index": "CUDA index",
    "clock": "SM clock"
  }
};

/** What people call a reading whose name would not do. */
export const LABELS: Record<string, string> = {
  "utilization_percent": "utilisation",
  "memory_utilization_percent": "memory utilisation",
  "memory_used_bytes": "memory",
  "memory_free_bytes": "memory free",
  "memory_reserved_bytes": "memory reserved",
  "temperature_celsius": "temperature",
  "memory_temperature_celsius": "memory temperature",
  "power_watts": "power",
  "power_limit_watts": "power limit",
  "energy_joules": "energy",
  "fan_percent": "fan",
  "sm_clock_mhz": "SM clock",
  "memory_clock_mhz": "memory clock",
  "encoder_percent": "encoder",
  "decoder_percent": "decoder",
  "pcie_generation": "PCIe",
  "pcie_width": "PCIe width",
  "ecc_uncorrected": "uncorrected ECC errors",
  "sm_active_percent": "SM active",
  "tensor_active_percent": "tensor cores active",
  "pcie_received_bytes_per_second": "PCIe received",
  "pcie_sent_bytes_per_second": "PCIe sent",
  "nvlink_received_bytes_per_second": "NVLink received",
  "nvlink_sent_bytes_per_second": "NVLink sent"
};
