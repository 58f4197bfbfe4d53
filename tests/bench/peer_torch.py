# PyTorch at the same sizes as kernel_bench and as training steps, for comparison.
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch at these sizes.

    python3 peer_torch.py gemm|attention|gpt2|gpt2-xl|llama [--device cuda|cpu] [--quick]
                          [--engine] [--fp32] [--eager] [--batch N] [--sequence N]

--engine: the linear layers are Transformer Engine's, in FP8, and nothing is compiled.
--fp32: training steps without autocast. --eager: nothing is compiled.
Prints lines of the form: name, GFLOP, microseconds, TFLOP/s. Random data.
"""
import argparse
import contextlib
import math
import statistics
import time

import torch
import torch.nn.functional as functional
from torch import nn


def median_seconds(call, device, quick, repeats=50):
    """Median time of a call, after calls to warm up, by events on a GPU."""
    for _ in range(1 if quick else 5):
        call()
    if device == "cpu":
        times = []
        for _ in range(2 if quick else 10):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return statistics.median(times)
    torch.cuda.synchronize()
    repeats = 2 if quick else repeats
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(
        a.elapsed_time(b) * 1e-3 for a, b in zip(events, events[1:]))


def line(name, flops, seconds):
    print(f"{name:60} {'-':>10} {flops * 1e-9:10.2f} {seconds * 1e6:9.1f} "
          f"{flops / seconds * 1e-12:9.2f}  TFLOP/s", flush=True)


def rotating(make, bytes_of_one, quick):
    """As many sets of operands as exceed a GPU's caches, in turn."""
    count = 1 if quick else max(1, min(16, int(128e6 / bytes_of_one) + 1))
    sets = [make() for _ in range(count)]
    state = {"next": 0}

    def take():
        state["next"] = (state["next"] + 1) % count
        return sets[state["next"]]

    return take


