# Writes tests/reference/tokenizers: small tokenizers, odd texts, and what they become.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: make_tokenizers.py TEXT       (TEXT: some English text to train on)
#
# Needs the `tokenizers` library 0.23.3, whose ids and decodings are the reference. Each
# NAME.json is a tokenizer; NAME.txt has for each line of texts.txt, a JSON string, two
# lines: the ids with special tokens, and the text that they decode to, as JSON.
import base64
import json
import os
import random
import struct
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers")
CASELESS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD = r"[^\r\n\p{L}\p{N}]?"
LLAMA3 = CASELESS + "|" + LEAD + r"\p{L}+|\p{N}{1,3}" + SIGNS + SPACES
QWEN = LLAMA3.replace("{1,3}", "")
O200K = (LEAD + UPPER + "*" + LOWER + "+" + CASELESS + "?|" + LEAD + UPPER + "+" + LOWER + "*" +
         CASELESS + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES)
TEKKEN = O200K.replace(CASELESS + "?", "").replace("{1,3}", "")
HAN = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?"""
            r"[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + SPACES)
# BLOOM's: a class in a class. Kimi's: intersections and scripts. Intervals that repeat.
BLOOM = r" ?[^(\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
KIMI = (r"[\p{Han}]+|" + LEAD + UPPER.replace("]", r"&&[^\p{Han}]]") + "*" + LOWER.replace("]", r"&&[^\p{Han}]]") + "+" +
        CASELESS + r"?|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]{1,2}?[\r\n]{,2}" + SPACES)
# What Oniguruma reads in another way than PCRE2, or by younger tables.
MARKS = (r"\R|[\v\f]", r"\b\h+\b|\H\B\H|[^\H\d]+", r"(.)\1+|(\p{L})(\p{N}?)\2\3|\X")
OTHER = r"\p{Lu}?\p{Ll}+|\d|\w|(?=[A-Z])|[^\S\n]+|\p{^L}"

TEXTS = [
    "", " ", "  ", "\n", "Hello world", "Hello  world", " Hello", "\n\n", "a\r\nb", "a \r\n b\r\n\r\n",
    "don't DON'T it\u2019s", "I'LL don't 12345 a\r\n\n  b!!\n x", "CamelCase'S it's", "\t\tx = 10;",
    "3.14159 12345", "na\u00efve caf\u00e9", "e\u0301 A\u030a", "\u00a0a\u3000b", "x\u2028y\u2029z\u0085",
    "\u4f60\u597d\uff0c\u4e16\u754c", "\u3053\u3093\u306b\u3061\u306f \u30c6\u30b9\u30c8",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea\U0001f1eb", "a\u0000b", "\u180ex",
    "\u200bx", "\ufffd", "\U0010ffff", "x<|end|>y", "x <|end|> y", "<|end|><|end|>", "<|en", "<s>", "</s>a",
    "\u0120 \u010a", "\u017f'\u017f 's", "\u00bd\u00b2\u2167\u0663 1\u00bd23", "   a", "a   ", " \n \r\n x",
    "\u0130stanbul \u00df \u03a3\u03a3", "for (int i=0;i<n;++i) {\n\treturn a[i]/b; // why?\n}\n\n\n",
    "https://example.org/a_b?c=d&e=%20#f", "__init__ self._x--", "\u2581a \u2581\u2581b", "<0x41><0xE2>",
    "\u0915\u094d\u0937\u093f", "\u0644\u0645\u0627 \u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\u05e9\u05dc\u05d5\u05dd", "\uac00\u1100\u1161\u11a8", "\ufb01 \u2460 \u210c \uff21\uff22",
    "\u1e9b\u0323", "q\u0307\u0323", "D\u0307\u0323", "\u0344", "\u2126\u212b", "\u1fbf0 \u32ff", "mask MASK xmaskx mask.", "wordmask word",
    "a\u200db a\u200cb", "\u01c5ab\u01c8C", "ABCdef DEFghi aBC", "A\u0301B\u0301c\u0301", "\u02b0\u02b1x", "!!!\r\n\r\n//", " !a !!b", "_a", "#define X",
    "100,000.00 \u0661\u0662\u0663", "word\u00adbreak", "\ufeffbom", "\u2009thin", "\u2500\u2500 \u2502", "\U00013000 \U0001d400", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
]


def texts(corpus):
    random.seed(17)
    pieces = [t for t in TEXTS if t] + list("aZ 09'.\n\r\t_") + corpus.split(" ")[:200]
    made = list(TEXTS)
    for _ in range(130):
        made.append("".join(random.choice(pieces) + random.choice(["", "", " "]) for _ in range(random.randint(1, 5))))
    for _ in range(60):
        made.append("".join(chr(random.choice([random.randrange(0x20, 0x250), random.randrange(0x300, 0x3000),
                                                random.randrange(0x3000, 0xD800), random.randrange(0xE000, 0x1F900)]))
                            for _ in range(random.randint(1, 10))))
    return made


def byte_level(corpus, pre, normalizer=None, size=900, **options):
    """Trained on lines without other cuts: only the splitter keeps its merges apart."""
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splits(r"[^\n]{1,12}|\n+")
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([corpus[:20000]] + texts(corpus) * 4, trainer)
    tokenizer.pre_tokenizer = pre
    return tokenizer


def splits(*patterns):
    parts = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    return pre_tokenizers.Sequence(parts + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def llama2(corpus):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    first = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=first, show_progress=False)
    tokenizer.train_from_iterator([w for w in corpus.split(" ")], trainer)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_tokens([AddedToken("mask", single_word=True, lstrip=True, normalized=True)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def pieces_of(corpus, mark, extra=()):
    counts = {}
    for word in corpus.split():
        for a in range(0, min(len(word), 6)):
            for b in range(a + 1, min(len(word), a + 7) + 1):
                piece = (mark if a == 0 else "") + word[a:b]
                counts[piece] = counts.get(piece, 0) + 1
    best = sorted(counts, key=lambda p: (-counts[p] * len(p), p))[:700]
    singles = sorted(set(corpus) | set(mark))
    return [[p, -0.5] for p in extra] + [[p, -4 - i / 100] for i, p in enumerate(best)] + [
        [c, -13.5] for c in singles if c not in best and not c.isspace()]


def unigram(corpus, fallback):
    extra = [f"<0x{b:02X}>" for b in range(256)] if fallback else []
    vocab = [["<unk>", 0.0], ["</s>", 0.0]] + [[p, -20.0] for p in extra] + pieces_of(corpus, "\u2581")
    seen, unique = set(), []
    for piece, score in vocab:
        if piece not in seen:
            seen.add(piece)
            unique.append((piece, score))
    tokenizer = Tokenizer(models.Unigram(unique, 0, fallback))
    tokenizer.add_special_tokens(["</s>"])
    return tokenizer


def metaspace_unigram(corpus):
    tokenizer = unigram(corpus, True)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    return tokenizer


def trie_of(pairs):
    """A double-array trie as SentencePiece writes it: key -> offset of its image."""
    images, offsets = b"", {}
    for key, image in pairs:
        offsets[key.encode()] = len(images)
        images += image.encode() + b"\0"
    units, used, free = {0: 0}, {0}, [1]

    def place(node, keys, depth):
        labels = sorted({k[depth] if len(k) > depth else 0 for k in keys})
        base = free[0]
        while any((base ^ label) in used for label in labels) or (base ^ node) >= 1 << 21 or base in used:
            base += 1
        units[node] = units.get(node, 0) | (base ^ node) << 10 | (0x100 if 0 in labels else 0)
        used.update(base ^ label for label in labels)
        used.add(base)
        for label in labels:
            if label == 0:
                units[base] = 0x80000000 | offsets[next(k for k in keys if len(k) == depth)]
            else:
                units[base ^ label] = units.get(base ^ label, 0) | label
        for label in labels:
            if label:
                place(base ^ label, [k for k in keys if len(k) > depth and k[depth] == label], depth + 1)

    place(0, sorted(offsets), 0)
    size = max(units) + 1
    size += -size % 256
    packed = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(size))
    return base64.b64encode(struct.pack("<I", len(packed)) + packed + images).decode()


def precompiled(corpus):
    pairs = [("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("\r", " "), ("\ufb01", "fi"), ("\u2460", "1"),
             ("\uff21", "A"), ("e\u0301", "\u00e9"), ("A\u030a", "\u00c5"), ("\u212b", "\u00c5"), ("\u200b", ""), ("D\u0307", "\u1e0a"),
             ("\u1100\u1161", "\uac00")]
    tokenizer = unigram(corpus, False)
    data = json.loads(tokenizer.to_str())
    data["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": trie_of(pairs)},
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}]}
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def bert(corpus):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False)
    tokenizer.train_from_iterator(corpus.split("\n\n"), trainer)
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return tokenizer


def words(corpus):
    vocab = {w: i for i, w in enumerate(["<unk>"] + sorted(set(corpus.lower().split()))[:300])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Nmt()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Digits(True)])
    return tokenizer


def ctc():
    """Of a model that hears letters, as wav2vec2's."""
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|"] + list("etaonihsrdlumwcfgypbvk'xjqz.")
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(letters)}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", "|")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)"), "isolated")
    tokenizer.add_special_tokens(["<pad>", "<s>", "</s>", "<unk>"])
    tokenizer.decoder = decoders.CTC()
    return tokenizer


