"""``python -m fusewright doctor``: what this machine has, what of it is used, and why."""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fusewright", description="Kernels for PyTorch models.")
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser(
        "doctor",
        help="say what this machine has, what of it is used, and why",
        epilog="Exit status: 0 kernels compile and run on this processor, "
        "1 they do not, or what a variable asks for is missing",
    )
    doctor.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    from ._doctor import report

    text, status = report(json=options.json)
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
