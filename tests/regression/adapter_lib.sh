# Helpers of the tests of adapters: their deck, losses, and decks that are refused.
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/folder_lib.sh"

cat >"$work/deck.toml" <<EOD
run.steps = 6
model.from = "llama"
data.source = "synthetic"
batch.global = 4
batch.micro = 2
precision.compute = "fp32"
optimizer.learning_rate = 0.01
checkpoint.every = 3
adapter.rank = 3
adapter.alpha = 6.0
adapter.dropout = 0.1
adapter.modules_to_save = ["lm_head"]
EOD
deck=$work/deck.toml

# The losses of a run, a line each.
losses() { field "$work/$1/metrics.jsonl" loss; }

# same_losses RUN OTHER WHAT: to the bit; same_end: the last one.
same_losses() {
  losses "$1" >"$work/a"
  losses "$2" >"$work/b"
  check "$3" cmp "$work/a" "$work/b"
  check "$3: there are some" test -s "$work/a"
}
same_end() {
  losses "$1" | tail -1 >"$work/a"
  losses "$2" | tail -1 >"$work/b"
  check "$3" cmp "$work/a" "$work/b"
  check "$3: there is one" test -s "$work/a"
}

# refused STATUS SAYS, and the words of the deck: one message.
refused() {
  local want=$1 says=$2
  shift 2
  run 1 train "$deck" --check "run.directory=$work/bad" "$@"
  check "refused: $says" expect "$want" "$says"
}
