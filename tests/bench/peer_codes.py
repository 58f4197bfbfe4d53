#!/usr/bin/env python3
# Products of one row from codes, and texts from quantized folders, beside the libraries'.
# SPDX-License-Identifier: Apache-2.0
# Usage: peer_codes.py products CODES_BENCH THREADS [ROUNDS [ROWS [COLUMNS]]]
#        peer_codes.py texts PROGRAM THREADS ROUNDS FOLDER...
# products: one row times ROWS x COLUMNS weights (codes_bench's 32768 x 4096) by bitsandbytes and
# torch, in turn with codes_bench; the best of the rounds, each of three products. texts: tokens a
# second of one text by transformers' generate and by the program, in turn; the time of 33 tokens
# less that of one, the best of the rounds. Of one thread seconds are the processor's, which others
# on the machine lengthen little, else those of the clock. Needs torch, transformers, bitsandbytes
# and compressed-tensors.
import os
import resource
import subprocess
import sys
import time

kind, program, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
os.environ["OMP_NUM_THREADS"] = str(threads)
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import bitsandbytes as bnb  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(threads)


def now():
    return time.process_time() if threads == 1 else time.perf_counter()


def quantized(layer, how, dtype):
    rows, columns = layer.out_features, layer.in_features
    if how in ("nf4", "fp4"):
        new = bnb.nn.Linear4bit(columns, rows, bias=False, compute_dtype=dtype, quant_type=how)
        new.weight = bnb.nn.Params4bit(layer.weight.data, requires_grad=False, quant_type=how)
    else:
        new = bnb.nn.Linear8bitLt(columns, rows, bias=False, has_fp16_weights=False, threshold=0.0)
        new.weight = bnb.nn.Int8Params(layer.weight.data, requires_grad=False,
                                       has_fp16_weights=False)
    return new.to("cpu")


def products():
    rows = int(sys.argv[5]) if len(sys.argv) > 5 else 32768
    columns = int(sys.argv[6]) if len(sys.argv) > 6 else 4096
    layers, best = {}, {}
    for dtype in (torch.float32, torch.bfloat16):
        numbers = torch.nn.Linear(columns, rows, bias=False, dtype=dtype)
        layers["numbers", dtype] = numbers
        for how in ("nf4", "fp4", "int8"):
            layers[how, dtype] = quantized(numbers, how, dtype)
    inputs = {dtype: torch.randn(1, columns).to(dtype) for _, dtype in layers}
    for round_number in range(rounds):
        subprocess.run([program, "1", "3"], check=True)
        with torch.inference_mode():
            for key, layer in layers.items():
                for _ in range(3 if round_number else 4):
                    start = now()
                    layer(inputs[key[1]])
                    best[key] = min(best.get(key, 1e9), now() - start)
    print(f"bitsandbytes {bnb.__version__}, torch {torch.__version__}, {threads} threads, "
          f"{rows} x {columns}")
    for (how, dtype), seconds in best.items():
        print(f"{how:8} {str(dtype)[6:]:9} {1e3 * seconds:9.2f} ms")


def used():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime if threads == 1 else time.perf_counter()


def ours(folder, tokens):
    start = used()
    subprocess.run([program, "generate", folder, "--prompt-tokens", "1", "--tokens", str(tokens),
                    "--temperature", "0"], check=True, capture_output=True)
    return used() - start


def texts():
    from transformers import AutoModelForCausalLM
    ids = torch.tensor([[1]])
    print("tokens a second of one text: the program, transformers, ratio")
    for folder in sys.argv[5:]:
        model = AutoModelForCausalLM.from_pretrained(folder).eval()

        def theirs(tokens):
            start = now()
            with torch.inference_mode():
                model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                               max_new_tokens=tokens, min_new_tokens=tokens, pad_token_id=0)
            return now() - start

        theirs(2)
        best = {}
        for _ in range(rounds):
            for who, run in ("ours", ours), ("theirs", lambda folder, n: theirs(n)):
                for tokens in 1, 33:
                    key = who, tokens
                    best[key] = min(best.get(key, 1e9), run(folder, tokens))
        mine, other = (32 / (best[who, 33] - best[who, 1]) for who in ("ours", "theirs"))
        print(f"{os.path.basename(folder):16} {mine:8.2f} {other:8.2f} {mine / other:6.2f}",
              flush=True)


products() if kind == "products" else texts()
