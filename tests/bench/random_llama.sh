# Llamas of random numbers: a folder in fp32 (make_llama), and a run (train_llama).
# SPDX-License-Identifier: Apache-2.0

# A layer has 4 D^2 + 3 D F + 2 D numbers, D = 2048 and F = 5632.
make_llama() { # LAYERS HIDDEN FEED_FORWARD VOCABULARY TO
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
    # Without the bit 0x40 of any byte: numbers of both signs, most of them small, below 1.5.
    head -c "$bytes" /dev/urandom | LC_ALL=C tr '\100-\177\300-\377' '\000-\077\200-\277'
  } >"$5/model.safetensors"
  rm "$5/header" "$5/sizes"
}

# train_llama: a run of one step in FOLDER/run, whose weights are those of a start: normal, 0.02.
train_llama() { # PROGRAM FOLDER LAYERS HIDDEN HEADS FEED_FORWARD VOCABULARY SEQUENCE
  cat >"$2/deck.toml" <<DECK
run.steps = 1
run.directory = "$2/run"
data.source = "synthetic"
batch.global = 1
[model]
architecture = "llama"
layers = $3
hidden = $4
heads = $5
feed_forward = $6
vocabulary = $7
sequence = $8
[precision]
compute = "fp32"
[optimizer]
name = "sgd"
learning_rate = 1e-6
DECK
  "$1" train "$2/deck.toml" >"$2/log" 2>&1 || { cat "$2/log" >&2; return 1; }
}
