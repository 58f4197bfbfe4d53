# Writes the tables of Unicode's properties in this folder, as src/text reads them.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: make_tables.py UnicodeData.txt [FOLDER]
#
# Needs unicodedataplus 16.0.0 and regex 2025.7.34, whose data are those of Unicode 16.
# UnicodeData.txt of Unicode 16 or 17 gives lower case. The categories are those that the
# `tokenizers` library's regular expressions know; its normal forms know no character that
# is younger than Unicode 9.0, so that younger ones have no decomposition here.
import hashlib
import os
import sys

import regex
import unicodedataplus as ud

CATEGORIES = ("Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps "
              "Sc Sk Sm So Zl Zp Zs").split()
SPACES = set([*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028,
              0x2029, 0x202F, 0x205F, 0x3000])
CLUSTERS = ("Other CR LF Control Extend ZWJ Regional_Indicator Prepend SpacingMark L V T "
            "LV LVT").split()
PICTOGRAPH, CONSONANT, LINKER, CONJUNCT_EXTEND = 16, 32, 64, 96
ALL = range(0x110000)


def character(code):
    return "\ud7ff" if 0xD800 <= code < 0xE000 else chr(code)


def is_old(code):
    age = ud.age(chr(code))
    return age not in (None, "", "Unassigned", "NA") and float(age) <= 9.0


def flags(code):
    if 0xD800 <= code < 0xE000:
        return CATEGORIES.index("Cs")
    c = chr(code)
    category = ud.category(c)
    value = CATEGORIES.index(category)
    value |= 32 if code in SPACES else 0
    word = category[0] == "M" or category in ("Nd", "Pc")
    value |= 64 if word or regex.match(r"\p{Alphabetic}", c) else 0
    return value | (128 if category[0] == "M" and is_old(code) else 0)


def cluster(code):
    if 0xD800 <= code < 0xE000:
        return CLUSTERS.index("Control")
    c = chr(code)
    value = CLUSTERS.index(ud.grapheme_cluster_break(c))
    value |= PICTOGRAPH if ud.is_extended_pictographic(c) else 0
    conjunct = ud.indic_conjunct_break(c)
    return value | {"Consonant": CONSONANT, "Linker": LINKER,
                    "Extend": CONJUNCT_EXTEND}.get(conjunct, 0)


def other_letter(code):
    """Alphabetic (1), Lowercase (2), Uppercase (4), where the category does not say it."""
    if 0xD800 <= code < 0xE000:
        return 0
    c = chr(code)
    category = ud.category(c)
    value = 0
    for flag, name, said in ((1, "Alphabetic", category[0] == "L" or category == "Nl"),
                             (2, "Lowercase", category == "Ll"),
                             (4, "Uppercase", category == "Lu")):
        has = regex.match(rf"\p{{{name}}}", c) is not None
        assert has or not said, (hex(code), name)
        value |= flag if has and not said else 0
    return value


def script(code):
    return "" if 0xD800 <= code < 0xE000 else ud.script(chr(code))


# The pre-tokenizer UnicodeScripts has the scripts of Unicode 9.0, and takes Japanese kana
# for Han. "" is what goes with any script: blanks and what is younger.
OLDER_SCRIPTS = {0x20: "", 0x589: "Common", 0x61C: "Common", 0x953: "Devanagari", 0x954: "Devanagari",
                 0x30FC: "Han"}


def older_script(code):
    if 0xD800 <= code < 0xE000 or not is_old(code):
        return ""
    name = OLDER_SCRIPTS.get(code, script(code))
    return {"Hiragana": "Han", "Katakana": "Han", "Unknown": ""}.get(name, name)


def runs(values):
    """Length and value of each run, in hexadecimal: "1f.20 ..."."""
    out, begin = [], 0
    for code in ALL:
        if code + 1 == len(ALL) or values[code + 1] != values[begin]:
            out.append(f"{code + 1 - begin:x}.{values[begin]:x}")
            begin = code + 1
    return out


def mapped_runs(pairs):
    """Code points that map to one each: first, count, step and image of each run."""
    out, i = [], 0
    pairs = sorted(pairs)
    while i < len(pairs):
        count, step = 1, 1
        if i + 1 < len(pairs):
            step = pairs[i + 1][0] - pairs[i][0]
            while step <= 2 and i + count < len(pairs) and pairs[i + count] == (
                    pairs[i][0] + count * step, pairs[i][1] + count * step):
                count += 1
        step = step if count > 1 else 1
        first, image = pairs[i]
        out.append(f"{first:x}.{image:x}" + (f".{count:x}.{step:x}" if count > 1 else ""))
        i += count
    return out


