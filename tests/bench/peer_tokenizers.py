# The `tokenizers` library and `trireme tokenize` on the same text, one thread each.
# SPDX-License-Identifier: Apache-2.0
"""Times both on files of text, a document each.

    python3 peer_tokenizers.py TRIREME TOKENIZER.json END_TOKEN FILES...

Prints the size, both rates and their ratio, and whether both counted the same tokens. The
library's time is that of its process, ours what `trireme tokenize` prints: reading JSON
and writing HDF5 are in it. Behind it stands the rate by the processor time of our process,
from its start to its end, which says more where others use the processors.
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

SECONDS = {"ms": 1e-3, "s": 1.0}


def main():
    program, path, end, *files = sys.argv[1:]
    texts = []
    for name in files:
        with open(name, encoding="utf-8") as file:
            texts.append(file.read())
    size = sum(len(text.encode()) for text in texts) / 1e6
    tokenizer = Tokenizer.from_file(path)
    start = time.process_time()
    count = sum(len(tokenizer.encode(text, add_special_tokens=False).ids) + 1 for text in texts)
    theirs = size / (time.process_time() - start)
    with tempfile.TemporaryDirectory() as folder:
        corpus = os.path.join(folder, "corpus.jsonl")
        with open(corpus, "w", encoding="ascii") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = subprocess.run(
            [program, "tokenize", corpus, "--tokenizer", path, "-o", corpus + ".h5",
             "--threads", "1", "--end-token", end], check=True, capture_output=True, text=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = size / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    own_count, value, unit = re.search(r": (\d+) tokens .*, ([\d.]+) (ms|s)$", said.strip()).groups()
    ours = size / (float(value) * SECONDS[unit])
    print(f"{size:.1f} MB: library {theirs:.2f} MB/s, trireme {ours:.2f} MB/s, ratio {ours / theirs:.1f}, "
          f"by processor time {own:.2f} MB/s, ratio {own / theirs:.1f}, "
          f"tokens {'equal' if int(own_count) == count else 'DIFFER'}")


main()
