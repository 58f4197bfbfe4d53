#!/usr/bin/env bash
# The installed tree: complete, and whole after it was moved.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
build=$(dirname "$TRIREME")
here=$work/there

cmake --install "$build" --prefix "$work/prefix" >"$work/out" 2>&1
check "cmake --install" test $? = 0
mv "$work/prefix" "$here"
cd "$work" || exit 1
TRIREME=$here/bin/trireme
for file in share/trireme/inputs/quickstart.toml share/trireme/jobs/train.sbatch \
  share/trireme/deck.schema.json share/man/man1/trireme.1 \
  share/bash-completion/completions/trireme; do
  check "$file" test -s "$here/$file"
done
check "no library is missing" bash -c "! ldd '$TRIREME' | grep 'not found'"
check "none comes from the build" bash -c "! ldd '$TRIREME' | grep -F '$build'"
run 1 --version
check "--version" grep -q '^trireme ' "$work/out"

for page in schema:trireme/deck.schema.json completion:bash-completion/completions/trireme \
  man:man/man1/trireme.1; do
  run 1 help "${page%%:*}"
  check "help ${page%%:*} is what is installed" cmp "$work/out" "$here/share/${page#*:}"
done
complete_words() {  # WORDS...: completions of the last one
  bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _trireme; printf "%s\n" "${COMPREPLY[@]}"' \
    "$here/share/bash-completion/completions/trireme" "$@"
}
complete_words trireme tr >"$work/out"
check "commands are completed" grep -qx train "$work/out"
complete_words trireme train --ch >"$work/out"
check "options are completed" grep -qx -- --check "$work/out"
complete_words trireme train x.toml optimizer.lear >"$work/out"
check "keys are completed" grep -qx optimizer.learning_rate= "$work/out"
if command -v man >/dev/null; then
  man --warnings -l "$here/share/man/man1/trireme.1" >"$work/out" 2>"$work/warnings"
  check "the man page is read without a warning" test ! -s "$work/warnings"
fi

deck=$here/share/trireme/inputs/quickstart.toml
small="model.layers=1 model.sequence=16 batch.global=4 batch.micro=1 optimizer.schedule.warmup=0"
run 2 train "$deck" data.paths="[\"$deck\"]" $small run.steps=2 checkpoint.every=2
check "two steps with an installed deck" test "$status" = 0
check "and their checkpoint" test -e "$work/runs/quickstart/checkpoints/latest"

# What `spack test run` does with this tree.
if command -v python3 >/dev/null; then
  check "the smoke tests of the Spack package" python3 "$SOURCE/tests/support/spack_smoke.py" \
    "$SOURCE/spack/packages/trireme/package.py" "$here" "$MPIRUN"
fi
finish