def decompositions(compatible):
    """Single images as runs, then longer ones: "a8.20.308"; a "!" forbids to compose."""
    singles, longer = [], []
    for code in ALL:
        text = "" if 0xD800 <= code < 0xE000 else ud.decomposition(chr(code))
        if not text or text.startswith("<") != compatible or not is_old(code):
            continue
        image = [int(word, 16) for word in text.split() if not word.startswith("<")]
        if len(image) == 1:
            singles.append((code, image[0]))
        else:
            excluded = not compatible and ud.normalize("NFC", chr(code)) != chr(code)
            longer.append(f"{code:x}." + ".".join(f"{c:x}" for c in image) + "!" * excluded)
    return mapped_runs(singles), longer


def combining_classes():
    values = [0] * len(ALL)
    for code in ALL:
        if not 0xD800 <= code < 0xE000 and is_old(code):
            values[code] = ud.combining(chr(code))
    return runs(values)


def lower_case(path):
    pairs = []
    with open(path, encoding="ascii") as lines:
        for line in lines:
            fields = line.split(";")
            if fields[13] and fields[0] != "0130":  # whose lower case is two characters
                pairs.append((int(fields[0], 16), int(fields[13], 16)))
    return mapped_runs(pairs)


def lines_of(words):
    line = ""
    for word in words:
        if len(line) + len(word) + 1 > 83:
            yield line
            line = ""
        line += word + " "
    yield line.rstrip()


def write(folder, name, sentence, tables):
    """One C++ file of strings, each of which is split to keep the lines short."""
    with open(os.path.join(folder, name), "w", encoding="ascii") as out:
        out.write(f"// {sentence}\n// SPDX-License-Identifier: Apache-2.0\n")
        out.write("// Written by make_tables.py; how it reads is said in tables.hpp.\n")
        out.write('#include "text/tables/tables.hpp"\n\nnamespace trireme::text::tables {\n')
        for variable, words in tables:
            text = list(lines_of(words))
            out.write(f"\nconst char* const {variable} =\n")
            out.write("\n".join(f'    "{line}"' for line in text) + ";\n")
        out.write("\n}  // namespace trireme::text::tables\n")


def check_hashes(values):
    """What the reference's engine takes for these classes, measured of every character."""
    known = {"L": "78ae558106ca", "N": "2bd3786d4b82", "P": "4689f4eafc6a", "S": "bc6769002fee",
             "M": "e78963d9a6f9"}
    for name, digest in known.items():
        codes = [c for c in ALL if CATEGORIES[values[c] & 31][0] == name]
        packed = b"".join(c.to_bytes(4, "little") for c in codes)
        assert hashlib.sha256(packed).hexdigest().startswith(digest), name


def main():
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.dirname(os.path.abspath(__file__))
    assert ud.unidata_version == "16.0.0"
    properties = [flags(c) for c in ALL]
    check_hashes(properties)
    write(folder, "categories.cpp", "Category, white space and word of every code point, and lower case.",
          [("category_runs", runs(properties)),
           ("lower_case", lower_case(sys.argv[1]))])
    write(folder, "clusters.cpp", "What ends and joins grapheme clusters.",
          [("cluster_runs", runs([cluster(c) for c in ALL]))])
    write(folder, "letters.cpp", "Letters and their case, where the category does not say it.",
          [("other_letter_runs", runs([other_letter(c) for c in ALL]))])
    scripts = [script(c) for c in ALL]
    names = sorted(set(scripts))  # the first is none: surrogates
    write(folder, "scripts.cpp", "The script of every code point.",
          [("script_names", names[1:]), ("script_runs", runs([names.index(s) for s in scripts])),
           ("older_script_runs", runs([names.index(older_script(c)) for c in ALL]))])
    canonical, canonical_longer = decompositions(False)
    compatible, compatible_longer = decompositions(True)
    write(folder, "canonical.cpp", "Canonical decompositions and combining classes.",
          [("combining_runs", combining_classes()), ("canonical_singles", canonical),
           ("canonical_pairs", canonical_longer)])
    write(folder, "compatible.cpp", "Compatibility decompositions.",
          [("compatible_singles", compatible), ("compatible_longer", compatible_longer)])


main()
