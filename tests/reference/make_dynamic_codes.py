# Makes dynamic_codes.txt, for block_codes_test.cpp, from the formulas in NumPy.
# SPDX-License-Identifier: Apache-2.0
"""Writes dynamic_codes.txt: digests of codes of the dynamic type of 8 bits.

Each line: signed or unsigned, elements, seed, then digests (FNV-1a, 64 bits) of the bytes
of codes, of absmax in float32 and of the numbers that come back. Blocks have 256 elements.
Numbers are those of make_block_codes.py, their magnitudes for the unsigned type.

The rule is that of bitsandbytes 0.50 where it has no kernel of its own (`quantize_blockwise`
of its default back end): whole blocks times 1 / absmax, the rest divided, and as many codes
down as bounds, the middles of two numbers, lie below. Its library for hosts departs from
that by a code for some numbers next to a bound, and is not followed.
"""

import numpy as np

f32 = np.float32


def dynamic_map(signed):
    """The 256 numbers, from linspace in float32 as its documentation says."""
    out = []
    for e in range(7):
        means = 2 ** (e if signed else e + 1)
        step = f32((f32(1.0) - f32(0.1)) / f32(means))
        i = np.arange(means + 1)
        from_below = float(f32(0.1)) + float(step) * i
        from_above = 1.0 - float(step) * (means - i)
        bounds = np.where(i < (means + 1) // 2, from_below, from_above).astype(f32)
        values = (f32(10.0 ** (e - 6)) * ((bounds[:-1] + bounds[1:]) / f32(2))).astype(f32)
        out += list(values)
        if signed:
            out += list(-values)
    return np.sort(np.array(out + [0.0, 1.0], dtype=f32))


def numbers(count, seed):
    """Cubes of uniform numbers between -1 and 1."""
    state, out = seed, np.empty(count, dtype=f32)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = f32((state >> 8) - 2**23) / f32(2**23)
    return out * out * out


def encode(x, numbers_of_codes):
    bounds = (numbers_of_codes[:-1] + numbers_of_codes[1:]) / f32(2)
    codes, absmax = np.empty(x.size, dtype=np.uint8), []
    for begin in range(0, x.size, 256):
        block = x[begin : begin + 256]
        most = max(f32(np.abs(block).max()), f32(1e-38))
        absmax.append(most)
        y = block * (f32(1) / most) if block.size == 256 else block / most
        codes[begin : begin + 256] = np.searchsorted(bounds, np.clip(y, -1, 1), "left")
    return codes, np.array(absmax, dtype=f32)


def digest(array):
    value = 0xCBF29CE484222325
    for byte in array.tobytes():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def lines():
    for kind in ("signed", "unsigned"):
        of_codes = dynamic_map(kind == "signed")
        yield f"{kind} map 0 {digest(of_codes)}"
        for count in (256, 37, 4096, 5000, 70001):
            x = numbers(count, count + 1)
            codes, absmax = encode(x if kind == "signed" else np.abs(x), of_codes)
            back = of_codes[codes] * np.repeat(absmax, 256)[:count]
            digests = " ".join(digest(a) for a in (codes, absmax, back))
            yield f"{kind} {count} {count + 1} {digests}"


if __name__ == "__main__":
    with open(__file__.replace("make_dynamic_codes.py", "dynamic_codes.txt"), "w") as out:
        out.write("\n".join(lines()) + "\n")
