// Cubins are ELF files: a section of code for each kernel, and notes about it.
// SPDX-License-Identifier: Apache-2.0
#include "bench/roofline/cubin.hpp"

#include <cxxabi.h>
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace trireme::bench {
namespace {

// Of the machine that e_machine names; libelf's header of Debian 12 knows it as 190.
constexpr int cuda_machine = 190;
// A note of .nv.info: a symbol and how many registers a thread of it has.
constexpr unsigned char register_note = 0x2f, value_of_symbol = 0x04;

class CubinFile {
 public:
  explicit CubinFile(const std::filesystem::path& path) : name_(path.string()) {
    std::ifstream in(path, std::ios::binary);
    require(in.good(), Status::missing_input, "'{}' cannot be read: compile it first",
            name_);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    require(bytes_.size() >= sizeof(header_) && bytes_.starts_with(ELFMAG),
            Status::bad_content, "'{}' is no ELF file: give what nvcc -cubin wrote",
            name_);
    header_ = at<Elf64_Ehdr>(0);
    require(header_.e_machine == cuda_machine, Status::bad_content,
            "'{}' is ELF for machine {}, not for a GPU: give what nvcc -cubin wrote",
            name_, header_.e_machine);
    for (int i = 0; i < header_.e_shnum; ++i)
      sections_.push_back(at<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr)));
    require(header_.e_shstrndx < sections_.size(), Status::bad_content,
            "'{}' has no names of sections", name_);
  }

  // From ABI version 8 on the capability lies a byte higher.
  int capability() const {
    const unsigned flags = header_.e_flags;
    return static_cast<int>((header_.e_ident[EI_ABIVERSION] >= 8 ? flags >> 8 : flags) &
                            0xffu);
  }

  std::vector<KernelCode> kernels() const {
    std::vector<KernelCode> result;
    const auto registers = registers_of_symbols();
    for (const Elf64_Shdr& section : sections_) {
      const std::string name = name_of(section);
      constexpr std::string_view prefix = ".text.";
      if (!name.starts_with(prefix)) continue;
      const std::string symbol = name.substr(prefix.size());
      const auto found = registers.find(symbol);
      if (found == registers.end()) continue;  // no kernel, but a function of the library
      KernelCode kernel;
      kernel.name = short_name(demangled(symbol));
      kernel.capability = capability();
      kernel.registers = found->second;
      kernel.shared_bytes = size_of_section(".nv.shared." + symbol);
      for (std::uint64_t i = 0; i + 16 <= section.sh_size; i += 16)
        kernel.code.push_back(at<Instruction>(section.sh_offset + i));
      result.push_back(std::move(kernel));
    }
    return result;
  }

 private:
  template <class T>
  T at(std::uint64_t offset) const {
    T value{};
    require(offset + sizeof(T) >= offset && offset + sizeof(T) <= bytes_.size(),
            Status::bad_content, "'{}' is cut short at byte {}", name_, bytes_.size());
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string text_at(std::uint64_t offset) const {
    require(offset < bytes_.size(), Status::bad_content, "'{}' is cut short", name_);
    const auto end = bytes_.find('\0', offset);
    return bytes_.substr(offset, end - offset);
  }
  std::string name_of(const Elf64_Shdr& section) const {
    return text_at(sections_[header_.e_shstrndx].sh_offset + section.sh_name);
  }
  std::int64_t size_of_section(const std::string& name) const {
    for (const Elf64_Shdr& section : sections_)
      if (name_of(section) == name) return static_cast<std::int64_t>(section.sh_size);
    return 0;
  }
  static std::string demangled(const std::string& symbol) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(
        abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
    return status == 0 ? text.get() : symbol;
  }

  std::vector<std::string> symbols() const {
    std::vector<std::string> names;
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_SYMTAB) continue;
      require(section.sh_link < sections_.size(), Status::bad_content,
              "'{}' has symbols without names", name_);
      const std::uint64_t texts = sections_[section.sh_link].sh_offset;
      for (std::uint64_t i = 0; i + sizeof(Elf64_Sym) <= section.sh_size;
           i += sizeof(Elf64_Sym))
        names.push_back(text_at(texts + at<Elf64_Sym>(section.sh_offset + i).st_name));
    }
    return names;
  }

  std::map<std::string, int> registers_of_symbols() const {
    std::map<std::string, int> registers;
    const std::vector<std::string> names = symbols();
    for (const Elf64_Shdr& section : sections_) {
      if (name_of(section) != ".nv.info") continue;
      std::uint64_t i = section.sh_offset;
      const std::uint64_t end = i + section.sh_size;
      while (i + 4 <= end) {
        const auto format = at<unsigned char>(i), note = at<unsigned char>(i + 1);
        const std::uint64_t size =
            format == value_of_symbol ? at<std::uint16_t>(i + 2) : 0;
        if (note == register_note && size == 8) {
          const auto symbol = at<std::uint32_t>(i + 4);
          require(symbol < names.size(), Status::bad_content,
                  "'{}' names symbol {} of {}", name_, symbol, names.size());
          registers[names[symbol]] = static_cast<int>(at<std::uint32_t>(i + 8));
        }
        i += 4 + size;
      }
    }
    return registers;
  }

  std::string name_, bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

std::string short_name(const std::string& demangled) {
  // The name ends where its arguments begin: the first parenthesis outside of <>, but for
  // "(anonymous namespace)".
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  int depth = 0;
  std::size_t begin = 0, end = demangled.size();
  for (std::size_t i = 0; i < demangled.size(); ++i) {
    const char c = demangled[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (depth > 0) continue;
    if (demangled.compare(i, anonymous.size(), anonymous) == 0) {
      i += anonymous.size() - 1;
      begin = i + 1;
    } else if (c == '(') {
      end = i;
      break;
    } else if (c == ' ' || c == ':') {
      begin = i + 1;
    }
  }
  return demangled.substr(begin, end - begin);
}

std::vector<KernelCode> read_cubin(const std::filesystem::path& path) {
  return CubinFile(path).kernels();
}

}  // namespace trireme::bench
