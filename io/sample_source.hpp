// Sources of training samples: windows of tokens addressed by number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace trireme::io {

// Where tokens of a sample lie.
struct SamplePart {
  std::string file;
  // The first one's number in the file, which for bytes is its place in it.
  std::int64_t begin = 0;
  std::int64_t tokens = 0;  // end of text included
};

// Sources that are blended: sample j of source d is sample begins[d] + j of the whole.
struct Blend {
  std::vector<double> weights;  // their sum is 1
  std::vector<std::int64_t> samples, begins;
};

// What a sample says of its S + 1 tokens besides their numbers. A list is empty or has an
// entry for each token.
struct SampleMarks {
  // Where the document of each token begins in the sample. A document's first token is no
  // target. Empty: end tokens say where documents end.
  std::vector<std::int64_t> starts;
  // Not 0: the token is read, but is no target: it takes no part in the loss. Empty: all
  // are targets.
  std::vector<std::uint8_t> no_target;
  // Of pairs of answers: the answer of the source that the token is a target of, 2p of
  // pair p for the preferred one and 2p + 1 for the other; below 0: of none.
  std::vector<std::int64_t> answers{};
};

// Sample i of a source with sequence length S is S + 1 tokens: inputs [0, S), targets
// [1, S + 1). Read-only and safe to call from any thread.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // Number of whole samples; at least 1.
  virtual std::int64_t samples() const = 0;
  // Fills tokens [S + 1]. 0 <= index < windows(). Throws Error(io) when reading fails or
  // the file changed, Error(bad_content) when a token is not below the vocabulary.
  virtual void sample(std::int64_t index, std::span<std::int32_t> tokens) const = 0;
  // Of the same sample; nothing where its tokens say all. Throws as sample() does.
  virtual SampleMarks marks(std::int64_t /*index*/) const { return {}; }
  // Whether marks of some sample, whichever it is, say which tokens are no targets.
  virtual bool has_masks() const { return false; }
  // Tokens of the source, for reports; 0 when unbounded.
  virtual std::int64_t tokens() const = 0;
  // Samples and, if tokens are left over, the shorter last window, which sample() gives
  // for index == samples(): for evaluation of everything. A missing token is ignore_index
  // (-100): as it stands as a target, to be read as 0 as an input.
  virtual std::int64_t windows() const { return samples(); }
  // The token that ends each document, where the data say it.
  virtual std::optional<std::int32_t> end_token() const { return {}; }
  // Of what it is a blend; null: of nothing, its samples are shuffled as one.
  virtual const Blend* blend() const { return nullptr; }
  // Answers of pairs, two each; 0: it is no source of pairs.
  virtual std::int64_t answers() const { return 0; }
  // Where the tokens of a window lie, in their order; nothing without files.
  virtual std::vector<SamplePart> parts(std::int64_t /*index*/) const { return {}; }
  // Memory that it keeps besides the tokens of texts (TokenTable): where documents, rows
  // and pairs begin.
  virtual std::int64_t kept_bytes() const { return 0; }
  // One line for the log: "bytes: 12 files, 1.2 MB, 4,711 samples of 256".
  virtual std::string describe() const = 0;
};

// How documents share a sample.
enum class Packing : std::uint8_t {
  none,         // a sample is one text, whatever it holds
  concatenate,  // documents one after another, each on its own, cut where samples end
  best_fit,  // whole documents, each on its own, where they fit best; see BestFitPacking
};

// Which tokens of a conversation are learned.
enum class LossOn : std::uint8_t {
  automatic,   // of a completion where there is one, else all
  all,         // every token
  completion,  // those of completions
  assistant,   // those that the assistant wrote
};

// See open_source(). name_of() gives the deck's word.
enum class SourceKind : std::uint8_t {
  bytes,
  tokens,
  megatron,
  llmc,
  text,
  chat,
  preference,
  blend,
  synthetic
};
std::string_view name_of(SourceKind kind);

// A part of a blend, in the deck "0.7 tokens web/*.h5".
struct BlendPart {
  double weight = 0;
  SourceKind kind = SourceKind::tokens;
  std::string path;  // a file or glob
};
// Throws Error(bad_content) that says what is wrong and how to write it.
BlendPart parse_blend_part(std::string_view text);

