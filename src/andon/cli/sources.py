"""The settings in force and a sampler over them: what every command starts from, and no more."""

from typing import TYPE_CHECKING

from andon.cli.terminal import Choices, notice

if TYPE_CHECKING:
    from andon.core.settings.resolution import Resolved, Settings
    from andon.engine.sampling.sampler import Sampler


def settings_of(choices: Choices) -> "Settings":
    """The settings in force; they also fill in what the command line left open."""
    return resolved_of(choices).settings


def resolved_of(choices: Choices) -> "Resolved":
    """The settings in force, each with its origin; what is odd about them is told once."""
    from andon import app

    resolved = app.load_settings(choices.flags(), choices.config)
    choices.color = choices.color or resolved.settings.color
    if not choices.warned:
        choices.warned = True
        for warning in resolved.warnings:
            notice(warning, choices)
    return resolved


def sampling(choices: Choices) -> "Sampler":
    """A sampler as the settings and the command line ask for it; a context manager."""
    from andon import app

    return app.open_sampler(settings_of(choices))


def sampling_ahead(choices: Choices) -> "Sampler":
    """The same for who shares devices, with its readers started: a driver takes as long to open
    as we to import. Simulated devices are idle unless a scenario was named: the demo's never are.
    """
    resolved = resolved_of(choices)
    if resolved.settings.simulate and resolved.origin["simulate_scenario"] == "default":
        choices.overrides["simulate_scenario"] = "idle"
    sampler = sampling(choices)
    sampler.begin()
    return sampler
