// HDF5 files that lead elsewhere, or are not what they say: refused before they are read.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "io/files.hpp"
#include "io/hdf5_file.hpp"
#include "io/sample_source.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

constexpr hsize_t count = 64;

// Closed at the end of a test: HDF5 takes what is left open at its own end for an error.
std::vector<hid_t> open_ids;
hid_t kept(hid_t id) {
  open_ids.push_back(id);
  return id;
}

class HostileHdf5 : public testing::Test {
 protected:
  HostileHdf5() {
    std::string name = fs::temp_directory_path() / "trireme-hostile-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    // Whole, and what a link or a mapping could lead to.
    Hdf5File file(path("other.h5"), Hdf5File::Mode::create);
    std::vector<std::int32_t> tokens(count, 7);
    file.write("tokens", TensorView(tokens.data(), DType::i32, {count}));
    file.close();
    ::mkfifo(path("pipe").c_str(), 0600);
  }
  ~HostileHdf5() override {
    for (const hid_t id : open_ids) H5Idec_ref(id);
    open_ids.clear();
    fs::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // A file that the function fills through HDF5 itself.
  std::string make(const std::string& name,
                   const std::function<void(hid_t)>& fill) const {
    const hid_t access = kept(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);  // with all that is open in it
    const hid_t file = H5Fcreate(path(name).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    fill(file);
    H5Fclose(file);
    return path(name);
  }

  // Reading it, as a tensor and as data, is an error of the content that has the words.
  void expect_refused(const std::string& file, const std::string& words) const {
    const auto message = [](const auto& work) -> std::string {
      try {
        work();
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::bad_content) << error.what();
        return error.what();
      }
      return "nothing";
    };
    std::vector<std::int32_t> out(4);
    const auto read = message([&] {
      const Hdf5File h5(file, Hdf5File::Mode::read);
      h5.read("tokens", {0}, TensorView(out.data(), DType::i32, {4}));
    });
    const auto opened = message([&] {
      open_source({.kind = SourceKind::tokens,
                   .paths = {file},
                   .sequence = 4,
                   .vocabulary = 100,
                   .seed = 1});
    });
    for (const auto& text : {read, opened}) {
      EXPECT_NE(text.find(words), std::string::npos) << file << ": " << text;
      EXPECT_NE(text.find(file), std::string::npos) << text;
    }
  }

  std::string folder_;
};

hid_t line(hsize_t extent = count) { return kept(H5Screate_simple(1, &extent, nullptr)); }

// "tokens" of 32-bit integers with these properties; written unless `values` is false.
void put(hid_t file, hid_t creation, hsize_t extent = count, bool values = true,
         const char* name = "tokens") {
  const hid_t dataset = H5Dcreate2(file, name, H5T_STD_I32LE, line(extent), H5P_DEFAULT,
                                   creation, H5P_DEFAULT);
  ASSERT_GE(dataset, 0);
  const std::vector<std::int32_t> tokens(values ? extent : 0, 5);
  if (values)
    H5Dwrite(dataset, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, tokens.data());
  H5Dclose(dataset);
}

TEST_F(HostileHdf5, LinksAreNotFollowed) {
  const std::string other = path("other.h5");
  expect_refused(make("external.h5",
                      [&](hid_t file) {
                        H5Lcreate_external(other.c_str(), "/tokens", file, "tokens",
                                           H5P_DEFAULT, H5P_DEFAULT);
                      }),
                 "a link into another file, '" + other + "'");
  expect_refused(make("soft.h5",
                      [&](hid_t file) {
                        put(file, H5P_DEFAULT, count, true, "hidden");
                        H5Lcreate_soft("/hidden", file, "tokens", H5P_DEFAULT,
                                       H5P_DEFAULT);
                      }),
                 "'tokens' is a symbolic link");
  const auto round = make("round.h5", [&](hid_t file) {
    H5Lcreate_soft("/tokens", file, "tokens", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external(other.c_str(), "/", file, "group", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused(round, "'tokens' is a symbolic link");
  const Hdf5File file(round, Hdf5File::Mode::read);
  EXPECT_THROW(file.describe("group/tokens"), Error);
  EXPECT_TRUE(file.datasets().empty());
}

TEST_F(HostileHdf5, ExternalStorageIsNotRead) {
  expect_refused(make("storage.h5",
                      [&](hid_t file) {
                        const hid_t creation = kept(H5Pcreate(H5P_DATASET_CREATE));
                        H5Pset_external(creation, "/etc/passwd", 0, 4 * count);
                        put(file, creation, count, false);
                      }),
                 "lie in another file, '/etc/passwd'");
}

// HDF5 follows such a mapping until the stack ends, or waits for the pipe's writer.
TEST_F(HostileHdf5, VirtualDatasetsLeadNowhereElse) {
  const auto maps = [&](const std::string& name, const std::string& target,
                        const std::string& source = "/tokens") {
    return make(name, [&](hid_t file) {
      const hid_t creation = kept(H5Pcreate(H5P_DATASET_CREATE));
      H5Pset_virtual(creation, line(), target.c_str(), source.c_str(), line());
      put(file, creation, count, false);
    });
  };
  constexpr auto elsewhere = "only files of its own folder are read";
  expect_refused(maps("self.h5", "."), elsewhere);
  expect_refused(maps("absolute.h5", path("other.h5")), elsewhere);
  expect_refused(maps("up.h5", "../other.h5"), elsewhere);
  expect_refused(maps("itself.h5", "itself.h5"), "do not lie one after the other");
  expect_refused(maps("pipes.h5", "pipe"), "is a named pipe");
  expect_refused(maps("absent.h5", "none.h5"), "none.h5");
  maps("b.h5", "a.h5");
  expect_refused(maps("a.h5", "b.h5"), "do not lie one after the other");
  fs::create_symlink(path("other.h5"), path("link.h5"));
  expect_refused(maps("linked.h5", "link.h5"), "is a symbolic link");
  std::vector<std::int32_t> out(count);
  const Hdf5File good(maps("good.h5", "other.h5"), Hdf5File::Mode::read);
  good.read_all("tokens", TensorView(out.data(), DType::i32, {count}));
  EXPECT_EQ(out, std::vector<std::int32_t>(count, 7));
}

TEST_F(HostileHdf5, PartsAndWildMappingsAreNoTensor) {
  const auto maps = [&](const std::string& name, hsize_t begin, hsize_t step,
                        hsize_t extent) {
    return make(name, [&](hid_t file) {
      const hid_t creation = kept(H5Pcreate(H5P_DATASET_CREATE)), to = line(2 * count);
      H5Sselect_hyperslab(to, H5S_SELECT_SET, &begin, &step, &extent, nullptr);
      H5Pset_virtual(creation, to, "other.h5", "/tokens", line());
      put(file, creation, 2 * count, false);
    });
  };
  expect_refused(maps("part.h5", 0, 1, count), "are written by no rank");
  expect_refused(maps("combed.h5", 0, 2, count), "not made of whole datasets");
}

// The shape of nothing at all, of more than a file can hold, and of what none can.
TEST_F(HostileHdf5, SizesMustBePlausible) {
  const auto chunked = [&](const std::string& name, hsize_t extent, hsize_t chunk) {
    return make(name, [&](hid_t file) {
      const hid_t creation = kept(H5Pcreate(H5P_DATASET_CREATE));
      H5Pset_chunk(creation, 1, &chunk);
      put(file, creation, extent, false);
    });
  };
  expect_refused(chunked("huge.h5", hsize_t{1} << 62, 64), "cannot be");
  expect_refused(chunked("large.h5", hsize_t{1} << 50, 64), "cannot be");
  expect_refused(chunked("chunk.h5", hsize_t{1} << 29, hsize_t{1} << 29), "cannot be");
  expect_refused(
      make("never.h5", [](hid_t file) { put(file, H5P_DEFAULT, count, false); }),
      "were never written");
}

std::size_t keep(unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*,
                 void**) {
  return bytes;
}

TEST_F(HostileHdf5, OnlyFiltersOfHdf5ItselfAreRun) {
  constexpr H5Z_filter_t number = 300;  // of the range for tests
  const H5Z_class2_t own = {H5Z_CLASS_T_VERS, number,  1,       1,
                            "test",           nullptr, nullptr, keep};
  const auto packed = [&](const std::string& name, bool ours) {
    return make(name, [&](hid_t file) {
      const hid_t creation = kept(H5Pcreate(H5P_DATASET_CREATE));
      const hsize_t chunk = 16;
      H5Pset_chunk(creation, 1, &chunk);
      H5Pset_shuffle(creation);
      if (ours) H5Pset_filter(creation, number, H5Z_FLAG_MANDATORY, 0, nullptr);
      H5Pset_deflate(creation, 6);
      put(file, creation);
    });
  };
  ASSERT_GE(H5Zregister(&own), 0);
  const auto file = packed("plugin.h5", true);
  H5Zunregister(number);
  expect_refused(file, "packed by the filter 300");
  std::vector<std::int32_t> out(count);
  const Hdf5File good(packed("gzip.h5", false), Hdf5File::Mode::read);
  good.read_all("tokens", TensorView(out.data(), DType::i32, {count}));
  EXPECT_EQ(out, std::vector<std::int32_t>(count, 5));
}

// HDF5 writes as many values to memory as the attribute has.
TEST_F(HostileHdf5, AttributesAreOneValue) {
  const auto file = make("attributes.h5", [](hid_t h5) {
    const std::vector<std::int64_t> many(4096, 3);
    const hid_t numbers =
        H5Acreate2(h5, "step", H5T_STD_I64LE, line(4096), H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(numbers, H5T_NATIVE_INT64, many.data());
    const hid_t type = kept(H5Tcopy(H5T_C_S1));
    H5Tset_size(type, 4);
    const hid_t bytes = H5Dcreate2(h5, "codes", H5T_STD_U8LE, line(4), H5P_DEFAULT,
                                   H5P_DEFAULT, H5P_DEFAULT);
    const std::string names(4 * 4096, 'e');
    for (const hid_t object : {h5, bytes})
      H5Awrite(
          H5Acreate2(object, "element_type", type, line(4096), H5P_DEFAULT, H5P_DEFAULT),
          type, names.data());
    H5Dwrite(bytes, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, names.data());
  });
  const Hdf5File h5(file, Hdf5File::Mode::read);
  EXPECT_THROW(h5.integer_attribute("/", "step"), Error);
  EXPECT_THROW(h5.text_attribute("/", "element_type"), Error);
  EXPECT_THROW(h5.describe("codes"), Error);
}

std::string message_of(const std::string& path) {
  try {
    const Hdf5File file(path, Hdf5File::Mode::read);
    file.describe("tokens");
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_content);
    return error.what();
  }
  return "nothing";
}

TEST_F(HostileHdf5, FilesThatAreNoFilesDoNotBlock) {
  EXPECT_EQ(message_of(path("pipe")), path("pipe") +
                                          ": is not an HDF5 file that can be read: is "
                                          "not a regular file");
  EXPECT_NE(message_of("/dev/zero").find("not a regular file"), std::string::npos);
}

TEST_F(HostileHdf5, DamageHasAReason) {
  const std::string before = read_text(path("other.h5"), 1 << 20);
  const auto damaged = [&](std::string text) {
    std::ofstream(path("damaged.h5"), std::ios::binary) << text;
    return message_of(path("damaged.h5"));
  };
  EXPECT_NE(damaged("text").find("signature not found"), std::string::npos)
      << damaged("text");
  EXPECT_NE(damaged(before.substr(0, 200)).find("truncated"), std::string::npos)
      << damaged(before.substr(0, 200));
  int refused = 0;
  for (std::size_t at = 0; at < std::min<std::size_t>(before.size(), 2048); at += 3) {
    std::string text = before;
    text[at] = static_cast<char>(text[at] ^ 0x5a);
    const std::string message = damaged(text);
    refused += message != "nothing" ? 1 : 0;
    EXPECT_EQ(message.find("not say why"), std::string::npos) << at << ": " << message;
    EXPECT_EQ(message.find("gives no reason"), std::string::npos) << at;
  }
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace trireme::io
