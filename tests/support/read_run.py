# Reads a run by share/trireme/python/trireme_read.py and holds it against its files.
# SPDX-License-Identifier: Apache-2.0
# Usage: read_run.py FOLDER_OF_READER RUN
import json
import os
import sys

sys.path.insert(0, sys.argv[1])
run = sys.argv[2]
import trireme_read  # noqa: E402

lines = [json.loads(line) for line in open(os.path.join(run, "metrics.jsonl"))]
steps = [line for line in lines if line["kind"] == "step"]
table = trireme_read.metrics(run)
assert list(table["loss"]) == [line["loss"] for line in steps]
assert not any(isinstance(value, dict) for value in table.iloc[0])
assert len(trireme_read.metrics(run, kind=None)) == len(lines)
deck = trireme_read.deck(run)
weights = trireme_read.state_dict(run)
model = deck["model"]
assert weights["model.embed_tokens.weight"].shape == (model["vocabulary"], model["hidden"])
key = weights["model.layers.0.self_attn.k_proj.weight"]
assert key.shape == (model["hidden"] // model["heads"] * model["kv_heads"], model["hidden"])
assert set(weights) == set(trireme_read.state_dict(run, "optimizer/moment1"))
assert trireme_read.attributes(run)["step"] == steps[-1]["step"]
