# Writes the turns that Megatron-LM's own helper gives to random blends, as digests.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: make_blends.py HELPERS.cpp      (megatron/core/datasets/helpers.cpp of megatron-core)
#
# Needs pybind11, numpy, xxhash and a C++ compiler. Each line of blends.txt: places, the XXH3-128 of
# the pairs (dataset, sample) as i64, and the weights before they are normalised.
import os
import random
import subprocess
import sys
import sysconfig
import tempfile

import numpy
import pybind11
import xxhash

PLACES = 20000


def build(source, folder):
    name = os.path.join(folder, "helpers_cpp" + sysconfig.get_config_var("EXT_SUFFIX"))
    subprocess.run(["c++", "-O2", "-shared", "-std=c++17", "-fPIC", "-I" + pybind11.get_include(),
                    "-I" + sysconfig.get_path("include"), source, "-o", name], check=True)
    sys.path.insert(0, folder)
    import helpers_cpp
    return helpers_cpp


def main():
    random.seed(23)
    with tempfile.TemporaryDirectory() as folder:
        helpers = build(sys.argv[1], folder)
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "blends.txt"), "w") as out:
            for case in range(20):
                count = [1, 2, 3, 5, 8, 17][case % 6]
                weights = [random.choice([1.0, 0.5, 3.0]) if case % 4 == 0 else random.uniform(0.001, 10) for _ in range(count)]
                array = numpy.array(weights, dtype=numpy.float64)
                array = array / numpy.sum(array)
                datasets, samples = numpy.zeros(PLACES, numpy.int16), numpy.zeros(PLACES, numpy.int64)
                helpers.build_blending_indices(datasets, samples, array, count, PLACES, False)
                pairs = numpy.stack([datasets.astype(numpy.int64), samples], axis=1)
                digest = xxhash.xxh3_128_hexdigest(pairs.tobytes())
                out.write(f"{PLACES} {digest} {count} " + " ".join(repr(w) for w in weights) + "\n")


main()
