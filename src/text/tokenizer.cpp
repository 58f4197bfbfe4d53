// Tokenizer: the stages in their order.
// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.hpp"

#include <algorithm>
#include <array>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/path.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "text/tokenizer_state.hpp"
#include "text/utf8.hpp"
#include "text/workspace.hpp"

namespace trireme::text {

namespace {

constexpr std::int64_t most_file_bytes = std::int64_t{1} << 30;

// Of a folder without a tokenizer: the preferred file, which the message then names.
std::string file_at(const std::string& path) {
  if (!is_folder(path)) return path;
  return tokenizer_file_in(path).value_or(path + "/" +
                                          std::string(tokenizer_file_names.front()));
}

TokenizerState state_of_file(const std::string& file) {
  const std::string bytes = io::read_text(file, most_file_bytes);
  const bool model = file.ends_with(".model");
  if (file.ends_with(".tiktoken") || (model && is_tiktoken(bytes))) {
    const std::string words = file + ".json";
    const Directory folder = Directory::to_read(parent_of(file));
    return state_of_tiktoken(bytes, file,
                             folder.has(last_name_of(words))
                                 ? io::read_text(words, most_file_bytes)
                                 : std::string());
  }
  return model ? state_of_sentencepiece(bytes, file) : state_of_json(bytes, file);
}

// Whether the pre-tokenizer ends by turning bytes to letters, and does so nowhere else:
// then the model can take the bytes themselves.
bool is_byte_level(const ConfigNode& node) {
  if (node.is_null()) return false;
  if (node.type() == "ByteLevel") return true;
  if (node.type() != "Sequence") return false;
  const auto parts = node.at("pretokenizers").elements();
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (is_byte_level(parts[i]) != (i + 1 == parts.size())) return false;
  return !parts.empty();
}

// Special tokens that are added to every text are tokens.
void check_post_processor(const TokenizerState& state, const std::string& source) {
  if (!state.post_processor) return;
  std::vector<std::int32_t> ids;
  std::vector<Range> offsets;
  state.post_processor->apply(ids, offsets);
  for (const std::int32_t id : ids)
    require(state.added.by_id(id) != nullptr || state.model->token_of(id) != nullptr,
            Status::bad_content,
            "{}: 'post_processor' adds the id {}, which no token has", source, id);
}

}  // namespace

std::optional<std::string> tokenizer_file_in(const std::string& folder) {
  const Directory directory = Directory::to_read(folder);
  for (const std::string_view name : tokenizer_file_names)
    if (directory.has(std::string(name))) return folder + "/" + std::string(name);
  return {};
}

Tokenizer::Tokenizer(const std::string& path) {
  const std::string file = file_at(path);
  state_ = std::make_unique<TokenizerState>(state_of_file(file));
  state_->folder = parent_of(file);
}

Tokenizer::Tokenizer(std::string_view json, const std::string& source)
    : state_(new TokenizerState(state_of_json(json, source))) {}

Tokenizer::Tokenizer(TokenizerState state)
    : state_(new TokenizerState(std::move(state))) {}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

TokenizerState state_of_json(std::string_view json, const std::string& source) {
  TokenizerState state;
  const Json file = parse_json(json, source);
  const ConfigNode root(file, source);
  if (!file.is_object() || !root.has("model"))
    root.fail("is no tokenizer.json: it has no \"model\"");
  root.only({"version", "truncation", "padding", "added_tokens", "normalizer",
             "pre_tokenizer", "post_processor", "decoder", "model"});
  for (const char* key : {"truncation", "padding"})
    if (root.has(key))
      root.at(key).fail("is set, which would cut or fill up texts: make it null");
  static const Json null;
  const auto part = [&](const char* key) {
    return root.has(key) ? root.at(key) : ConfigNode(null, source, key);
  };
  state.digest = io::digest_of(json);
  state.normalizer = make_normalizer(part("normalizer"));
  state.model = make_model(part("model"), is_byte_level(part("pre_tokenizer")));
  state.pre_tokenizer =
      make_pre_tokenizer(part("pre_tokenizer"), state.model->takes_bytes());
  state.post_processor = make_post_processor(part("post_processor"));
  state.decoder = make_decoder(part("decoder"));
  state.joins_bytes =
      part("decoder").value().dump().find("\"ByteFallback\"") != std::string::npos;
  state.added = AddedTokens(part("added_tokens"), *state.model, state.normalizer.get());
  check_post_processor(state, source);
  return state;
}

namespace {

// Pre-tokenizes and encodes a piece that holds no added token.
void encode_text(const TokenizerState& state, AlignedText text, Encoding& out,
                 Workspace& workspace) {
  if (text.text.empty()) return;
  Pieces pieces;
  pieces.ranges = {{0, static_cast<std::uint32_t>(text.text.size())}};
  pieces.whole = std::move(text);
  if (state.pre_tokenizer) state.pre_tokenizer->apply(pieces);
  if (!pieces.whole.tracks()) {
    state.model->encode_all(pieces, out.ids, workspace);
    return;
  }
  std::vector<Token> tokens;
  for (const Range& piece : pieces.ranges) {
    if (piece.size() == 0) continue;
    tokens.clear();
    state.model->encode(pieces.text(piece), tokens, workspace);
    std::uint32_t at = piece.begin;
    for (const Token& token : tokens) {
      out.ids.push_back(token.id);
      const std::uint32_t end = std::min(at + token.bytes, piece.end);
      Range origin = pieces.whole.origins[std::min(at, piece.end - 1)];
      for (std::uint32_t i = at; i < end; ++i) {
        origin.begin = std::min(origin.begin, pieces.whole.origins[i].begin);
        origin.end = std::max(origin.end, pieces.whole.origins[i].end);
      }
      out.offsets.push_back(origin);
      at = end;
    }
  }
}

}  // namespace

void Tokenizer::encode_parts(std::string_view text, Encoding& out, bool tracks,
                             Workspace& workspace) const {
  const TokenizerState& state = *state_;
  for (const AddedPart& part : state.added.find_raw(text)) {
    if (part.id >= 0) {
      out.ids.push_back(part.id);
      if (tracks) out.offsets.push_back(part.range);
      continue;
    }
    AlignedText piece = aligned(text, part.range, tracks);
    if (state.normalizer) state.normalizer->apply(piece);
    if (!state.added.any_normalized()) {
      encode_text(state, std::move(piece), out, workspace);
      continue;
    }
    for (const AddedPart& inner : state.added.find_normalized(piece.text)) {
      if (inner.id < 0) {
        encode_text(state, piece.part(inner.range), out, workspace);
        continue;
      }
      out.ids.push_back(inner.id);
      if (!tracks || inner.range.size() == 0) continue;
      out.offsets.push_back({piece.origins[inner.range.begin].begin,
                             piece.origins[inner.range.end - 1].end});
    }
  }
}

void Tokenizer::encode(std::string_view text, SpecialTokens special,
                       std::vector<std::int32_t>& ids, Workspace& workspace) const {
  if (text.size() > most_bytes)  // numbers are not written for each text
    fail(Status::bad_content,
         "a text of {} is too long to be encoded at once; {} are the most",
         human_bytes(static_cast<double>(text.size())),
         human_bytes(static_cast<double>(most_bytes)));
  std::string repaired;
  if (valid_bytes(text) != text.size()) text = repaired = replace_invalid(text);
  Encoding out;
  encode_parts(text, out, false, workspace);
  if (special == SpecialTokens::add && state_->post_processor)
    state_->post_processor->apply(out.ids, out.offsets);
  if (ids.empty())
    ids = std::move(out.ids);
  else
    ids.insert(ids.end(), out.ids.begin(), out.ids.end());
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text,
                                            SpecialTokens special) const {
  Workspace workspace;
  std::vector<std::int32_t> ids;
  encode(text, special, ids, workspace);
  return ids;
}

Encoding Tokenizer::encode_with_offsets(std::string_view text,
                                        SpecialTokens special) const {
  require(text.size() <= most_bytes && valid_bytes(text) == text.size(),
          Status::bad_content, "offsets are given into valid UTF-8 of at most {} only",
          human_bytes(static_cast<double>(most_bytes)));
  Workspace workspace;
  Encoding out;
  encode_parts(text, out, true, workspace);
  if (special == SpecialTokens::add && state_->post_processor)
    state_->post_processor->apply(out.ids, out.offsets);
  return out;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids,
                              bool skip_special) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    const std::string* token = token_of(id);
    require(token != nullptr, Status::bad_content,
            "the tokenizer has no token {}; its ids lie below {}", id, vocabulary());
    if (skip_special && is_special(id)) continue;
    tokens.push_back(*token);
  }
  std::string text;
  if (state_->decoder) {
    state_->decoder->apply(tokens);
    for (const std::string& token : tokens) text += token;
    return text;
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) text += (i > 0 ? " " : "") + tokens[i];
  return text;
}

