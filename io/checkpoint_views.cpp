// checkpoint.h5, in which other programs see whole tensors: made after the checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_views.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/system_reason.hpp"
#include "io/checkpoint_shard.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/hdf5_file.hpp"
#include "io/plain_file.hpp"
#include "io/run_lock.hpp"

namespace trireme::io {
namespace {

constexpr auto temporary_views_name = ".checkpoint.h5.tmp";

// One piece for each dataset of a shard.
std::vector<Hdf5File::Piece> pieces(const Manifest& manifest, std::size_t tensor) {
  std::vector<Hdf5File::Piece> all;
  std::pair<std::uint32_t, std::uint32_t> before;
  for (std::size_t i = 0; i < manifest.boxes.count(tensor); ++i) {
    const BoxRecord box = manifest.boxes.get(tensor, i);
    const std::pair here(box.file, box.dataset);
    if (i > 0 && here == before) {
      all.back().further_boxes.emplace_back(box.begin, box.extent);
      continue;
    }
    before = here;
    all.push_back({manifest.files[box.file].name,
                   dataset_name(manifest.tensors[tensor].path, box.dataset), box.begin,
                   box.extent});
  }
  return all;
}

void write_attributes(Hdf5File& file, const CheckpointInfo& info) {
  file.write_attribute("/", "format_version", info.format_version);
  file.write_attribute("/", "program_version", info.program_version);
  file.write_attribute("/", "step", info.step);
  file.write_attribute("/", "tokens", info.tokens);
  file.write_attribute("/", "mesh", mesh_text(info.mesh));
  for (const auto& [name, word] : save_words)
    if (!(info.*word).empty()) file.write_attribute("/", name, info.*word);
  if (info.loss) file.write_attribute("/", "loss", *info.loss);
  if (info.samples > 0) file.write_attribute("/", "samples", info.samples);
  file.write_attribute("/", "deck", info.deck);
}

std::string digest_in(const Directory& folder, const std::string& name) {
  return PlainFile(folder, name).digest();
}

// Of a file of this name, the line that `xxhsum -H128` prints.
std::string line_of(const std::string& digest, const char* name) {
  return format("{}  {}\n", digest, name);
}

// Says which checkpoint the views are of, for its manifest names the index.
std::string first_line(const std::string& digest) {
  return line_of(digest, manifest_name);
}

// Needs no temporary name, for the views come after it.
void write_digests(const Directory& folder, const std::string& lines) {
  const std::string path = folder.path_of(views_digest_name);
  Descriptor file = folder.create(views_digest_name);
  if (!write_all(file.get(), lines) || !file.close())
    fail(Status::io, "{}: write failed: {}", path, system_reason(errno));
  sync_file(path);
}

// The digests come first, so that no views are without them. Should the system fail
// before the last name is on the disk, the views are made again.
bool make_alone(const Directory& folder, const std::function<bool()>& stops) {
  ManifestTexts texts = read_texts(folder);
  const std::string own = first_line(digest_of(texts.manifest));
  const Manifest manifest = parse_texts(folder.path(), std::move(texts));
  require(!lists_views(manifest), Status::bad_content,
          "{}: is listed in the index, and cannot be made again",
          folder.path_of(whole_name));
  if (!write_views(folder, temporary_views_name, manifest, stops)) return false;
  write_digests(folder,
                own + line_of(digest_in(folder, temporary_views_name), whole_name));
  folder.rename(temporary_views_name, whole_name);
  return true;
}

}  // namespace

bool lists_views(const Manifest& manifest) {
  return std::any_of(manifest.files.begin(), manifest.files.end(),
                     [](const FileEntry& file) { return file.name == whole_name; });
}

bool write_views(const Directory& folder, const std::string& name,
                 const Manifest& manifest, const std::function<bool()>& stops) {
  Hdf5File file(folder, name);
  write_attributes(file, manifest.info);
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    if (stops && stops()) return false;
    const TensorEntry& tensor = manifest.tensors[i];
    file.create_virtual("/" + tensor.path, tensor.dtype, tensor.shape,
                        pieces(manifest, i));
  }
  file.close();
  return true;
}

bool make_views(const Directory& folder, const std::function<bool()>& stops) {
  const RunLock lock(folder.path());
  bool made = false;
  try {
    made = make_alone(folder, stops);
  } catch (...) {
    folder.remove(temporary_views_name);
    throw;
  }
  if (!made) folder.remove(temporary_views_name);
  return made;
}

std::string why_views_differ(const Directory& folder) try {
  constexpr std::int64_t longest = 1 << 12;
  const std::string says = PlainFile(folder, views_digest_name).text(longest);
  const std::string own = first_line(digest_in(folder, manifest_name));
  if (!says.starts_with(own))
    return format("{}: is of views of another checkpoint",
                  folder.path_of(views_digest_name));
  const std::string digest = digest_in(folder, whole_name);
  if (says == own + line_of(digest, whole_name)) return "";
  return format("{}: damaged: its XXH3-128 is {}, and not what {} says",
                folder.path_of(whole_name), digest, views_digest_name);
} catch (const Error& error) {
  return error.what();
}

}  // namespace trireme::io