def gemm(device, quick):
    rows = 32 if quick else 8192
    shapes = {"gpt2 qkv": (rows, 2304, 768), "gpt2 out": (rows, 768, 768),
              "gpt2 up": (rows, 3072, 768), "gpt2 down": (rows, 768, 3072),
              "gpt2 head": (rows // 4, 50304, 768),
              "llama qkv": (rows, 6144, 2048), "llama out": (rows, 2048, 2048),
              "llama gate_up": (rows, 11008, 2048), "llama down": (rows, 2048, 5504),
              "llama head": (rows // 4, 32000, 2048)}
    for name, (m, n, k) in shapes.items():
        flops = 2.0 * m * n * k

        def make(m=m, n=n, k=k):
            x = torch.randn(m, k, device=device, dtype=torch.bfloat16)
            w = torch.randn(n, k, device=device, dtype=torch.bfloat16) * 0.02
            y = torch.randn(m, n, device=device, dtype=torch.bfloat16)
            return x, w, y

        take = rotating(make, 2 * (m * n + m * k + n * k), quick)
        text = f"{m} x {n} x {k}"

        def forward():
            x, w, y = take()
            torch.matmul(x, w.t(), out=y)

        def input_gradient():
            x, w, y = take()
            torch.matmul(y, w, out=x)

        def weight_gradient():
            x, w, y = take()
            torch.matmul(y.t(), x, out=w)

        for kind, call in (("forward", forward), ("input gradient", input_gradient),
                           ("weight gradient", weight_gradient)):
            line(f"gemm {name} {kind} {text}", flops,
                 median_seconds(call, device, quick))


def attention_backends():
    try:
        from torch.nn.attention import SDPBackend
    except ImportError:
        return {"default": None}
    return {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION}


def attention_case(device, quick, heads, width, sequence, backend):
    tokens = 64 if quick else 16384
    shape = (max(1, tokens // sequence), heads, sequence, width)
    q, k, v, dy = (torch.randn(shape, device=device, dtype=torch.bfloat16)
                   for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_(True)

    def forward():
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def timed():
        with torch.no_grad():
            alone = median_seconds(forward, device, quick)
        y = forward()
        backward = median_seconds(
            lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True), device,
            quick)
        return alone, backward

    if backend is None or device == "cpu":
        return timed()
    from torch.nn.attention import sdpa_kernel
    with sdpa_kernel(backend):
        return timed()


def attention(device, quick):
    """The best of the library's backends, for forward and backward each."""
    for sequence in ((64,) if quick else (1024, 4096, 16384)):
        for heads, width in ((2, 64), (2, 128)) if quick else ((12, 64), (16, 128)):
            tokens = 64 if quick else 16384
            pairs = 0.5 * tokens * (sequence + 1) * heads
            best = {}
            for name, backend in attention_backends().items():
                try:
                    times = attention_case(device, quick, heads, width, sequence, backend)
                except RuntimeError as error:
                    print(f"attention by {name}: {str(error).splitlines()[0]}")
                    continue
                for kind, seconds in zip(("", " backward"), times):
                    best[kind] = min(best.get(kind, (math.inf, "")), (seconds, name))
            for kind, (seconds, name) in best.items():
                flops = (10 if kind else 4) * pairs * width
                line(f"attention{kind} width {width} S {sequence} causal, {heads} heads "
                     f"({name})", flops, seconds)


class Block(nn.Module):
    """A block of GPT-2 (biases, LayerNorm, GELU) or of a Llama (RMSNorm, rotations, SwiGLU)."""

    def __init__(self, hidden, heads, feed_forward, llama, sequence):
        super().__init__()
        bias = not llama
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.llama, self.heads = llama, heads
        self.norm1, self.norm2 = norm(hidden), norm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=bias)
        self.out = nn.Linear(hidden, hidden, bias=bias)
        self.up = nn.Linear(hidden, feed_forward * (2 if llama else 1), bias=bias)
        self.down = nn.Linear(feed_forward, hidden, bias=bias)
        width = hidden // heads
        angles = torch.outer(torch.arange(sequence).float(),
                             10000.0 ** (-torch.arange(0, width, 2).float() / width))
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def rotate(self, x):
        a, b = x.float().chunk(2, dim=-1)
        y = torch.cat((a * self.cosine - b * self.sine, b * self.cosine + a * self.sine),
                      dim=-1)
        return y.to(x.dtype)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        q, k, v = (part.view(batch, sequence, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        if self.llama:
            q, k = self.rotate(q), self.rotate(k)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, sequence, hidden))
        h = self.up(self.norm2(x))
        if self.llama:
            gate, up = h.chunk(2, dim=-1)
            h = functional.silu(gate) * up
        else:
            h = functional.gelu(h, approximate="tanh")
        return x + self.down(h)


class Model(nn.Module):
    def __init__(self, layers, hidden, heads, feed_forward, vocabulary, sequence, llama):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.places = None if llama else nn.Embedding(sequence, hidden)
        self.blocks = nn.ModuleList(
            Block(hidden, heads, feed_forward, llama, sequence) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden) if llama else nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        if not llama:
            self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids)
        if self.places is not None:
            x = x + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def with_engine(model):
    """The model with Transformer Engine's linear layers in its blocks, which take FP8."""
    import transformer_engine.pytorch as engine
    for block in model.blocks:
        for name in ("qkv", "out", "up", "down"):
            linear = getattr(block, name)
            setattr(block, name, engine.Linear(linear.in_features, linear.out_features,
                                               bias=linear.bias is not None))
    return model, engine.fp8_autocast


def step(name, given, batch, sequence, **shape):
    """Time of a whole training step: forward, backward, clipping, fused AdamW."""
    device, quick, engine = given.device, given.quick, given.engine
    batch, sequence = given.batch or batch, given.sequence or sequence
    torch.manual_seed(1)
    if quick:
        shape.update(layers=2, hidden=128, heads=2, feed_forward=256, vocabulary=512)
        batch, sequence = 1, 64
    model, in_fp8 = Model(sequence=sequence, **shape), contextlib.nullcontext
    if engine:
        model, in_fp8 = with_engine(model)
        name += ", FP8 by Transformer Engine"
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1,
                                  fused=True)
    plain = engine or given.eager or quick and device == "cpu"
    compiled = model if plain else torch.compile(model)
    ids = torch.randint(shape["vocabulary"], (batch, sequence + 1), device=device)

    def call():
        with torch.autocast(device, dtype=torch.bfloat16, enabled=not given.fp32), in_fp8():
            loss = compiled(ids[:, :-1], ids[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    seconds = median_seconds(call, device, quick, repeats=15)
    weights = sum(p.numel() for p in model.parameters())
    if not shape["llama"]:
        weights -= model.places.weight.numel()
    else:
        weights -= model.tokens.weight.numel()
    tokens = batch * sequence
    flops = tokens * (6.0 * weights + 6.0 * shape["layers"] * shape["hidden"] * sequence)
    name += ", fp32" if given.fp32 else ""
    line(f"step of {name}, batch {batch} x {sequence}", flops, seconds)
    print(f"  {tokens / seconds:.0f} tokens/s; 6 N + causal attention", flush=True)
    if device != "cpu":
        print(f"  peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("gemm", "attention", "gpt2", "gpt2-xl", "llama"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--quick", action="store_true")
    for switch in ("--engine", "--fp32", "--eager"):
        parser.add_argument(switch, action="store_true")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--sequence", type=int)
    given = parser.parse_args()
    print(f"PyTorch {torch.__version__}"
          + (f", {torch.cuda.get_device_name()}" if given.device == "cuda" else ""))
    if given.what == "gemm":
        gemm(given.device, given.quick)
    elif given.what == "attention":
        attention(given.device, given.quick)
    elif given.what == "gpt2":
        step("GPT-2 124M", given, 8, 1024,
             layers=12, hidden=768, heads=12, feed_forward=3072, vocabulary=50304, llama=False)
    elif given.what == "gpt2-xl":
        step("GPT-2 1.5B", given, 8, 1024,
             layers=48, hidden=1600, heads=25, feed_forward=6400, vocabulary=50304, llama=False)
    else:
        step("a Llama of 1.3 billion", given, 4, 4096,
             layers=24, hidden=2048, heads=16, feed_forward=5504, vocabulary=32000,
             llama=True)


if __name__ == "__main__":
    main()