std::int64_t Tokenizer::vocabulary() const {
  std::int64_t end = state_->model->end();
  for (const AddedToken& token : state_->added.all())
    end = std::max<std::int64_t>(end, token.id + 1);
  return end;
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  if (const AddedToken* added = state_->added.by_content(token)) return added->id;
  return state_->model->id_of(token);
}

const std::string* Tokenizer::token_of(std::int32_t id) const {
  if (const AddedToken* added = state_->added.by_id(id)) return &added->decoded;
  return state_->model->token_of(id);
}

bool Tokenizer::is_special(std::int32_t id) const {
  const std::string* token = token_of(id);
  if (token == nullptr) return false;
  const AddedToken* added = state_->added.by_content(*token);
  return added != nullptr && added->special;
}

bool Tokenizer::may_join(std::int32_t id) const {
  const std::string* token = token_of(id);
  return state_->joins_bytes && token != nullptr && token->size() == 6 &&
         token->starts_with("<0x") && token->ends_with('>');
}

const std::string& Tokenizer::folder() const { return state_->folder; }
const std::string& Tokenizer::digest() const { return state_->digest; }

std::optional<std::int32_t> Tokenizer::end_token() const {
  const std::string name = "tokenizer_config.json";
  if (!state_->folder.empty() && Directory::to_read(state_->folder).has(name)) {
    const std::string file = state_->folder + "/" + name;
    const Json json = parse_json(io::read_text(file, most_file_bytes), file);
    const ConfigNode root(json, file);
    if (root.has("eos_token")) {
      const ConfigNode eos = root.at("eos_token");
      const std::string token =
          eos.value().is_object() ? eos.at("content").text() : eos.text();
      const auto id = id_of(token);
      if (!id) eos.fail("is \"" + token + "\", which is no token of the tokenizer");
      return id;
    }
  }
  constexpr std::array names = {"<|endoftext|>",
                                "<|end_of_text|>",
                                "</s>",
                                "<eos>",
                                "<|eos|>",
                                "[EOS]",
                                "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};
  std::optional<std::int32_t> found;
  for (const char* known : names) {
    const AddedToken* added = state_->added.by_content(known);
    if (added == nullptr || !added->special) continue;
    if (found) return {};  // it is not for us to choose
    found = added->id;
  }
  return found;
}

std::string StreamDecoder::put(std::int32_t id) {
  // What is skipped must not part bytes that belong together.
  if (skip_special_ && tokenizer_.is_special(id)) return "";
  window_.push_back(id);
  if (tokenizer_.may_join(id)) return "";
  std::string text = tokenizer_.decode(window_, skip_special_);
  if (text.size() <= prefix_.size() || text.ends_with("\uFFFD")) return "";
  std::string added = text.substr(prefix_.size());
  const std::span<const std::int32_t> rest(window_);
  std::string prefix = tokenizer_.decode(rest.subspan(given_), skip_special_);
  if (prefix.empty()) {  // what follows would be read as the beginning of a text
    prefix_ = std::move(text);
    return added;
  }
  window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(given_));
  given_ = window_.size();
  prefix_ = std::move(prefix);
  return added;
}

std::string StreamDecoder::finish() {
  std::string text = tokenizer_.decode(window_, skip_special_);
  std::string added = text.substr(std::min(prefix_.size(), text.size()));
  window_.clear();
  given_ = 0;
  prefix_.clear();
  return added;
}

}  // namespace trireme::text
