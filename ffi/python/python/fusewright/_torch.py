"""What is said where PyTorch is missing."""

from __future__ import annotations


def missing(name: str) -> ImportError:
    """The error of a name that needs PyTorch where there is none."""
    message = f"{name} needs PyTorch 2.9 or later, which is not installed: `pip install torch`"
    return ImportError(message, name="torch")
