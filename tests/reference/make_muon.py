# Makes muon.txt, for muon_test.cpp, with PyTorch.
# SPDX-License-Identifier: Apache-2.0
"""Writes muon.txt: weights after ten steps of torch.optim.Muon.

Each line: name, learning rate adjustment, Nesterov (1, 0), type of the products, rows,
columns, then the weights, row by row. Products in float64: the same class, for which
torch.bfloat16 means float64, so that formulas are compared and not roundings.
"""

import math

import torch

SHAPES = {"wide": (5, 8), "tall": (8, 5), "square": (6, 6)}
STEPS = 10


def values(name, shape, step):
    """Step 0: the first weights; else the gradient."""
    salt = 100 * list(SHAPES).index(name) + 7 * step
    count = shape[0] * shape[1]
    return torch.tensor(
        [math.sin(1.0 + 0.37 * i * (1 + step) + salt) for i in range(count)],
        dtype=torch.float64,
    ).reshape(shape)


def train(name, shape, adjust, nesterov, dtype):
    weight = torch.nn.Parameter(values(name, shape, 0).to(dtype))
    optimizer = torch.optim.Muon(
        [weight],
        lr=0.02,
        weight_decay=0.1,
        momentum=0.95,
        nesterov=nesterov,
        adjust_lr_fn=adjust,
    )
    for step in range(1, STEPS + 1):
        weight.grad = values(name, shape, step).to(dtype)
        optimizer.step()
    return weight.detach().double().flatten().tolist()


def lines(dtype, products):
    for adjust in ("original", "match_rms_adamw"):
        for nesterov in (True, False):
            for name, shape in SHAPES.items():
                weights = train(name, shape, adjust, nesterov, dtype)
                head = [name, adjust, int(nesterov), products, *shape]
                yield " ".join(map(str, head + [repr(w) for w in weights]))


class InDouble:
    """The torch module, but that bfloat16 is float64."""

    bfloat16 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def main():
    rows = list(lines(torch.float32, "bf16"))
    torch.optim._muon.torch = InDouble()
    rows += lines(torch.float64, "fp64")
    with open("muon.txt", "w", encoding="ascii") as out:
        out.write("\n".join(rows) + "\n")
    print("torch", torch.__version__)


if __name__ == "__main__":
    main()
