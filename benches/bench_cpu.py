#!/usr/bin/env python3
"""PyTorch on CPUs, eager and compiled by Inductor, on the ops of the kernel suite: `python benches/bench_cpu.py [OPTION…]`.

--out F            where the figures go, as JSON [bench_cpu.json]
--threads 1,2      one child process for each, with an empty cache of Inductor [1]
--rows 1,32,…      [1,32,512,4096]
--ops a,b          [all]
--dtypes bf16,f32  [bf16]
--emulate          Inductor rounds where eager rounds (`emulate_precision_casts`); it is then called `inductor_exact`
--budget S         seconds of sampling per figure [0.4]
--fusewright BIN   measures that command beside it: both in turns, op by op and number of rows by number of rows
--targets a,b      targets of that command [cpu,cpu-llvm]
--rounds N         turns [3]
--export DIR       writes every op as DIR/OP.pt2 instead, as `torch.export` has it, and measures nothing

Needs torch, and g++ with OpenMP; `--emulate` fails on CPUs in torch 2.10. `fusewright bench --suite kernels --compare F` reads the file. A figure is the median of
its samples, and the least of the medians where it is measured in turns: noise only adds. `bytes` counts every input
read once and every output written once; `copy_us` is a copy of as many, in the same turns. `mismatch_elems` counts, per output, the elements that differ from eager ones.
Inductor compiles once for all numbers of rows and once more for one row. Inputs are used again from call to call, so
that few rows lie in a cache; freed memory stays mapped, so that no call pays for page faults."""
import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time

EPS, E4M3_MAX = 1e-6, 448.0
HIDDEN, INTER = 4096, 12288
Q_HEADS, K_HEADS, HEAD = 32, 8, 128
GROUP, POSITIONS = 128, 8192
EXPERTS_PER_TOKEN, SHARED = 4, 256
SCORES = 4096
OPS = [
    "rms_norm",
    "add_rms_norm",
    "add_rms_norm_fp8_static",
    "add_rms_norm_fp8_token",
    "rms_norm_int8_static",
    "rms_norm_int8_token",
    "layer_norm",
    "softmax",
    "silu_mul",
    "silu_mul_fp8_static",
    "silu_mul_fp8_group128",
    "gelu_tanh_mul",
    "qk_norm_rope",
    "moe_sum",
]


