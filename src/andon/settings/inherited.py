"""The variables that make a command read the same simulated devices as its parent."""

from andon.settings.resolution import Settings


def simulation_variables(settings: Settings) -> dict[str, str]:
    """Returns the variables that make a command see the same simulated devices; none for real
    ones."""
    if not settings.simulate:
        return {}
    return {
        "ANDON_SIMULATE": str(settings.simulate),
        "ANDON_SIMULATE_SEED": str(settings.simulate_seed),
        "ANDON_SIMULATE_SCENARIO": settings.simulate_scenario,
        "ANDON_SIMULATE_FAULTS": ",".join(settings.simulate_faults),
        "ANDON_REPLAY": "",
    }
