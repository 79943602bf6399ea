#!/usr/bin/env python3
"""One decoder layer of Qwen3-8B with random weights, in the form that serving engines run it: exported, and its results
compared.

    layer.py export MODEL.pt2                      weights of --seed, any number of tokens
    layer.py inputs IN.safetensors                 a call of --rows tokens, as `fusewright run --check` takes it
    layer.py compare MODEL.pt2 IN OUT FAR.json     results of another program, beside those of PyTorch
    layer.py join OUT.json OURS.json THEIRS.json FAR.json…
                                                   one table, and one file of all

The residual is a stream of its own that each norm adds to, q, k and v are one product, gate and up are another, heads lie
side by side in a row per token, and cosines and sines are rows of a table that positions choose. A call attends over its own
tokens. Everything is bf16 and rounds as the model's reference does: the sum of residuals before it is normalised, the norm
before its weight, and each product and sum of the rotation.
"""

import argparse
import json
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F


@dataclass
class Config:
    """Sizes, as the model's configuration has them."""

    hidden: int = 4096
    heads: int = 32
    key_heads: int = 8
    head: int = 128
    intermediate: int = 12288
    eps: float = 1e-6
    theta: float = 1e6
    positions: int = 40960

    @staticmethod
    def tiny():
        """Small ones, to see whether everything works."""
        return Config(hidden=256, heads=4, key_heads=2, head=64, intermediate=512, positions=1024)


class Norm(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(1 + 0.1 * torch.randn(width)), eps

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


def rotate(x, cos, sin):
    """Turns the first half of every head against the second."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def product(width, out):
    linear = torch.nn.Linear(width, out, bias=False, device="meta")
    return linear.to_empty(device="cpu").requires_grad_(False)


class Layer(torch.nn.Module):
    """`(positions, hidden, residual)` to the new `(hidden, residual)`."""

    def __init__(self, c):
        super().__init__()
        self.c, self.q, self.kv = c, c.heads * c.head, c.key_heads * c.head
        self.input_norm, self.output_norm = Norm(c.hidden, c.eps), Norm(c.hidden, c.eps)
        self.q_norm, self.k_norm = Norm(c.head, c.eps), Norm(c.head, c.eps)
        self.qkv, self.o = product(c.hidden, self.q + 2 * self.kv), product(self.q, c.hidden)
        self.gate_up, self.down = product(c.hidden, 2 * c.intermediate), product(c.intermediate, c.hidden)
        for linear in (self.qkv, self.o, self.gate_up, self.down):
            torch.nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
        turns = torch.arange(c.positions).float()[:, None] / c.theta ** (torch.arange(0, c.head, 2).float() / c.head)
        self.register_buffer("table", torch.cat((turns.cos(), turns.sin()), dim=-1))

    def forward(self, positions, hidden, residual):
        c, rows = self.c, hidden.shape[0]
        residual = hidden + residual
        q, k, v = self.qkv(self.input_norm(residual)).split([self.q, self.kv, self.kv], dim=-1)
        cos, sin = self.table.index_select(0, positions)[:, None, :].chunk(2, dim=-1)
        q = rotate(self.q_norm(q.view(rows, c.heads, c.head)), cos, sin)
        k = rotate(self.k_norm(k.view(rows, c.key_heads, c.head)), cos, sin)
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v.view(rows, c.key_heads, c.head)))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        residual = self.o(seen[0].transpose(0, 1).reshape(rows, self.q)) + residual
        gate, up = self.gate_up(self.output_norm(residual)).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up), residual


def layer(config, seed=1):
    """The layer with weights of a seed, on the host."""
    torch.manual_seed(seed)
    return Layer(config).to(torch.bfloat16).eval().requires_grad_(False)


def inputs(config, rows, seed=2):
    """A call's positions, and its hidden values and residual."""
    made = torch.Generator().manual_seed(seed)
    wide = [torch.randn(rows, config.hidden, generator=made) for _ in range(2)]
    return (torch.randint(config.positions, (rows,), generator=made), *(x.to(torch.bfloat16) for x in wide))


def exported(module, config, rows=None):
    """The program of a number of rows, or of any number."""
    sizes = None if rows else tuple({0: torch.export.Dim("tokens", min=1, max=config.positions)} for _ in range(3))
    return torch.export.export(module, inputs(config, rows or 8), dynamic_shapes=sizes, strict=False)


def read_tensors(path):
    """The tensors of a safetensors file by name."""
    data = Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    kinds = {"BF16": torch.bfloat16, "F32": torch.float32, "I64": torch.int64}
    found = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            raw = torch.frombuffer(bytearray(data[8 + size + start : 8 + size + end]), dtype=torch.uint8)
            found[name] = raw.view(kinds[entry["dtype"]]).reshape(entry["shape"])
    return found


def write_tensors(path, tensors):
    """Writes a safetensors file."""
    kinds = {torch.bfloat16: "BF16", torch.float32: "F32", torch.int64: "I64"}
    head, parts, at = {}, [], 0
    for name, tensor in tensors.items():
        raw = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        entry = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(raw)]}
        head[name], at = entry, at + len(raw)
        parts.append(raw)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def compare(program, given, found, config):
    """How far results, and PyTorch's in bf16, lie from those in f32: the norm of the difference over that of the result."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    args = [read_tensors(given)[f"in{i}"].to(device) for i in range(3)]
    module = Layer(config).to(torch.bfloat16)
    module.load_state_dict(program.state_dict)
    module = module.to(device)
    with torch.no_grad():
        near = module(*args)
        exact = module.float()(args[0], *(x.float() for x in args[1:]))
    rows = []
    for i, name in enumerate(("hidden", "residual")):
        ours = read_tensors(found)[f"out{i}"].to(device)
        far = [((x.float() - exact[i]).norm() / exact[i].norm()).item() for x in (ours, near[i])]
        rows.append({"result": name, "T": len(args[0]), "ours": far[0], "torch": far[1]})
    return rows


def is_right(row):
    """Whether ours lies no further from f32 than half as far again as PyTorch's."""
    return row["ours"] <= 1.5 * row["torch"]