def arguments():
    usage = argparse.SUPPRESS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=usage)
    parser.add_argument("--out", default="bench_cpu.json")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rows", default="1,32,512,4096")
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--dtypes", default="bf16")
    parser.add_argument("--emulate", action="store_true")
    parser.add_argument("--budget", type=float, default=0.4)
    parser.add_argument("--fusewright", default="")
    parser.add_argument("--targets", default="cpu,cpu-llvm")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--export", default="", metavar="DIR")
    parser.add_argument("--child", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = [op for op in given.ops.split(",") if op not in OPS]
    if unknown:
        parser.error(f"no op {unknown[0]}; there are {', '.join(OPS)}")
    return given


class Ops:
    """The ops, each with what makes its inputs for a number of rows."""

    def __init__(self, torch):
        self.torch = torch
        self.scale = torch.tensor([20.0])

    def norm(self, x, w):
        f = x.float()
        return (f * self.torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype) * w

    def fp8(self, f):
        return f.clamp(-E4M3_MAX, E4M3_MAX).to(self.torch.float8_e4m3fn)

    def int8(self, f):
        return self.torch.round(f).clamp(-128, 127).to(self.torch.int8)

    def rms_norm(self, x, w):
        return self.norm(x, w)

    def add_rms_norm(self, x, r, w):
        r = x + r
        return self.norm(r, w), r

    def add_rms_norm_fp8_static(self, x, r, w, inverse):
        r = x + r
        return self.fp8(self.norm(r, w).float() * inverse), r

    def add_rms_norm_fp8_token(self, x, r, w):
        r = x + r
        n = self.norm(r, w).float()
        s = (n.abs().amax(-1, keepdim=True) / E4M3_MAX).clamp(min=1 / (E4M3_MAX * 512))
        return self.fp8(n / s), s, r

    def rms_norm_int8_static(self, x, w, inverse):
        return self.int8(self.norm(x, w).float() * inverse)

    def rms_norm_int8_token(self, x, w):
        n = self.norm(x, w).float()
        s = n.abs().amax(-1, keepdim=True) / 127.0
        return self.int8(n / s), s

    def layer_norm(self, x, w, b):
        f = x.float()
        centred = f - f.mean(-1, keepdim=True)
        normed = centred * self.torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + EPS)
        return (normed * w.float() + b.float()).to(x.dtype)

    def softmax(self, x):
        f = x.float()
        e = self.torch.exp(f - f.amax(-1, keepdim=True))
        return (e / e.sum(-1, keepdim=True)).to(x.dtype)

    def silu_mul(self, x):
        gate, up = x.chunk(2, -1)
        return self.torch.nn.functional.silu(gate) * up

    def silu_mul_fp8_static(self, x, inverse):
        return self.fp8(self.silu_mul(x).float() * inverse)

    def silu_mul_fp8_group128(self, x):
        groups = self.silu_mul(x).float().view(-1, INTER // GROUP, GROUP)
        s = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10) / E4M3_MAX
        return self.fp8(groups / s).view(-1, INTER), s.squeeze(-1)

    def gelu_tanh_mul(self, x):
        gate, up = x.chunk(2, -1)
        return self.torch.nn.functional.gelu(gate, approximate="tanh") * up

    def qk_norm_rope(self, qkv, qw, kw, pos, cache):
        t, q_lanes, k_lanes = qkv.shape[0], Q_HEADS * HEAD, K_HEADS * HEAD
        q, k, _ = qkv.split([q_lanes, k_lanes, k_lanes], -1)
        q, k = self.norm(q.view(t, Q_HEADS, HEAD), qw), self.norm(k.view(t, K_HEADS, HEAD), kw)
        cos, sin = (table[:, None] for table in cache[pos].chunk(2, -1))

        def rope(x):
            a, b = x.chunk(2, -1)
            return self.torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

        return rope(q).reshape(t, q_lanes), rope(k).reshape(t, k_lanes)

    def moe_sum(self, x, weights):
        return (x.float() * weights[:, :, None]).sum(1).to(x.dtype)

    def inputs(self, op, rows, dtype):
        def normal(*shape):
            return self.torch.randn(*shape).to(dtype)

        x, w = (rows, HIDDEN), (HIDDEN,)
        qkv = (rows, (Q_HEADS + 2 * K_HEADS) * HEAD)
        gated = lambda: (normal(rows, 2 * INTER),)
        made = {
            "rms_norm": lambda: (normal(*x), normal(*w)),
            "add_rms_norm": lambda: (normal(*x), normal(*x), normal(*w)),
            "add_rms_norm_fp8_static": lambda: (normal(*x), normal(*x), normal(*w), self.scale),
            "add_rms_norm_fp8_token": lambda: (normal(*x), normal(*x), normal(*w)),
            "rms_norm_int8_static": lambda: (normal(*x), normal(*w), self.scale),
            "rms_norm_int8_token": lambda: (normal(*x), normal(*w)),
            "layer_norm": lambda: (normal(*x), normal(*w), normal(*w)),
            "softmax": lambda: (normal(rows, SCORES),),
            "silu_mul": gated,
            "silu_mul_fp8_static": lambda: (*gated(), self.scale),
            "silu_mul_fp8_group128": gated,
            "gelu_tanh_mul": gated,
            "qk_norm_rope": lambda: (
                normal(*qkv),
                normal(HEAD),
                normal(HEAD),
                self.torch.arange(rows),
                normal(POSITIONS, HEAD),
            ),
            "moe_sum": lambda: (
                normal(rows, EXPERTS_PER_TOKEN, SHARED),
                self.torch.rand(rows, EXPERTS_PER_TOKEN),
            ),
        }
        return made[op]()

    def rowwise(self, op, inputs):
        """The inputs whose first axis is the rows."""
        others = {"qk_norm_rope": (1, 2, 4), "moe_sum": ()}.get(op)
        if others is None:
            others = [i for i, t in enumerate(inputs) if t.dim() == 1]
        return [t for i, t in enumerate(inputs) if i not in others]

    def least_bytes(self, op, inputs, outputs):
        """Every input read once and every output written once; of the packed heads and the table, what is used."""
        rows = inputs[0].shape[0]
        used = {0: rows * (Q_HEADS + K_HEADS) * HEAD, 4: rows * HEAD} if op == "qk_norm_rope" else {}
        read = sum(used.get(i, t.numel()) * t.element_size() for i, t in enumerate(inputs))
        return read + sum(t.numel() * t.element_size() for t in outputs)


