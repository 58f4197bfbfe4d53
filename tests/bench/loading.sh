#!/usr/bin/env bash
# How fast ranks load a folder, beside dd on the same file, and what a rank holds at most.
# SPDX-License-Identifier: Apache-2.0
# Usage: loading.sh PROGRAM PEAK_MEMORY FOLDER [RANKS [GIGABYTES [ROUNDS]]]: makes a Llama
# of random numbers in fp32 in FOLDER, which it removes, and lets RANKS of the tensor axis
# evaluate a few tokens. The file leaves the page cache before each reading
# (posix_fadvise); what the machine below caches, it cannot empty.
set -eu
program=$1 peak=$2 folder=$3 ranks=${4:-4} gigabytes=${5:-4} rounds=${6:-3}
launch="mpirun --oversubscribe"
mkdir -p "$folder"
trap 'rm -rf "$folder"' EXIT

# A layer has 4 D^2 + 3 D F + 2 D numbers, D = 2048 and F = 5632.
make_model() { # LAYERS HIDDEN FEED_FORWARD VOCABULARY TO
  mkdir -p "$5"
  cat >"$5/config.json" <<JSON
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rope_theta": 10000.0,
 "num_hidden_layers": $1, "hidden_size": $2, "intermediate_size": $3, "vocab_size": $4,
 "num_attention_heads": 16, "max_position_embeddings": 64, "tie_word_embeddings": true,
 "dtype": "float32"}
JSON
  awk -v header="$5/header" -v L="$1" -v D="$2" -v F="$3" -v V="$4" '
    function tensor(name, rows, columns,  bytes) {
      bytes = 4 * rows * (columns ? columns : 1)
      text = text sprintf(",\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%.0f,%.0f]}",
                          name, columns ? rows "," columns : rows, at, at + bytes)
      at += bytes
    }
    BEGIN {
      tensor("model.embed_tokens.weight", V, D)
      for (i = 0; i < L; ++i) {
        p = "model.layers." i "."
        tensor(p "input_layernorm.weight", D)
        tensor(p "post_attention_layernorm.weight", D)
        for (n = split("q k v o", all, " "); n > 0; --n)
          tensor(p "self_attn." all[n] "_proj.weight", D, D)
        tensor(p "mlp.gate_proj.weight", F, D)
        tensor(p "mlp.up_proj.weight", F, D)
        tensor(p "mlp.down_proj.weight", D, F)
      }
      tensor("model.norm.weight", D)
      text = "{" substr(text, 2) "}"
      while (length(text) % 8) text = text " "
      printf "%s", text >header
      printf "%.0f %d\n", at, length(text)
    }' >"$5/sizes"
  read -r bytes length <"$5/sizes"
  {
    for ((i = 0; i < 8; ++i)); do printf "\\x$(printf '%02x' $((length >> (8 * i) & 255)))"; done
    cat "$5/header"
    # Bytes below 0x40: numbers from 0 to 0.75.
    head -c "$bytes" /dev/urandom |
      LC_ALL=C tr '\100-\377' '\000-\077\000-\077\000-\077'
  } >"$5/model.safetensors"
  rm "$5/header" "$5/sizes"
}
out_of_cache() { dd if="$1" iflag=nocache count=0 status=none; }
now() { date +%s.%N; }

layers=$((gigabytes * 1000 / 206))
make_model "$layers" 2048 5632 8192 "$folder/model"
make_model 1 32 32 512 "$folder/none"
sync
"$program" tokenize --train 300 "$0" -o "$folder/tokenizer.json" >/dev/null
head -c 40 "$0" >"$folder/text"
"$program" tokenize "$folder/text" --tokenizer "$folder/tokenizer.json" -o "$folder/all.h5" >/dev/null
file="$folder/model/model.safetensors"
bytes=$(stat -c %s "$file")
echo "$(basename "$file"): $bytes bytes, $ranks ranks, $(nproc) processors"

# evaluate MODEL: seconds, and the most that a rank held, in MiB.
evaluate() {
  rm -f "$folder/peaks"
  local begin
  begin=$(now)
  $launch -n "$ranks" "$peak" "$folder/peaks" "$program" evaluate "$1" "$folder/all.h5" \
    --sequence 8 >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
  awk -v a="$begin" -v b="$(now)" '{ if ($1 > most) most = $1 }
    END { printf "%.2f %.0f\n", b - a, most / 1024 }' "$folder/peaks"
}

echo "round  dd (s)  load (s)  load / dd rate  largest rank (MiB)  of nothing (MiB)"
for ((round = 1; round <= rounds; ++round)); do
  out_of_cache "$file"
  begin=$(now)
  dd if="$file" of=/dev/null bs=8M status=none
  disk=$(awk -v a="$begin" -v b="$(now)" 'BEGIN { print b - a }')
  read -r base least < <(evaluate "$folder/none")
  out_of_cache "$file"
  read -r whole most < <(evaluate "$folder/model")
  awk -v r="$round" -v d="$disk" -v w="$whole" -v b="$base" -v m="$most" -v l="$least" \
    'BEGIN { printf "%5d  %6.2f  %8.2f  %13.0f%%  %18d  %16d\n",
             r, d, w - b, 100 * d / (w - b), m, l }'
done
