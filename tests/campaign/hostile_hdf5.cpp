// Makes HDF5 files whose datasets lead elsewhere, and token files with faults.
// SPDX-License-Identifier: Apache-2.0
// Each kind of fault has a name.
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <functional>

#include "campaign/tool.hpp"

namespace trireme::campaign {
namespace {

constexpr const char* elsewhere = "elsewhere";
constexpr const char* kept = "kept";

hid_t good(hid_t id) {
  if (id < 0) throw std::runtime_error("an HDF5 call failed");
  return id;
}

// Closes what it holds.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(good(id)), close_(close) {}
  ~Handle() { close_(id_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

struct Form {
  hid_t type = H5T_STD_I32LE;
  std::vector<hsize_t> extents;
  hsize_t elements() const {
    hsize_t product = 1;
    for (const auto extent : extents) product *= extent;
    return product;
  }
};

void make(hid_t file, const std::string& name, const Form& form, hid_t creation) {
  const int rank = static_cast<int>(form.extents.size());
  const Handle space(H5Screate_simple(rank, form.extents.data(), nullptr), H5Sclose);
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  const Handle made(
      H5Dcreate2(file, name.c_str(), form.type, space, links, creation, H5P_DEFAULT),
      H5Dclose);
}

// Storage of another file, whose bytes become elements.
void make_external(hid_t file, const std::string& name, const Form& form,
                   const std::string& other) {
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  good(H5Pset_external(creation, other.c_str(), 0,
                       form.elements() * H5Tget_size(form.type)));
  make(file, name, form, creation);
}

void make_virtual(hid_t file, const std::string& name, const Form& form,
                  const std::string& other, const std::string& source) {
  const int rank = static_cast<int>(form.extents.size());
  const Handle space(H5Screate_simple(rank, form.extents.data(), nullptr), H5Sclose);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  good(H5Pset_virtual(creation, space, other.c_str(), source.c_str(), space));
  make(file, name, form, creation);
}

void make_packed(hid_t file, const std::string& name, const Form& form) {
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  good(
      H5Pset_chunk(creation, static_cast<int>(form.extents.size()), form.extents.data()));
  good(H5Pset_deflate(creation, 6));
  make(file, name, form, creation);
}

// Puts at `name` what `kind` says; what belongs there has the form `form`.
void make_spoilt(hid_t file, const std::string& kind, const std::string& name,
                 const Form& form, const std::string& other) {
  if (kind == "external_storage") return make_external(file, name, form, other);
  if (kind == "external_link") {
    good(H5Lcreate_external(other.c_str(), "/x", file, name.c_str(), H5P_DEFAULT,
                            H5P_DEFAULT));
  } else if (kind == "soft_link_loop") {
    good(H5Lcreate_soft(name.c_str(), file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT));
  } else if (kind == "soft_link_nowhere") {
    good(H5Lcreate_soft("/nowhere", file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT));
  } else if (kind == "virtual_self") {
    make_virtual(file, name, form, ".", name);
  } else if (kind == "virtual_pair") {
    make_virtual(file, name, form, ".", elsewhere);
    make_virtual(file, elsewhere, form, ".", name);
  } else if (kind == "virtual_other") {
    make_virtual(file, name, form, other, "/x");
  } else if (kind == "packed") {
    make_packed(file, name, form);
  } else if (kind == "group") {
    const Handle group(
        H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
  } else if (kind == "wide") {
    Form wide = form;
    wide.extents.assign(1, hsize_t{1} << 50);
    const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    good(H5Pset_layout(creation, H5D_CHUNKED));
    const std::array<hsize_t, 1> chunk = {1024};
    good(H5Pset_chunk(creation, 1, chunk.data()));
    make(file, name, wide, creation);
  } else {
    throw std::runtime_error("unknown kind " + kind);
  }
}

constexpr std::array spoils = {"external_storage",
                               "external_link",
                               "soft_link_loop",
                               "soft_link_nowhere",
                               "virtual_self",
                               "virtual_pair",
                               "virtual_other",
                               "packed",
                               "group",
                               "wide"};

herr_t collect(hid_t, const char* name, const H5O_info_t* info, void* into) {
  if (info->type == H5O_TYPE_DATASET) static_cast<Words*>(into)->emplace_back(name);
  return 0;
}
Words datasets(hid_t file) {
  Words names;
  good(H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, collect, &names));
  return names;
}

// The dataset "tokens" from numbers, stored as `type`.
void put_tokens(hid_t file, const std::string& name, hid_t type,
                const std::vector<hsize_t>& extents,
                const std::vector<std::int64_t>& tokens) {
  const Handle space(
      H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
      H5Sclose);
  const Handle data(
      H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose);
  if (!tokens.empty())
    good(H5Dwrite(data, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, tokens.data()));
}

// The dataset "tokens" of strings.
void put_text(hid_t file, const std::string& name) {
  const std::array<std::array<char, 8>, 512> words{};
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  good(H5Tset_size(type, words.front().size()));
  const hsize_t extent = words.size();
  const Handle space(H5Screate_simple(1, &extent, nullptr), H5Sclose);
  const Handle data(
      H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose);
  good(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, words.data()));
}

}  // namespace

Words spoil_kinds() { return {spoils.begin(), spoils.end()}; }

Words tokens_kinds() {
  Words kinds = {"good",       "too_large",  "negative", "beyond_32_bits", "none",
                 "one",        "few",        "floats",   "two_dims",       "other_name",
                 "no_dataset", "big_endian", "text"};
  for (const char* kind : spoils) kinds.emplace_back(kind);
  return kinds;
}

void write_tokens(const std::string& path, const std::string& kind,
                  const std::string& other, std::uint64_t seed) {
  Draws draws(seed);
  const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                    H5Fclose);
  std::vector<std::int64_t> tokens(4096);
  for (auto& token : tokens) token = static_cast<std::int64_t>(draws.below(257));
  const auto at = draws.below(tokens.size());
  if (kind == "no_dataset") return;
  if (std::find(spoils.begin(), spoils.end(), kind) != spoils.end())
    return make_spoilt(file, kind, "tokens", {H5T_STD_I32LE, {4096}}, other);
  if (kind == "too_large")
    tokens[at] = 257 + static_cast<std::int64_t>(draws.below(100000));
  if (kind == "negative") tokens[at] = -1;
  if (kind == "beyond_32_bits") tokens[at] = (std::int64_t{1} << 32) + 5;
  if (kind == "none") tokens.clear();
  if (kind == "one") tokens.resize(1);
  if (kind == "few") tokens.resize(31 + draws.below(3));
  std::vector<hsize_t> extents = {tokens.size()};
  if (kind == "two_dims") extents = {64, 64};
  if (kind == "text") return put_text(file, "tokens");
  hid_t type = H5T_STD_I64LE;
  if (kind == "floats") type = H5T_IEEE_F32LE;
  if (kind == "big_endian") type = H5T_STD_I32BE;
  put_tokens(file, kind == "other_name" ? "ids" : "tokens", type, extents, tokens);
}

void spoil_dataset(const std::string& path, const std::string& kind,
                   const std::string& other, std::uint64_t seed) {
  Draws draws(seed);
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
  const std::string name = draws.one_of(datasets(file));
  Form form;
  {
    const Handle data(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
    const Handle space(H5Dget_space(data), H5Sclose);
    form.type = good(H5Dget_type(data));
    form.extents.resize(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
    H5Sget_simple_extent_dims(space, form.extents.data(), nullptr);
  }
  // Its bytes stay: what the manifest says of them remains true.
  good(H5Lmove(file, name.c_str(), file, kept, H5P_DEFAULT, H5P_DEFAULT));
  make_spoilt(file, kind, "/" + name, form, other);
  H5Tclose(form.type);
}

void check_hdf5(const std::string& path) {
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  for (const auto& name : datasets(file)) {
    const Handle data(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
    const Handle space(H5Dget_space(data), H5Sclose);
    std::vector<double> values(
        static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    good(H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  }
}

}  // namespace trireme::campaign
