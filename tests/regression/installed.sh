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
  completion-zsh:zsh/site-functions/_trireme \
  completion-fish:fish/vendor_completions.d/trireme.fish man:man/man1/trireme.1; do
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
complete_words trireme train x.toml para >"$work/out"
check "sections are completed" grep -qx parallel. "$work/out"
complete_words trireme train x.toml parallel.sharding_strategy = F >"$work/out"
check "words of a key are completed" grep -qx FULL_SHARD "$work/out"
complete_words trireme train x.toml parallel.sharding_strategy=F >"$work/out"
check "also where bash does not part them" grep -qx parallel.sharding_strategy=FULL_SHARD "$work/out"
touch "$work/a-deck.toml" "$work/a-text.txt"
complete_words trireme train a- >"$work/out"
check "decks are completed, other files are not" test "$(cat "$work/out")" = a-deck.toml
if command -v zsh >/dev/null; then
  check "zsh reads its completion" zsh -n "$here/share/zsh/site-functions/_trireme"
  zsh_words() {  # PREFIX WORDS...: what the function offers
    zsh -fc 'compadd() { local a; for a; do case $a in -a) in_array=1 ;; -*|"") ;; *)
      if [[ -n $in_array ]]; then print -l -- ${(P)a}; else print -- $a; fi ;; esac; done; in_array= }
      _files() { print FILES }; compset() { PREFIX=${PREFIX#*=} }
      file=$1 PREFIX=$2; shift 2; words=("$@"); CURRENT=$#words
      run() { source $file }; run' zsh "$here/share/zsh/site-functions/_trireme" "$@"
  }
  zsh_words FULL trireme train x.toml FULL >"$work/out"
  check "zsh offers sections" grep -qx parallel. "$work/out"
  zsh_words parallel.sharding_strategy=F trireme train x.toml parallel.sharding_strategy=F >"$work/out"
  check "zsh offers words" grep -qx FULL_SHARD "$work/out"
fi
if command -v fish >/dev/null; then
  fish --no-config -c "source '$here/share/fish/vendor_completions.d/trireme.fish'
    complete -C 'trireme train x.toml parallel.sharding_strategy=F'" >"$work/out" 2>&1
  check "fish offers words" grep -q parallel.sharding_strategy=FULL_SHARD "$work/out"
fi

# Documents, and what is installed beside them.
check "no link of a document is dead" bash "$SOURCE/tests/style/document_links.sh" \
  "$here/share/doc/trireme"
check "the page of the first hour" test -s "$here/share/doc/trireme/docs/first-hour-on-a-cluster.md"
if command -v luac5.4 >/dev/null; then
  check "the modulefile is Lua" luac5.4 -p "$here/share/trireme/modulefiles/trireme.lua"
fi
if command -v man >/dev/null; then
  man --warnings -l "$here/share/man/man1/trireme.1" >"$work/out" 2>"$work/warnings"
  check "the man page is read without a warning" test ! -s "$work/warnings"
fi

deck=$here/share/trireme/inputs/quickstart.toml
small="model.layers=1 model.sequence=16 batch.global=4 batch.micro=1 optimizer.schedule.warmup=0"
run 2 train "$deck" data.paths="[\"$deck\"]" $small run.steps=2 checkpoint.every=2
check "two steps with an installed deck" test "$status" = 0
check "its deck names the schema" grep -qx "#:schema $here/share/trireme/deck.schema.json" \
  "$work/runs/quickstart/deck.toml"
check "and the model's real shape" bash -c \
  "! grep -E '^((kv_heads|head_width|feed_forward|vocabulary) = 0|(activation|recipe) = .auto) ' \
  '$work/runs/quickstart/deck.toml'"
run 2 train "$work/runs/quickstart/deck.toml" run.steps=3 --check
check "and is a deck itself" grep -q 'the deck is good' "$work/out"
run 1 init small --yes --ranks 1 --sequence 64 --batch 1 -o "$work/first.toml"
check "so does a deck of init" grep -qx "#:schema $here/share/trireme/deck.schema.json" "$work/first.toml"
python=${TRIREME_PYTHON:-python3}
if "$python" -c 'import h5py, pandas' 2>/dev/null; then
  check "the reader for Python" "$python" "$SOURCE/tests/support/read_run.py" \
    "$here/share/trireme/python" "$work/runs/quickstart"
else
  echo "no h5py or pandas: the reader for Python was not run"
fi
check "and their checkpoint" test -e "$work/runs/quickstart/checkpoints/latest"

# What `spack test run` does with this tree.
if command -v python3 >/dev/null; then
  check "the smoke tests of the Spack package" python3 "$SOURCE/tests/support/spack_smoke.py" \
    "$SOURCE/spack/packages/trireme/package.py" "$here" "$MPIRUN"
fi
finish