def join(ours, theirs, far):
    """The rows of all files."""
    ours, theirs, *far = (json.loads(Path(path).read_text()) for path in (ours, theirs, *far))
    if ours["device"] != theirs["device"]:
        raise SystemExit(f"figures of {ours['device']} and of {theirs['device']}")
    rows = ours["rows"] + theirs["rows"]
    return {"device": ours["device"], "torch": theirs["torch"], "rows": rows, "far": sum(far, [])}


FIGURES = (("us", "cold"), ("hot_us", "hot"), ("chained_us", "chained"))


def table(file):
    """What is measured, in lines: microseconds of ours, and how often as long every other variant takes."""
    rows = {(row["what"], row["variant"], row["T"]): row for row in file["rows"]}
    variants = list(dict.fromkeys(row["variant"] for row in file["rows"] if row["variant"] != "fused"))
    lines = ["| part | tokens | cache | fused µs | " + " | ".join(variants) + " |", "|---" * (4 + len(variants)) + "|"]
    for what, tokens in dict.fromkeys((what, tokens) for what, _, tokens in rows):
        fused = rows.get((what, "fused", tokens), {})
        for figure, name in FIGURES:
            if fused.get(figure) is None:
                continue
            others = [rows.get((what, variant, tokens), {}).get(figure) for variant in variants]
            ratios = ["-" if us is None else f"{us / fused[figure]:.2f}" for us in others]
            lines.append(f"| {what} | {tokens} | {name} | {fused[figure]:.2f} | " + " | ".join(ratios) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see whether everything works")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=32, help="tokens of `inputs`")
    parser.add_argument("verb", choices=("export", "inputs", "compare", "join"))
    parser.add_argument("files", nargs="+", type=Path)
    args = parser.parse_args()
    config, files = Config.tiny() if args.tiny else Config(), args.files
    if args.verb == "export":
        torch.export.save(exported(layer(config, args.seed), config), files[0])
    elif args.verb == "inputs":
        write_tensors(files[0], {f"in{i}": x for i, x in enumerate(inputs(config, args.rows))})
    elif args.verb == "compare":
        rows = compare(torch.export.load(files[0]), *files[1:3], config)
        files[3].write_text(json.dumps(rows) + "\n")
        for row in rows:
            print(f"{row['result']} of {row['T']}: {row['ours']:.2e} from f32, PyTorch {row['torch']:.2e}")
        sys.exit(0 if all(map(is_right, rows)) else 1)
    else:
        both = join(files[1], files[2], files[3:])
        files[0].write_text(json.dumps(both, indent=1) + "\n")
        print("\n".join(table(both)))
        sys.exit(0 if all(map(is_right, both["far"])) else 1)


if __name__ == "__main__":
    main()
