// Rules about what is made of data, and about what is shown of a run.
// SPDX-License-Identifier: Apache-2.0
#include "config/rules.hpp"

namespace trireme::config {

void DataRules::sample_rules() {
  const MetricsSettings& metrics = config_.metrics;
  const bool off = metrics.sample_every == 0;
  for (const io::DeckKey& setting :
       {KeyRef(key::metrics.sample_prompts), KeyRef(key::metrics.sample_tokens),
        KeyRef(key::metrics.sample_temperature)})
    meaningless(setting, key::metrics.sample_every, off,
                ": remove it, or write metrics.sample_every = 100");
  if (off) return;
  rule({key::metrics.sample_every, key::metrics.sample_prompts},
       !metrics.sample_prompts.empty(), key::metrics.sample_every,
       " needs beginnings of texts: write metrics.sample_prompts = [\"Once\"]");
  rule({key::metrics.sample_every, key::data.source, key::data.tokenizer},
       config_.data.kind == io::SourceKind::bytes || !config_.data.tokenizer.empty(),
       key::metrics.sample_every, " writes text, but ", key::data.source,
       " has token ids only: write data.tokenizer = \"tokenizer.json\", or "
       "metrics.sample_every = 0");
}

}  // namespace trireme::config