def folded(gpt2):
    """Added tokens that are found in normalized text, and decode to it."""
    tokenizer = Tokenizer.from_str(gpt2.to_str())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.add_tokens([
        AddedToken("MASK", single_word=True, lstrip=True, normalized=True), AddedToken("\ufb01", normalized=True),
        AddedToken("World", normalized=True, rstrip=True), AddedToken("DEF", normalized=False), AddedToken("  ", normalized=True),
        AddedToken("ABC", normalized=True, special=True), AddedToken("\u0130", normalized=True)])
    return tokenizer


def make(corpus):
    ignore = byte_level(corpus, splits(LLAMA3), ignore_merges=True)
    ignore.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        "<|end|> $A", special_tokens=[("<|end|>", 0)])])
    gpt2 = byte_level(corpus, pre_tokenizers.ByteLevel(add_prefix_space=True))
    gpt2.add_tokens([AddedToken("mask", single_word=True, rstrip=True, normalized=False), AddedToken("Hello  ", normalized=True)])
    old = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    old.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    old.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    old.decoder = decoders.BPEDecoder()
    old.train_from_iterator(corpus.split("\n\n"), trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False))
    return {
        "gpt2": gpt2, "llama3": ignore, "qwen": byte_level(corpus, splits(QWEN), normalizers.NFC()),
        "o200k": byte_level(corpus, splits(O200K)), "tekken": byte_level(corpus, splits(TEKKEN)),
        "deepseek": byte_level(corpus, splits(r"\p{N}{1,3}", HAN, DEEPSEEK)), "other": byte_level(corpus, splits(OTHER)),
        "classes": byte_level(corpus, splits(BLOOM, KIMI), size=500),
        "marks": byte_level(corpus, splits(*MARKS), size=500), "ctc": ctc(),
        "scripts": byte_level(corpus, pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), pre_tokenizers.ByteLevel()]), size=500),
        "llama2": llama2(corpus), "metaspace": metaspace_unigram(corpus), "precompiled": precompiled(corpus),
        "bert": bert(corpus), "words": words(corpus), "old": old, "folded": folded(gpt2)}


def main():
    corpus = open(sys.argv[1], encoding="utf-8").read()[:60000]
    odd = texts(corpus)
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "texts.txt"), "w") as out:
        out.writelines(json.dumps(text) + "\n" for text in odd)
    for name, tokenizer in make(corpus).items():
        data = json.loads(tokenizer.to_str())
        with open(os.path.join(FOLDER, name + ".json"), "w") as out:
            json.dump(data, out, separators=(",", ":"), ensure_ascii=False)
        tokenizer = Tokenizer.from_file(os.path.join(FOLDER, name + ".json"))
        with open(os.path.join(FOLDER, name + ".txt"), "w") as out:
            for text in odd:
                ids = tokenizer.encode(text).ids
                out.write(json.dumps(ids, separators=(",", ":")) + "\n")
                out.write(json.dumps(tokenizer.decode(ids, skip_special_tokens=True)) + "\n")


main()
