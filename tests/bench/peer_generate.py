#!/usr/bin/env python3
# A file of prompts by transformers' generate, in one batch: seconds, and the same tokens.
# SPDX-License-Identifier: Apache-2.0
# Usage: peer_generate.py FOLDER PROMPTS OUT [fp32|bf16 [THREADS]]: prompts are padded on the
# left to the longest, and as many tokens are made for each as the longest wants. OUT is what
# `trireme generate` made of them. Prints the seconds of the clock and of the processor that
# generate() alone took, and how many texts are the same token by token.
import json
import os
import sys
import time

folder, prompts, out = sys.argv[1:4]
dtype = sys.argv[4] if len(sys.argv) > 4 else "fp32"
threads = int(sys.argv[5]) if len(sys.argv) > 5 else 1
os.environ["OMP_NUM_THREADS"] = str(threads)
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch  # noqa: E402
from transformers import AutoModelForCausalLM, GenerationConfig  # noqa: E402

torch.set_num_threads(threads)
with open(prompts) as lines:
    wanted = [json.loads(line) for line in lines]
with open(out) as lines:
    ours = [json.loads(line)["tokens"] for line in lines]
longest = max(len(one["prompt_tokens"]) for one in wanted)
most = max(one["tokens"] for one in wanted)
model = AutoModelForCausalLM.from_pretrained(
    folder, dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]).eval()
ids = torch.zeros(len(wanted), longest, dtype=torch.long)
mask = torch.zeros_like(ids)
for row, one in enumerate(wanted):
    length = len(one["prompt_tokens"])
    ids[row, longest - length:] = torch.tensor(one["prompt_tokens"])
    mask[row, longest - length:] = 1
config = GenerationConfig(do_sample=False, max_new_tokens=most, min_new_tokens=most,
                          pad_token_id=0, use_cache=True)


def generate(tokens):
    config.max_new_tokens = config.min_new_tokens = tokens
    with torch.inference_mode():
        return model.generate(ids, attention_mask=mask, generation_config=config)


generate(2)  # what the first call alone takes
clock, processor = time.perf_counter(), time.process_time()
made = generate(most)
clock, processor = time.perf_counter() - clock, time.process_time() - processor
same = sum(made[row, longest:longest + one["tokens"]].tolist() == ours[row]
           for row, one in enumerate(wanted))
print(f"{clock:.2f} {processor:.2f} {same}")
