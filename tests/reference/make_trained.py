# Trains small byte-level BPEs with the `tokenizers` library, to compare files with ours.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: make_trained.py
#
# Needs tokenizers 0.23.3 and xxhash. Writes tests/reference/trained/odd.json, of the texts in
# tokenizers/texts.txt, and trained/digests.txt: corpus, size, least frequency and XXH3-128 of the
# file, of corpora that corpus() makes; trained_test.cpp makes them by the same rule.
import json
import os

import xxhash
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
ALPHABETS = ["ab", "abc'", "aeiounrstl0123.", "a\u00e9\u4f60\U0001f600\n\t -", "\"\\\u0000\u007f\u0120x"]
CASES = [(0, 290, 0), (0, 400, 2), (1, 600, 0), (2, 1000, 0), (2, 3000, 3), (3, 700, 0), (4, 500, 0), (2, 260, 0)]


def corpus(kind):
    letters = list(ALPHABETS[kind])
    state = 1 + kind

    def draw(n):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % n

    documents = []
    for _ in range(40):
        text = ""
        for _ in range(60):
            for _ in range(1 + draw(9)):
                text += letters[min(draw(len(letters)), draw(len(letters)))]
            text += " "
        documents.append(text)
    return documents


def trained(documents, size, least):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=size, min_frequency=least, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer.to_str(pretty=True)


def main():
    folder = os.path.join(HERE, "trained")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(HERE, "tokenizers", "texts.txt")) as lines:
        texts = [json.loads(line) for line in lines]
    with open(os.path.join(folder, "odd.json"), "w") as out:
        out.write(trained(texts, 600, 2))
    with open(os.path.join(folder, "digests.txt"), "w") as out:
        for kind, size, least in CASES:
            digest = xxhash.xxh3_128_hexdigest(trained(corpus(kind), size, least).encode())
            out.write(f"{kind} {size} {least} {digest}\n")


main()
