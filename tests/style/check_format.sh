#!/bin/bash
# Fails if clang-format would change a C++ file of the project: check_format.sh ROOT.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$1"

if ! command -v clang-format >/dev/null; then
  echo "skipped: clang-format is not installed"
  exit 77
fi
# Versions disagree on details; the configuration is written for Debian 12's.
version=$(clang-format --version | grep -oE '[0-9]+' | head -n 1)
if [ "$version" != 14 ]; then
  echo "skipped: clang-format is version $version, not 14"
  exit 77
fi
files() {
  find src kernels comm io tests -type f \
    \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0
}
files | xargs -0 -n 16 -P 2 clang-format --dry-run --Werror
echo "$(files | tr -cd '\0' | wc -c) files are formatted"
