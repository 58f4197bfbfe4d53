// The digest of a base: its tensors by name, dealt out over the parts.
// SPDX-License-Identifier: Apache-2.0
#include "convert/base_digest.hpp"

#include <array>
#include <memory>
#include <sstream>

#include "convert/model_folder.hpp"
#include "io/checkpoint.hpp"
#include "io/digest.hpp"
#include "io/plain_file.hpp"
#include "io/safetensors_folder.hpp"

namespace trireme::convert {
namespace {

constexpr std::size_t digits = 16;  // of a part

// The parts that are this rank's.
class Parts {
 public:
  Parts(int part, int parts) {
    for (int i = part; i < base_digest_parts; i += parts)
      digests_.at(static_cast<std::size_t>(i)) = std::make_unique<io::Digest>();
  }

  // The digest of the next tensor's part; null: it is another rank's.
  io::Digest* next() {
    return digests_.at(static_cast<std::size_t>(tensors_++ % base_digest_parts)).get();
  }

  // "number digits", a line each.
  std::string text() const {
    std::string all;
    for (std::size_t i = 0; i < digests_.size(); ++i)
      if (digests_[i] != nullptr)
        all += format("{} {}\n", i, digests_[i]->text().substr(0, digits));
    return all;
  }

 private:
  std::array<std::unique_ptr<io::Digest>, base_digest_parts> digests_;
  std::int64_t tensors_ = 0;
};

void add(io::Digest& digest, const std::string& text) {
  digest.add(text.data(), text.size());
}

void add_folder(const std::string& path, Parts& parts) {
  io::SafetensorsFolder files(path);
  for (const auto& tensor : files.tensors()) {
    io::Digest* const digest = parts.next();
    if (digest == nullptr) continue;
    std::string head = format("{} {}", tensor.entry.name, tensor.entry.type->name);
    for (const std::int64_t extent : tensor.entry.extents) head += format(" {}", extent);
    add(*digest, head + '\n');
    files.file_of(tensor).digest(tensor.entry.begin,
                                 tensor.entry.end - tensor.entry.begin, {digest});
  }
}

void add_checkpoint(const std::string& path, Parts& parts) {
  const io::CheckpointReader reader(path, io::no_digests);
  for (const auto& tensor : reader.tensors()) {
    if (!tensor.path.starts_with("model/")) continue;
    io::Digest* const digest = parts.next();
    if (digest == nullptr) continue;
    add(*digest, format("{} {} {}\n{}", tensor.path, name_of(tensor.dtype), tensor.shape,
                        reader.digest(tensor.path)));
  }
}

}  // namespace

std::string share_of_base_digest(const std::string& path, int part, int parts) {
  Parts mine(part, parts);
  if (is_model_folder(path)) {
    add_folder(path, mine);
  } else {
    add_checkpoint(path, mine);
  }
  return mine.text();
}

std::string join_base_digest(model::BaseCodes kind,
                             const std::vector<std::string>& shares) {
  std::array<std::string, base_digest_parts> all;
  for (const std::string& share : shares) {
    std::istringstream lines(share);
    std::size_t number = 0;
    for (std::string text; lines >> number >> text;) all.at(number) = text;
  }
  std::string word = std::string(name_of(kind)) + ':';
  for (const std::string& part : all) {
    require(part.size() == digits, "a part of a base's digest is missing");
    word += part;
  }
  return word;
}

void check_base_digest(const std::string& checkpoint, const std::string& digest,
                       const std::string& path, model::BaseCodes kind, int part,
                       int parts) {
  const std::size_t colon = digest.find(':');
  require(colon != std::string::npos &&
              digest.size() - colon - 1 == digits * base_digest_parts,
          Status::bad_content,
          "{}: its digest of the model beside its adapter is '{}', which this program "
          "does not read",
          checkpoint, digest);
  require(digest.substr(0, colon) == name_of(kind), Status::bad_content,
          "{}: its adapter was trained beside a model of codes (adapter.quantize = "
          "\"{}\"), and adapter.quantize = \"{}\" stands for other weights: write the "
          "first again, or start from the beginning in another run.directory",
          checkpoint, digest.substr(0, colon), name_of(kind));
  std::istringstream lines(share_of_base_digest(path, part, parts));
  std::size_t number = 0;
  for (std::string text; lines >> number >> text;)
    require(digest.compare(colon + 1 + number * digits, digits, text) == 0,
            Status::bad_content,
            "{}: its adapter was trained beside another model than '{}' (model.from) is: "
            "tensors have other names, shapes or bytes: bring back the model that it was "
            "trained beside, or start from the beginning in another run.directory",
            checkpoint, path);
}

}  // namespace trireme::convert
