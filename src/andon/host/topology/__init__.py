"""Where devices and CPUs are in the machine."""
