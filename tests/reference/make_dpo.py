# Makes dpo.h5: the losses of pairs of answers, and their gradients, with PyTorch.
# SPDX-License-Identifier: Apache-2.0
"""Usage: python make_dpo.py [FOLDER]. The model is that of llama_tied.h5.

In double precision, by the formulas of the papers, one answer a forward, without padding.
Their agreement with TRL's DPOTrainer is described in README.md.
"""

import os
import sys

import h5py
import numpy as np
import torch

import make_reference

CASE, BETA, SMOOTHING = "llama_tied", 0.3, 0.1
# Of each pair: tokens of the prompt, and of either answer behind it.
PAIRS = [(4, 5, 4), (1, 5, 6)]
KINDS = ("sigmoid", "robust", "hinge", "ipo")


def make_pairs(vocabulary):
    rng = np.random.default_rng(77)
    draw = lambda n: rng.integers(0, vocabulary, n)
    pairs = []
    for prompt, chosen, rejected in PAIRS:
        start = draw(prompt)
        pairs.append([np.concatenate([start, draw(n)]) for n in (chosen, rejected)])
    return pairs


def log_probability(model, tokens, prompt):
    logits = model(input_ids=torch.from_numpy(tokens)[None], use_cache=False).logits[0]
    logs = torch.log_softmax(logits[:-1], -1)
    targets = torch.from_numpy(tokens[1:])
    return logs.gather(1, targets[:, None])[prompt - 1:, 0].sum()


def loss_of(kind, logs, references, tokens):
    """logs, references, tokens: [2], of the preferred answer and the other."""
    rewards = [BETA * (logs[i] - references[i]) for i in range(2)]
    if kind == "ipo":
        delta = sum(s * r / n for s, r, n in zip((1, -1), rewards, tokens)) / BETA
        return (delta - 1 / (2 * BETA)) ** 2
    x = rewards[0] - rewards[1]
    if kind == "hinge":
        return torch.relu(1 - x)
    right = -torch.nn.functional.logsigmoid(x) * (1 - SMOOTHING)
    wrong = -torch.nn.functional.logsigmoid(-x) * SMOOTHING
    return right + wrong if kind == "sigmoid" else (right - wrong) / (1 - 2 * SMOOTHING)


def main(folder):
    seed, kind, config = make_reference.CASES[CASE]
    pairs = make_pairs(config.vocab_size)
    with make_reference.in_double(), \
            h5py.File(os.path.join(folder, "dpo.h5"), "w") as file:
        model = make_reference.build(seed, kind, config).double()
        reference = make_reference.build(seed + 100, kind, config).double()
        with torch.no_grad():
            references = [[log_probability(reference, answer, PAIRS[p][0]).item()
                           for answer in pair] for p, pair in enumerate(pairs)]
        for p, pair in enumerate(pairs):
            for name, answer in zip(("chosen", "rejected"), pair):
                file[f"pairs/{p}/{name}"] = answer.astype(np.int32)
        file["prompts"] = np.array([p[0] for p in PAIRS], np.int32)
        file["references"] = np.array(references)
        for name in KINDS:
            model.zero_grad()
            logs = [[log_probability(model, answer, PAIRS[p][0]) for answer in pair]
                    for p, pair in enumerate(pairs)]
            losses = [loss_of(name, logs[p], references[p], PAIRS[p][1:])
                      for p in range(len(pairs))]
            loss = sum(losses) / len(losses)
            loss.backward()
            if name == KINDS[0]:
                file["log_probabilities"] = np.array([[x.item() for x in l] for l in logs])
            file[f"{name}/loss"] = np.array([loss.item()])
            print(name, [l.item() for l in losses])
            for tensor, values in make_reference.gradients_of(model).items():
                file[f"{name}/gradients/{tensor}"] = values


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
