#!/usr/bin/env python3
"""The layer of `layer.py` in PyTorch, timed as `fusewright bench MODEL --target cuda` times ours: eager, and compiled by
`torch.compile` with and without the search of kernels, as it rounds by default and as eager does (`exact`).

    layer_torch.py OUT.json [--rows 1,32,512] [--deadline SECONDS]

Everything is recorded as one CUDA graph. `whole` is all of it, `pieces` what is left of it without products and attention:
the exported graph is cut at those, every stretch between two cuts is compiled as a function of its own, and all are recorded
one behind the other. What a product or attention gives lies in memory of the same shape and strides, with values of a call.

Rows that OUT.json has are not measured again. Without a GPU, only whether the pieces give what the whole does is tested.
"""

import argparse
import contextlib
import json
import operator
import statistics
import time
from pathlib import Path

import torch
import torch.fx

from layer import Config, exported, inputs, layer

# Nodes that are no pieces.
CUTS = ("linear", "mm", "addmm", "bmm", "matmul", "scaled_dot_product_attention")
# Replays of a figure, and pieces behind each other in the graph of the chained figure.
REPLAYS = 51
CHAIN = 32
# Bytes that are read between cold replays, and reads that bring the clocks up.
SWEEP = 256 << 20
WARM_UP = 3000
# Name of a variant, mode of `torch.compile`, and what is set for it: `exact` rounds as eager does, `overlapping` has kernels
# begin while those before them end.
AUTOTUNED = "max-autotune-no-cudagraphs"
VARIANTS = (
    ("eager", None, {}),
    ("compiled", "default", {}),
    ("compiled exact", "default", {"emulate_precision_casts": True}),
    ("compiled overlapping", "default", {"triton.enable_pdl": True}),
    ("autotuned", AUTOTUNED, {}),
    ("autotuned exact", AUTOTUNED, {"emulate_precision_casts": True}),
)


def is_cut(node):
    """Whether a node is a product or attention."""
    packet = getattr(node.target, "overloadpacket", None)
    return node.op == "call_function" and packet is not None and packet.__name__ in CUTS


class Piece:
    """Nodes between cuts as a function of values by name."""

    def __init__(self, nodes, wanted):
        graph, copies = torch.fx.Graph(), {}
        self.inputs = []

        def copy_of(node):
            if node not in copies:
                self.inputs.append(node.name)
                copies[node] = graph.placeholder(node.name)
            return copies[node]

        inside = set(nodes)
        for node in nodes:
            for source in node.all_input_nodes:
                if source not in inside:
                    copy_of(source)
        for node in nodes:
            copies[node] = graph.node_copy(node, copy_of)
        outputs = [node for node in nodes if node in wanted]
        self.outputs = [node.name for node in outputs]
        graph.output(tuple(copies[node] for node in outputs))
        self.module = torch.fx.GraphModule(torch.nn.Module(), graph)


def pieces(graph):
    """What is left of a graph without its cuts: nodes by how many cuts lie before them. What reads inputs of the graph alone
    is computed where it is used."""
    level, rest = {}, []
    for node in graph.nodes:
        sources = node.all_input_nodes
        # Nobody uses what only asserts something.
        if node.op in ("placeholder", "output") or not node.users:
            continue
        level[node] = max((level[s] + (1 if is_cut(s) else 0) for s in sources if s in level), default=0)
        if not is_cut(node):
            rest.append(node)
    free = {node for node in rest if all(s.op == "placeholder" for s in node.all_input_nodes)}
    for node in rest:
        if node not in free and all(s.op == "placeholder" or s in free for s in node.all_input_nodes):
            free.add(node)
    for node in reversed(rest):
        users = [user for user in node.users if user.op == "output" or user in level]
        if node in free and all(user in level and not is_cut(user) for user in users):
            level[node] = min(level[user] for user in users)
    found = []
    for at in sorted({level[node] for node in rest}):
        nodes = [node for node in rest if level[node] == at]
        leaves = lambda user: user.op == "output" or is_cut(user) or level.get(user, at) != at  # noqa: E731
        found.append(Piece(nodes, {node for node in nodes if any(map(leaves, node.users))}))
    return found


class Recorder(torch.fx.Interpreter):
    """Runs a graph and keeps the values of all its nodes."""

    def __init__(self, module):
        super().__init__(module, garbage_collect_values=False)
        self.values = {}

    def run_node(self, node):
        self.values[node.name] = super().run_node(node)
        return self.values[node.name]


def recorded(program, args):
    """The values of all nodes of a program by name."""
    names = [spec.target for spec in program.graph_signature.input_specs]
    state = {**program.state_dict, **program.constants}
    given = iter(args)
    recorder = Recorder(program.graph_module)
    recorder.run(*(next(given) if name is None else state[name] for name in names))
    return recorder.values


def run_pieces(functions, values):
    """Computes all pieces in order from what the cuts gave; the results of pieces are those of this call."""
    made = {}
    for piece, function in functions:
        results = function(*(made.get(name, values[name]) for name in piece.inputs))
        made.update(zip(piece.outputs, results))
    return made


