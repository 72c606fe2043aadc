"""Settings that are passed to a command, so that it reads the devices of its lease."""

from andon.settings.resolution import Settings


def simulation_variables(settings: Settings) -> dict[str, str]:
    """Returns the variables by which a command sees the same simulated devices; empty if devices
    are real."""
    if not settings.simulate:
        return {}
    return {
        "ANDON_SIMULATE": str(settings.simulate),
        "ANDON_SIMULATE_SEED": str(settings.simulate_seed),
        "ANDON_SIMULATE_SCENARIO": settings.simulate_scenario,
        "ANDON_SIMULATE_FAULTS": ",".join(settings.simulate_faults),
        "ANDON_REPLAY": "",
    }