// Of fill-in-the-middle; see text/infilling.hpp.
struct InfillingConfig {
  double rate = 0;                  // share of documents; 0: none
  double spm = 0.5;                 // of these, the share with the suffix first
  std::vector<std::string> tokens;  // of the prefix, the suffix and the middle
};

// What in the deck says more of a source, for messages: "deck.toml:7:9: data.packing".
struct SourceNames {
  std::string tokenizer = "data.tokenizer", chat_template = "data.chat_template",
              packing = "data.packing", infilling = "data.fim_rate";
};

// An error that says itself what of the deck it is about.
class NamedError : public Error {
 public:
  using Error::Error;
};

// Does the work; what it throws begins with `name`.
template <class Work>
auto named(const std::string& name, const Work& work) try {
  return work();
} catch (const NamedError&) {
  throw;
} catch (const Error& error) {
  throw NamedError(error.status(), name + ": " + error.what(), error.where());
}

struct SourceConfig {
  SourceKind kind = SourceKind::bytes;
  std::vector<std::string> paths;  // files or globs, expanded in sorted order
  std::int64_t sequence = 0;       // S
  std::int64_t vocabulary = 0;
  std::uint64_t seed = 0;  // of synthetic data, and of documents of one length in rows
  // What names the paths, for messages: "deck.toml:7:9: data.paths"; may be empty.
  std::string named_by = {};
  std::vector<BlendPart> blend = {};  // blend only
  std::string tokenizer = {};  // its file or folder; may be empty but for text and chat
  // Of the tokenizer's file; where it is given, token files that name another are
  // refused.
  std::string tokenizer_digest = {};
  Packing packing = Packing::none;
  std::int64_t end_token = -1;      // of documents, for packing; -1: what the data say,
  std::int64_t tokenizer_end = -1;  // or this, the tokenizer's, where they say nothing
  // Of chat: what is learned, the file of the template if not the tokenizer's, and the
  // date that templates are told.
  LossOn loss_on = LossOn::automatic;
  std::string chat_template = {}, template_date = {};
  InfillingConfig infilling = {};
  SourceNames names = {};
  // What the user gives the sequence by, for messages; empty: it is the model's.
  std::string sequence_by = "model.sequence";
  int threads = 1;  // that texts are tokenized by; the tokens are the same for any number
};

// A missing token. As a target it is not counted in the loss.
inline constexpr std::int32_t ignore_index = -100;
// End of text: the token after the last byte of each file of a "bytes" source.
inline constexpr std::int32_t end_of_text = 256;

// bytes: the files one after another, each followed by end_of_text; vocabulary >= 257.
// tokens: the 1-D integer dataset "tokens" of HDF5 files, one after another.
// megatron: pairs PREFIX.bin and PREFIX.idx of Megatron-LM, as one stream of tokens; a
//   path names either file or the prefix.
// llmc: token files of llm.c, one after another.
// text: documents of text files, tokenized when the source is opened and kept in memory.
// chat: conversations in JSON lines, as text; marks say which tokens are targets.
// preference: pairs of answers in JSON lines, as chat, each answer a document.
// blend: the samples of several sources by their weights; see train/sample_order.hpp.
// synthetic: a Markov chain of order 1 on the whole vocabulary: from each token one of at
//   most four successors with probabilities 1/2, 1/4, 1/8, 1/8 (fewer if the vocabulary
//   has fewer), a function of (seed, token). Sample i is a function of (seed, i) and, of
//   the sequence, only its length.
// Sample i of files are the tokens [i S, (i + 1) S]: neighbours share one token, so that
// every token but the first is a target once.
// Throws Error(missing_input) for a path or glob that names nothing or cannot be read,
// Error(bad_content) for an empty file, a directory, too few tokens for one sample, a
// token outside the vocabulary, a file of another kind (an HDF5 file given as bytes is
// legal).
// `open_text` opens sources of text and chat, for which this module lacks tokenizers;
// without it they are Error(internal). text::open_source() hands it in.
using OpenSource = std::function<std::unique_ptr<SampleSource>(const SourceConfig&)>;
std::unique_ptr<SampleSource> open_source(const SourceConfig& config,
                                          const OpenSource& open_text = {});

// Entropy of the synthetic source's next token in nats: the loss no model can beat.
double synthetic_entropy(const SourceConfig& config);

}  // namespace trireme::io