def results(value):
    return value if isinstance(value, (tuple, list)) else (value,)


def samples(call, budget):
    """Times of a call in microseconds; short calls are timed many at once."""
    call()
    start = time.perf_counter()
    call()
    inner = max(1, int(2e-4 / max(time.perf_counter() - start, 1e-7)))
    taken, end = [], time.perf_counter() + budget
    while (time.perf_counter() < end or len(taken) < 5) and len(taken) < 2000:
        start = time.perf_counter()
        for _ in range(inner):
            call()
        taken.append((time.perf_counter() - start) / inner * 1e6)
    return sorted(taken)


def figures(turns):
    """Median and deciles of the turn whose median is least."""
    taken = min(turns, key=lambda t: t[len(t) // 2])
    at = lambda part: taken[int(len(taken) * part)]
    return {"median_us": at(0.5), "p10_us": at(0.1), "p90_us": at(0.9)}


class Child:
    """Measures on one number of threads."""

    def __init__(self, given):
        import logging

        logging.disable(logging.WARNING)
        import torch
        import torch._inductor.config as config

        self.given, self.torch, self.ops = given, torch, Ops(torch)
        torch.set_num_threads(given.child)
        torch.manual_seed(0)
        config.emulate_precision_casts = given.emulate
        self.inductor = "inductor_exact" if given.emulate else "inductor"
        self.rows, self.found = sorted(map(int, given.rows.split(",")), reverse=True), []

    def environment(self):
        from torch._inductor import cpu_vec_isa

        with open("/proc/cpuinfo") as info:
            cpu = next((line.split(":")[1].strip() for line in info if "model name" in line), "")
        gxx = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
        return {"torch": self.torch.__version__, "cpu": cpu, "isa": str(cpu_vec_isa.pick_vec_isa()), "gxx": gxx}

    def record(self, base, implementation, measured, **more):
        row = dict(base, impl=implementation, **measured, gbps=base["bytes"] / measured["median_us"] / 1e3, **more)
        self.found.append(row)
        print("{op:24s} {dtype:5s} {rows:5d} rows {threads} threads {impl:20s} {median_us:10.1f} us {gbps:7.2f} GB/s".format(**row), flush=True)
        with open(self.given.out, "w") as out:
            json.dump({"env": self.environment(), "results": self.found}, out, indent=1)

    def run(self):
        with self.torch.no_grad():
            self.copy()
            for op in self.given.ops.split(","):
                for dtype in self.given.dtypes.split(","):
                    self.op(op, dtype)

    def copy(self):
        source = self.torch.zeros(64 << 20)
        sink = self.torch.empty_like(source)
        base = dict(op="memcpy_256MiB", dtype="f32", rows=0, threads=self.given.child, bytes=2 * source.numel() * 4)
        self.record(base, "eager", figures([samples(lambda: sink.copy_(source), self.given.budget)]))

    def op(self, op, dtype):
        torch, given = self.torch, self.given
        torch._dynamo.reset()
        call = getattr(self.ops, op)
        compiled = torch.compile(call, fullgraph=True)
        for rows in self.rows:
            dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
            inputs = self.ops.inputs(op, rows, dtypes[dtype])
            # The number of rows is a symbol, and nothing else is.
            for tensor in self.ops.rowwise(op, inputs) if rows > 1 else []:
                torch._dynamo.mark_dynamic(tensor, 0)
            eager = results(call(*inputs))
            threads, size = given.child, self.ops.least_bytes(op, inputs, eager)
            base = dict(op=op, dtype=dtype, rows=rows, threads=threads, bytes=size)
            start = time.perf_counter()
            got = results(compiled(*inputs))
            first = time.perf_counter() - start
            differ = [int((x.float() != y.float()).sum()) for x, y in zip(eager, got)]
            ours = [f"fusewright:{t}" for t in given.targets.split(",")] if given.fusewright and dtype == "bf16" else []
            turns, copies = {name: [] for name in ["eager", self.inductor, *ours]}, {}
            for _ in range(given.rounds if ours else 1):
                turns["eager"].append(samples(lambda: call(*inputs), given.budget / 4))
                turns[self.inductor].append(samples(lambda: compiled(*inputs), given.budget))
                for name in ours:
                    fused, copy = self.fusewright(op, rows, name.split(":")[1])
                    turns[name].append([fused])
                    copies[name] = min(copy, copies.get(name, copy))
            self.record(base, "eager", figures(turns["eager"]))
            more = {"first_call_s": round(first, 3), "mismatch_elems": differ, "numel": [t.numel() for t in got]}
            self.record(base, self.inductor, figures(turns[self.inductor]), **more)
            for name in ours:
                self.record(base, name, figures(turns[name]), copy_us=copies[name])

    def fusewright(self, op, rows, target):
        """One turn of the command, on all CPUs, and its copy of as many bytes; the threads of this process stay where
        they are."""
        threads = str(self.given.child)
        command = [self.given.fusewright, "bench", "--suite", "kernels", "--case", op, "--target", target]
        command += ["--rows", str(rows), "--threads", threads, "--json"]
        every = range(os.cpu_count() or 1)
        done = subprocess.run(command, check=True, capture_output=True, preexec_fn=lambda: os.sched_setaffinity(0, every))
        row = json.loads(done.stdout)["rows"][0]
        return row["fused_us"], row["copy_us"]


def parent(given):
    out, found, environment = os.path.abspath(given.out), [], None
    for threads in given.threads.split(","):
        work = tempfile.mkdtemp(prefix="bench_cpu_")
        part = os.path.join(work, "part.json")
        variables = dict(
            os.environ,
            OMP_NUM_THREADS=threads,
            MKL_NUM_THREADS=threads,
            TORCHINDUCTOR_CACHE_DIR=os.path.join(work, "cache"),
            TORCHINDUCTOR_FX_GRAPH_CACHE="0",
            TORCHINDUCTOR_AUTOGRAD_CACHE="0",
            MALLOC_MMAP_MAX_="0",
            MALLOC_TRIM_THRESHOLD_="68719476736",
            MALLOC_TOP_PAD_="1073741824",
            OMP_PROC_BIND="true",
            OMP_PLACES="cores",
        )
        command = [sys.executable, os.path.abspath(__file__), "--child", threads, "--out", part]
        for name in ("rows", "ops", "dtypes", "budget", "targets", "rounds"):
            command += [f"--{name}", str(getattr(given, name))]
        if given.fusewright:
            command += ["--fusewright", os.path.abspath(given.fusewright)]
        command += ["--emulate"] if given.emulate else []
        try:
            subprocess.run(command, env=variables, check=True, cwd=work)
            with open(part) as made:
                read = json.load(made)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        found += read["results"]
        environment = read["env"]
        with open(out, "w") as written:
            json.dump({"env": environment, "results": found}, written, indent=1)
    print("wrote", given.out, len(found), "results")
    ratios(found)


def ratios(found):
    """How many times faster than Inductor: every op and number of rows, their geometric mean and the least."""
    key = lambda r: (r["op"], r["dtype"], r["rows"], r["threads"])
    peers = {key(r): r["median_us"] for r in found if r["impl"].startswith("inductor")}
    for name in sorted({r["impl"] for r in found if r["impl"].startswith("fusewright")}):
        for single in (False, True):
            taken = [r for r in found if r["impl"] == name and (r["rows"] == 1) == single]
            by_op = {key(r): peers[key(r)] / r["median_us"] for r in taken}
            if by_op:
                worst = min(by_op, key=by_op.get)
                mean = math.exp(sum(map(math.log, by_op.values())) / len(by_op))
                what = "one row" if single else "more rows"
                print(f"{name}, {what}: geometric mean {mean:.2f}, least {by_op[worst]:.2f} ({worst[0]} at {worst[2]} rows, {worst[3]} threads)")


def export(given):
    import torch

    ops = Ops(torch)
    os.makedirs(given.export, exist_ok=True)
    for op in given.ops.split(","):
        inputs = ops.inputs(op, 7, torch.bfloat16)

        class Module(torch.nn.Module):
            def forward(self, *args):
                return getattr(ops, op)(*args)

        symbol = torch.export.Dim("s", min=0, max=1 << 20)
        rowwise = [id(t) for t in ops.rowwise(op, inputs)]
        shapes = tuple({0: symbol} if id(t) in rowwise else None for t in inputs)
        program = torch.export.export(Module(), inputs, dynamic_shapes=(shapes,), strict=False)
        torch.export.save(program, os.path.join(given.export, f"{op}.pt2"))
        print("wrote", os.path.join(given.export, f"{op}.pt2"))


def main():
    given = arguments()
    if given.export:
        export(given)
    elif given.child:
        Child(given).run()
    else:
        parent(given)


if __name__ == "__main__":
    main()
