/** Written by tests/unit/test_throttling.py from andon's own tables: make golden. */
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
