# TRIREME_FUZZ: the fuzzing targets with clang's libFuzzer.
# SPDX-License-Identifier: Apache-2.0
# Only the sources that they run are built: no kernels, no MPI calls.
include(CheckCXXSourceCompiles)

set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
set(CMAKE_REQUIRED_LINK_OPTIONS -fsanitize=fuzzer)
check_cxx_source_compiles("
  extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }"
  TRIREME_HAS_LIBFUZZER)
unset(CMAKE_REQUIRED_FLAGS)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(NOT TRIREME_HAS_LIBFUZZER)
  message(FATAL_ERROR "TRIREME_FUZZ wants clang with its libFuzzer (Debian: clang and "
    "libclang-rt-dev); ${CMAKE_CXX_COMPILER} has none")
endif()
target_compile_options(trireme_options INTERFACE -fsanitize=fuzzer-no-link)

# What clang lacks of C++20 before version 16: std::source_location on libstdc++, and
# _Float16 on x86, for which its storage type stands in.
check_cxx_source_compiles("
  #include <source_location>
  int main() { return static_cast<int>(std::source_location::current().line()); }"
  TRIREME_HAS_SOURCE_LOCATION)
if(NOT TRIREME_HAS_SOURCE_LOCATION)
  target_include_directories(trireme_options SYSTEM BEFORE INTERFACE
                             ${PROJECT_SOURCE_DIR}/tests/fuzz/clang)
endif()
check_cxx_source_compiles("int main() { return static_cast<int>(_Float16(0)); }"
                          TRIREME_HAS_FLOAT16)
if(NOT TRIREME_HAS_FLOAT16)
  # Its header of AVX512_FP16 wants that type itself.
  target_compile_options(trireme_options INTERFACE -mno-avx512fp16 -D_Float16=__fp16
                         "SHELL:-Xclang -fallow-half-arguments-and-returns")
endif()

# Of these modules, what parses. What a target comes to need is one more file here.
trireme_module(comm SOURCES comm/hang_verdict.cpp comm/rank_status.cpp comm/rank_list.cpp
               comm/rank_names.cpp tests/fuzz/one_process.cpp USES base LIBRARIES MPI::MPI_C)
trireme_module(config SOURCES src/config/deck_table.cpp USES io)
trireme_module(launch SOURCES src/launch/batch_job.cpp USES io)
trireme_module(app SOURCES src/app/arguments.cpp src/app/markup.cpp src/app/plot.cpp
               src/app/sweep_manifest.cpp src/app/sweep_points.cpp USES config launch)
file(GLOB_RECURSE text_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/text/*.cpp)
trireme_module(text SOURCES ${text_sources} USES base io
               LIBRARIES nlohmann_json::nlohmann_json PCRE2::8BIT ZLIB::ZLIB zstd::zstd
                         Threads::Threads)
file(GLOB_RECURSE data_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/data/*.cpp)
trireme_module(data SOURCES ${data_sources} USES base io text
               LIBRARIES nlohmann_json::nlohmann_json)
add_subdirectory(src/base)
add_subdirectory(io)
add_subdirectory(tests/fuzz)
