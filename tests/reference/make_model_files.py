# Writes small SentencePiece models and .tiktoken files, and what texts become with them.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: make_model_files.py TEXT      (TEXT: some English text to train on)
#
# Needs sentencepiece 0.2.3, tiktoken 0.14 and tokenizers 0.23.3. Each model's NAME.txt has for each
# line of texts.txt, a JSON string, two lines: the ids without special tokens, and the text that
# they decode to, as JSON.
import base64
import io
import json
import os
import random
import sys
import tempfile

import sentencepiece
import tiktoken
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers")
RULES = ["A0\t20", "3000\t20", "9\t20", "A\t20", "FB01\t66 69", "2460\t31", "FF21\t41", "65 301\tE9", "65 301 301\t78",
         "200B\t", "44 307\t1E0A"]
# As in the tiktoken library, from which the program's own words for it differ.
CL100K = (r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"""
          r"""\s*[\r\n]|\s+(?!\S)|\s""")
WORDS = (r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|"""
         r"""\s*[\r\n]+|\s+(?!\S)|\s+""")


def train(lines, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, minloglevel=2,
                                             num_threads=1, **options)
    return model.getvalue()


def sentencepieces(lines):
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # for the model holds the path of its rules
        with open("rules.tsv", "w") as rules:
            rules.write("".join(rule + "\n" for rule in RULES))
        made = {
            "sp_bpe": train(lines, model_type="bpe", vocab_size=700, byte_fallback=True, normalization_rule_name="identity",
                            remove_extra_whitespaces=False, user_defined_symbols=["<mask>", "\u2581\u2581", "wor"]),
            "sp_bpe_plain": train(lines, model_type="bpe", vocab_size=400, normalization_rule_tsv="rules.tsv",
                                  add_dummy_prefix=False),
            "sp_unigram": train(lines, model_type="unigram", vocab_size=400, normalization_rule_tsv="rules.tsv",
                                user_defined_symbols=["<mask>", "wor", "e\u0301"], control_symbols=["<ctl>"]),
            "sp_unigram_bytes": train(lines, model_type="unigram", vocab_size=600, byte_fallback=True,
                                      normalization_rule_name="identity", add_dummy_prefix=True,
                                      remove_extra_whitespaces=False),
        }
        os.chdir(before)
        return made


def write_texts(name, texts, encode, decode):
    with open(os.path.join(FOLDER, name + ".txt"), "w") as out:
        for text in texts:
            ids = encode(text)
            out.write(json.dumps(ids, separators=(",", ":")) + "\n" + json.dumps(decode(ids)) + "\n")


def make_tiktoken(corpus, texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[^\n]{1,12}|\n+"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator([corpus[:20000]] + texts * 4, trainers.BpeTrainer(
        vocab_size=800, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    letters = {}
    for byte in range(256):
        itself = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
        letters[chr(byte) if itself else chr(256 + sum(1 for l in letters.values() if l[1]))] = (byte, not itself)
    ranks = {bytes(letters[c][0] for c in token): rank for token, rank in tokenizer.get_vocab().items()}
    path = os.path.join(FOLDER, "small.tiktoken")
    with open(path, "wb") as out:
        for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
            out.write(base64.b64encode(token) + b" %d\n" % rank)
    special = {"<|end|>": len(ranks) + 3, "<s>": len(ranks)}
    with open(path + ".json", "w") as out:
        json.dump({"pattern": WORDS, "special_tokens": special}, out)
    encoding = tiktoken.Encoding("small", pat_str=CL100K, mergeable_ranks=ranks, special_tokens=special)
    write_texts("small", texts, lambda t: encoding.encode(t, allowed_special="all"), encoding.decode)


# Letters that repeat: cuts of equal sums, between which only the rounding of sums decides. Behind
# thousands of unknown characters the library counts anew.
def write_ties(processors):
    random.seed(23)
    with open(os.path.join(FOLDER, "sp_ties.txt"), "w") as out:
        for name, processor in processors.items():
            for _ in range(60):
                text = "".join(random.choice("lllloand") * random.randint(1, 9) for _ in range(7))
                before = random.choice([0, 4860]) if name == "sp_unigram" else 0
                ids = processor.encode("~" * before + text)
                out.write(json.dumps([name, before, text, ids], separators=(",", ":")) + "\n")


def main():
    corpus = open(sys.argv[1], encoding="utf-8").read()[:60000]
    with open(os.path.join(FOLDER, "texts.txt")) as lines:
        texts = [json.loads(line) for line in lines]
    make_tiktoken(corpus, texts)
    for name, model in sentencepieces(corpus.split("\n")).items():
        with open(os.path.join(FOLDER, name + ".model"), "wb") as out:
            out.write(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        write_texts(name, texts, processor.encode, processor.decode)
    write_ties({name: sentencepiece.SentencePieceProcessor(model_file=os.path.join(FOLDER, name + ".model"))
                for name in ("sp_unigram", "sp_unigram_bytes", "sp_bpe")})


main()
