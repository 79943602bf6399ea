"""`generate` of Hugging Face's transformers on this machine: eager, compiled by Inductor, and with Fusewright.

``cargo run -p xtask -- engine hf [--sizes tiny,middle] [--families …] [--modes …] [--caches …] [--rounds N]`` installs what
this needs and runs it. Models have random weights. Each mode has a process of its own with empty caches; rounds of all modes
take turns, and figures are medians. The first call of a batch of one, and that of a batch of two behind it, count what they
compile. Log-probabilities are of the same tokens, fed to all modes in one call and compared with those of f32.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import hf_worker
import models
from report import machine, table, versions, write
from worker import Worker

#: Numbers of sequences, in the order in which a process meets them, and tokens of a prompt.
BATCHES, LENGTH = (1, 2), 8
PEER = "inductor"


def case(of: tuple[str, str, str], modes: list[str], folder: Path, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of a model with one kind of cache."""
    family, size, cache = of
    rows, workers = [], {}
    with tempfile.TemporaryDirectory(prefix="fusewright-engines-") as caches:
        for mode in modes:
            name = f"hf-{family}-{size}-{cache}-{mode}"
            variables = {
                "OMP_NUM_THREADS": "1",
                "TORCHINDUCTOR_CACHE_DIR": f"{caches}/{mode}/inductor",
                "FUSEWRIGHT_CACHE_DIR": f"{caches}/{mode}/fusewright",
                "HF_HUB_OFFLINE": "1",
            }
            program = str(Path(__file__).with_name("hf_worker.py"))
            models.written(family, size, folder / "models")
            command = [program, family, size, mode, cache, str(folder / "models")]
            workers[mode] = Worker(command, variables, folder / "logs" / f"{name}.log")
            try:
                workers[mode].answer()
            except RuntimeError as ended:
                rows.append({"family": family, "size": size, "cache": cache, "mode": mode, "failed": str(ended)})
                workers.pop(mode).end()
        for batch in BATCHES:
            rows += _batch(of, batch, workers, chosen)
        for worker in workers.values():
            worker.end()
    print(shown(rows, chosen.tokens), file=sys.stderr, flush=True)
    return rows


def _batch(
    of: tuple[str, str, str], batch: int, workers: dict[str, Worker], chosen: argparse.Namespace
) -> list[dict[str, Any]]:
    family, size, cache = of
    prompts = models.prompts(size, batch, LENGTH, seed=batch)
    fed = models.prompts(size, batch, 64, seed=batch + 8)
    rows: dict[str, dict[str, Any]] = {}
    for mode, worker in list(workers.items()):
        rows[mode] = {"family": family, "size": size, "cache": cache, "batch": batch, "mode": mode, "seconds": []}
        try:
            first = worker.ask(what="tokens", prompts=prompts, count=chosen.tokens)
            rows[mode] |= {"first": first["seconds"], "tokens": first["tokens"], "counts": worker.ask(what="counts")}
        except RuntimeError as ended:
            rows[mode]["failed"] = str(ended)
            workers.pop(mode).end()
    for turn in range(chosen.rounds + 1):
        for mode, worker in workers.items():
            if mode == "f32":
                continue
            made = worker.ask(what="tokens", prompts=prompts, count=chosen.tokens)
            if turn:
                rows[mode]["seconds"].append(made["seconds"])
    found = {
        mode: [value for sequence in worker.ask(what="logprobs", prompts=fed) for value in sequence]
        for mode, worker in workers.items()
    }
    for mode, values in found.items():
        apart = [abs(a - b) for a, b in zip(values, found.get("f32", values), strict=True)]
        rows[mode]["apart"] = {"most": max(apart), "mean": statistics.fmean(apart)}
        wanted = rows["eager"]["tokens"] if "eager" in rows else rows[mode]["tokens"]
        rows[mode]["equal"] = sum(
            a == b for mine, theirs in zip(rows[mode]["tokens"], wanted) for a, b in zip(mine, theirs)
        )
        rows[mode]["tokens_a_second"] = [batch * chosen.tokens / seconds for seconds in rows[mode]["seconds"]]
    for row in rows.values():
        row.pop("tokens", None)
    return list(rows.values())


def shown(rows: list[dict[str, Any]], tokens: int) -> str:
    """The table of rows, each beside the peer of its case."""
    lines = []
    for row in rows:
        names = [row["family"], row["size"], row["cache"], row.get("batch", ""), row["mode"]]
        if "failed" in row:
            lines.append([*names, row["failed"]])
            continue
        same = ("family", "size", "cache", "batch")
        peer = next((o for o in rows if o["mode"] == PEER and all(o[k] == row.get(k) for k in same)), {})
        rate, rates = statistics.median(row["tokens_a_second"] or [0.0]), peer.get("tokens_a_second")
        counts = row["counts"]
        lines.append(
            [
                *names,
                f"{counts['kernels']} of {counts['operators']}"
                if counts["graphs"]
                else counts["inductor_kernels"] or "",
                f"{row['equal']} of {tokens * row['batch']}",
                f"{row['apart']['mean']:.5f}, {row['apart']['most']:.4f}",
                f"{row['first']:.1f}",
                f"{rate:.1f}" if rate else "",
                f"{rate / statistics.median(rates):.2f}" if rate and rates else "",
            ]
        )
    head = ["model", "size", "cache", "batch", "mode", "kernels", "tokens as eager", "from f32: mean, most", "first s"]
    return table([*head, "tokens/s", "x"], lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where models, logs and results are")
    parser.add_argument("--sizes", default="tiny,middle")
    parser.add_argument("--families", default=",".join(models.FAMILIES))
    parser.add_argument("--modes", default=",".join(hf_worker.MODES))
    parser.add_argument("--caches", default=",".join(hf_worker.CACHES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    chosen = parser.parse_args()
    rows = [
        row
        for size in chosen.sizes.split(",")
        for family in chosen.families.split(",")
        for cache in chosen.caches.split(",")
        for row in case((family, size, cache), chosen.modes.split(","), chosen.folder, chosen)
    ]
    made = {"machine": machine(), "threads": 1, "versions": versions(), "rows": rows}
    write(chosen.folder / "hf.json", made)
    print(f"{made['machine']}, one thread; {made['versions']}\n{shown(rows, chosen.tokens)}")
    return int(any("failed" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
