"""Which doors of an engine the user has opened, and why one stays shut: said once, in the log."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module

from .._logging import logger
from ._contract import refusal


def hook(engine: str, name: str) -> Callable[[], None]:
    """A function of an engine's hooks, which are imported when it is called: they import the engine."""

    def called() -> None:
        getattr(import_module(f"{__package__}._{engine}_hooks"), name)()

    return called


def open_doors(
    engine: str, doors: Mapping[str, Callable[[], None]], without_effect: Callable[[], str | None] = lambda: None
) -> list[str]:
    """Opens the doors that ``FUSEWRIGHT_<ENGINE>`` lists, separated by commas; none where it is not set.

    An unknown name, an unsupported release of the engine and a failure are said in the log, and the engine runs unfused.
    ``without_effect`` tells why doors would change nothing here, whatever the release is; what it raises tells nothing.
    Returns the doors that are open.
    """
    variable = f"FUSEWRIGHT_{engine.upper()}"
    chosen = [name for name in os.environ.get(variable, "").replace(" ", "").split(",") if name]
    unknown = [name for name in chosen if name not in doors]
    if unknown:
        logger.error("%s names %r; doors are %s. %s stays unfused", variable, unknown[0], ", ".join(doors), engine)
        return []
    reason = _said(without_effect) or refusal(engine) if chosen else None
    if reason is not None:
        logger.error("%s stays unfused: %s", engine, reason)
        return []
    opened = []
    for name in chosen:
        try:
            doors[name]()
        except Exception:
            logger.exception("the door %r of %s stays shut", name, engine)
        else:
            opened.append(name)
            logger.info("the door %r of %s is open", name, engine)
    return opened


def _said(without_effect: Callable[[], str | None]) -> str | None:
    try:
        return without_effect()
    except Exception:
        # The engine is not as it was expected to be, which its table says by name.
        return None
