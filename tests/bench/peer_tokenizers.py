# The `tokenizers` library and `trireme tokenize` on the same text, one thread each.
# SPDX-License-Identifier: Apache-2.0
"""Times both on files of text, a document each.

    python3 peer_tokenizers.py TRIREME TOKENIZER.json END_TOKEN FILES...

Prints for one thread the processor time of the library's `encode` and of our program, with
and without what it takes to start and to read the tokenizer (which a run on a text of one
word takes too, and the library as well); the ratios of the rates; and the wall time of our
program on one and on two threads, again without the start. Reading JSON and writing HDF5
are in our times. Wall times mean something on a machine that does nothing else; a text of
less than 20 MB is repeated until it has as much, for both.
"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402  (reads the variables)

LEAST_BYTES = 20e6


def write(path, texts):
    with open(path, "w", encoding="ascii") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)


def run(program, corpus, tokenizer, end, threads):
    """Processor seconds, wall seconds, tokens."""
    out = corpus + ".h5"
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    said = subprocess.run(
        [program, "tokenize", corpus, "--tokenizer", tokenizer, "-o", out, "--threads",
         str(threads), "--end-token", end], check=True, capture_output=True, text=True).stdout
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    os.remove(out)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, wall, int(re.search(r": (\d+) tokens ", said).group(1))


def best(runs):
    """The least processor time, the least wall time, the tokens."""
    return min(r[0] for r in runs), min(r[1] for r in runs), runs[0][2]


def main():
    program, path, end, *files = sys.argv[1:]
    texts = []
    for name in files:
        with open(name, encoding="utf-8") as file:
            texts.append(file.read())
    size = sum(len(text.encode()) for text in texts)
    times = max(1, round(LEAST_BYTES / size))
    texts, size = texts * times, size * times / 1e6
    started = time.process_time()
    tokenizer = Tokenizer.from_file(path)
    loading = time.process_time() - started
    started = time.process_time()
    count = sum(len(tokenizer.encode(text, add_special_tokens=False).ids) + 1 for text in texts)
    encoding = time.process_time() - started
    with tempfile.TemporaryDirectory() as folder:
        corpus, word = os.path.join(folder, "corpus.jsonl"), os.path.join(folder, "word.jsonl")
        write(corpus, texts)
        write(word, ["word"])
        empty = best([run(program, word, path, end, 1) for _ in range(3)])
        one = best([run(program, corpus, path, end, 1) for _ in range(3)])
        two = best([run(program, corpus, path, end, 2) for _ in range(3)])
    net = one[0] - empty[0]
    print(f"{size:.1f} MB ({times} times {size / times:.1f}); processor time on one thread, "
          f"tokens {'equal' if one[2] == count else 'DIFFER'}:")
    print(f"  text      library {size / encoding:.2f} MB/s, trireme {size / net:.2f} MB/s, "
          f"ratio {encoding / net:.1f}")
    print(f"  with the start (library {loading:.2f} s, trireme {empty[0]:.2f} s): "
          f"ratio {(encoding + loading) / one[0]:.1f}")
    print(f"  wall time without the start ({empty[1]:.2f} s): one thread {one[1] - empty[1]:.2f} s, "
          f"two {two[1] - empty[1]:.2f} s, {(one[1] - empty[1]) / (two[1] - empty[1]):.2f} times")


main()