class Timer:
    """Times of CUDA graphs."""

    def __init__(self):
        self.swept = torch.zeros(SWEEP // 4, device="cuda")
        self.sum = torch.zeros((), device="cuda")
        self.events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(REPLAYS)]
        for _ in range(WARM_UP):
            self.sweep()
        torch.cuda.synchronize()

    def sweep(self):
        """Leaves nothing else in the caches."""
        torch.sum(self.swept, dim=0, out=self.sum)

    def median(self, graph, cold):
        """Microseconds of a replay."""
        graph.replay()
        graph.replay()
        if not cold:
            # Lets this thread run ahead of the device; the replay behind it fills the cache again.
            for _ in range(REPLAYS // 4):
                self.sweep()
            graph.replay()
        for begin, end in self.events:
            if cold:
                self.sweep()
            begin.record()
            graph.replay()
            end.record()
        torch.cuda.synchronize()
        return statistics.median(begin.elapsed_time(end) * 1e3 for begin, end in self.events)

    def figures(self, run, chained):
        """Of what is run once: with empty caches, hot, and if asked for, hot within a row of such runs."""
        run()
        run()
        torch.cuda.synchronize()
        one = torch.cuda.CUDAGraph()
        with torch.cuda.graph(one):
            kept = run()
        row = {"us": self.median(one, True), "hot_us": self.median(one, False), "chained_us": None}
        del kept, one
        if chained:
            many = torch.cuda.CUDAGraph()
            with torch.cuda.graph(many):
                for _ in range(CHAIN):
                    kept = run()
            row["chained_us"] = self.median(many, False) / CHAIN
            del kept, many
        return row


@contextlib.contextmanager
def variant(mode, settings):
    """Has `torch.compile` work as asked, and gives what compiles a function, and counts of kernels that were generated."""
    import torch._inductor.config as config
    import torch._inductor.metrics as metrics

    torch._dynamo.reset()
    metrics.reset()
    with config.patch(settings):
        compiled = lambda f: torch.compile(f, mode=mode, fullgraph=True, dynamic=False)  # noqa: E731
        yield (lambda f: f) if mode is None else compiled, metrics


def same(pieces_of_graph, values):
    """Checks that the pieces give what the whole graph does."""
    made = run_pieces([(piece, piece.module) for piece in pieces_of_graph], values)
    for name, value in made.items():
        pairs = zip(value, values[name]) if isinstance(value, (tuple, list)) else [(value, values[name])]
        if not all(torch.equal(a, b) for a, b in pairs):
            raise SystemExit(f"`{name}` of a piece is another value than in the whole layer")
    return made


def describe(pieces_of_graph):
    """Every piece by its ops."""
    for number, piece in enumerate(pieces_of_graph):
        calls = [n for n in piece.module.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
        names = [getattr(n.target, "overloadpacket", n.target).__name__ for n in calls]
        print(f"piece {number}: {', '.join(names)}; gives {', '.join(piece.outputs)}")


def measure(what, timer, module, program, args):
    """The rows of a part at one number of tokens, by what is yet to be measured."""
    cut = pieces(program.graph_module.graph)
    values = recorded(program, args)
    same(cut, values)
    for name, mode, settings in VARIANTS:
        if not what(name):
            continue
        with variant(mode, settings) as (compiled, metrics):
            whole = compiled(module)
            row = timer.figures(lambda: whole(*args), chained=False)
            yield {"what": "whole", "variant": name, **row, "kernels": metrics.generated_kernel_count or None}
        with variant(mode, settings) as (compiled, metrics):
            functions = [(piece, compiled(piece.module)) for piece in cut]
            row = timer.figures(lambda: run_pieces(functions, values), chained=True)
            yield {"what": "pieces", "variant": name, **row, "kernels": metrics.generated_kernel_count or None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", default="1,32,512")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deadline", type=float, help="seconds after which no more variants are begun")
    parser.add_argument("--variants", default=",".join(name for name, *_ in VARIANTS), help="which of them, by commas")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see whether everything works")
    args = parser.parse_args()
    start, config = time.monotonic(), Config.tiny() if args.tiny else Config()
    on_gpu = torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"
    module = layer(config, args.seed).to(device)
    file = {"device": torch.cuda.get_device_name() if on_gpu else device, "torch": torch.__version__, "rows": []}
    if args.out.exists():
        file["rows"] = json.loads(args.out.read_text())["rows"]
    timer = Timer() if on_gpu else None
    for rows in map(int, args.rows.split(",")):
        given = [x.to(device) for x in inputs(config, rows)]
        with torch.no_grad():
            program = torch.export.export(module, tuple(given), strict=False)
            if not on_gpu:
                describe(pieces(program.graph_module.graph))
                same(pieces(program.graph_module.graph), recorded(program, given))
                continue
            done = lambda name: any((r["variant"], r["T"]) == (name, rows) for r in file["rows"] if r["what"] == "pieces")  # noqa: E731
            late = lambda: args.deadline is not None and time.monotonic() - start > args.deadline  # noqa: E731
            wanted = lambda name: name in args.variants.split(",") and not done(name) and not late()  # noqa: E731
            for row in measure(wanted, timer, module, program, given):
                print({**row, "T": rows}, flush=True)
                file["rows"].append({**row, "T": rows})
                args.out.write_text(json.dumps(file, indent=1) + "\n")


if __name__ == "__main__":
    main()
