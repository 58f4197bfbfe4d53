#!/bin/bash
# Makes the cubins that the test of roofline reads, with nvcc 13.0.
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")"
for architecture in sm_80 sm_90a sm_100a; do
  nvcc -cubin -arch="$architecture" -std=c++20 -O3 sample.cu -o "sample.$architecture.cubin"
done
