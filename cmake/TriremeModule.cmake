# trireme_module(): one static library per module, so that the link line repeats the layers.
# SPDX-License-Identifier: Apache-2.0

add_library(trireme_options INTERFACE)
target_compile_features(trireme_options INTERFACE cxx_std_20)
target_include_directories(trireme_options INTERFACE ${PROJECT_SOURCE_DIR}
                           ${PROJECT_SOURCE_DIR}/src)
set(_cxx_options -Wall -Wextra -fopenmp-simd -fno-math-errno -fno-trapping-math)
if(TRIREME_NATIVE)
  list(APPEND _cxx_options -march=native)
endif()
if(TRIREME_WERROR)
  list(APPEND _cxx_options -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # What GCC suspects after inlining depends on the processor that it tunes for, and has
    # false alarms in the standard library (std::variant on Rocket Lake): a warning only.
    foreach(_suspicion maybe-uninitialized array-bounds stringop-overflow stringop-overread)
      list(APPEND _cxx_options -Wno-error=${_suspicion})
    endforeach()
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND _cxx_options -Wno-restrict)  # false alarms on std::string: GCC bug 105651
endif()
set(_sanitizers)
if(TRIREME_SANITIZE)
  list(APPEND _sanitizers -fsanitize=${TRIREME_SANITIZE} -fno-sanitize-recover=all
       -fno-omit-frame-pointer)
  if(TRIREME_SANITIZE MATCHES "undefined")
    # A check at each access would triple the time to compile; a null access stops the
    # program anyhow, with the address sanitizer's report.
    list(APPEND _sanitizers -fno-sanitize=null,alignment,object-size,vptr)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms on std::u32string, and on std::variant and std::optional.
    list(APPEND _sanitizers -Wno-stringop-overread -Wno-maybe-uninitialized)
  endif()
  target_link_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()
# Package files name libraries that are not called (HDF5's names curl): do not load them.
target_link_options(trireme_options INTERFACE LINKER:--as-needed)
target_compile_options(trireme_options INTERFACE
                       "$<$<COMPILE_LANGUAGE:CXX>:${_cxx_options}>")
include(TriremeHardening)
string(JOIN " " TRIREME_CXX_OPTIONS ${_cxx_options} ${_sanitizers}
       ${TRIREME_HARDENING_OPTIONS})  # trireme --version

# Apart from the rest, so that test programs can be compiled without (TRIREME_SANITIZE_TESTS).
add_library(trireme_sanitizers INTERFACE)
target_compile_options(trireme_sanitizers INTERFACE
                       "$<$<COMPILE_LANGUAGE:CXX>:${_sanitizers}>")

# What only modules are compiled with. Whether code for CUDA devices is built, for real ones or
# the emulated one, is said by a header rather than by an option: ccache then gives one build the
# files of another that do not include it.
set(has_cuda false)
if(TRIREME_CUDA)
  set(has_cuda true)
endif()
configure_file(${PROJECT_SOURCE_DIR}/src/base/has_cuda.hpp.in
               ${PROJECT_BINARY_DIR}/generated/base/has_cuda.hpp @ONLY)
add_library(trireme_module_options INTERFACE)
target_link_libraries(trireme_module_options INTERFACE trireme_sanitizers)
target_include_directories(trireme_module_options INTERFACE ${PROJECT_BINARY_DIR}/generated)

include(TriremePrecompiled)
set(_module_libraries trireme_options trireme_module_options trireme_hardening)
trireme_precompiled_headers(module LIBRARIES ${_module_libraries} trireme_assertions)
trireme_precompiled_headers(json HEADERS io/json.hpp
                            LIBRARIES ${_module_libraries} trireme_assertions
                                      nlohmann_json::nlohmann_json)

# What the loops of kernels are compiled with. GCC prefers 256-bit vectors on processors with
# AVX-512; GELU and cross-entropy are 1.2 to 1.4 times faster with 512 (Cascade Lake).
add_library(trireme_kernel_options INTERFACE)
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-mprefer-vector-width=512 TRIREME_HAS_VECTOR_WIDTH)
if(TRIREME_NATIVE AND TRIREME_HAS_VECTOR_WIDTH)
  target_compile_options(trireme_kernel_options INTERFACE
                         "$<$<COMPILE_LANGUAGE:CXX>:-mprefer-vector-width=512>")
endif()
trireme_precompiled_headers(kernels LIBRARIES ${_module_libraries} trireme_kernel_options
                                              OpenMP::OpenMP_CXX)

# A back end is a file, not an #if. A module's folder cuda/ holds what every CUDA build
# compiles, in folders of its own by family, but for these: cuda/nvidia/ is what calls
# NVIDIA's libraries, cuda/emulated/ what takes its place on the emulated device, cuda/cudnn/
# what calls cuDNN; nccl/ is what calls NCCL. A no_*.cpp in such a folder takes the place of
# the folder in a build without it.
function(trireme_backend_sources result)
  set(sources)
  set(folders_present)
  if(TRIREME_CUDA STREQUAL "EMULATED")
    set(folders_present cuda cuda/emulated)
    set(folders_absent cuda/cudnn)
    if(TRIREME_NCCL_EMULATED)
      list(APPEND folders_present nccl)
    else()
      list(APPEND folders_absent nccl)
    endif()
  elseif(TRIREME_CUDA)
    set(folders_present cuda cuda/nvidia)
    set(folders_absent)
    if(TRIREME_NCCL)
      list(APPEND folders_present nccl)
    else()
      list(APPEND folders_absent nccl)
    endif()
    if(TRIREME_CUDNN)
      list(APPEND folders_present cuda/cudnn)
    else()
      list(APPEND folders_absent cuda/cudnn)
    endif()
  else()
    set(folders_absent cuda nccl)
  endif()
  foreach(folder IN LISTS folders_present)
    file(GLOB present CONFIGURE_DEPENDS ${folder}/*.cpp ${folder}/*.cu)
    if(folder STREQUAL "cuda")
      file(GLOB families CONFIGURE_DEPENDS cuda/*/*.cpp cuda/*/*.cu)
      list(FILTER families EXCLUDE REGEX "/cuda/(nvidia|emulated|cudnn)/")
      list(APPEND present ${families})
    endif()
    list(FILTER present EXCLUDE REGEX "/no_[^/]*\\.cpp$")
    list(APPEND sources ${present})
  endforeach()
  foreach(folder IN LISTS folders_absent)
    file(GLOB absent CONFIGURE_DEPENDS ${folder}/no_*.cpp)
    list(APPEND sources ${absent})
  endforeach()
  if(TRIREME_CUDA STREQUAL "EMULATED")
    foreach(source IN LISTS sources)
      if(source MATCHES "\\.cu$")
        set_source_files_properties(${source} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS
                                    "-xc++;-fno-strict-aliasing;-Wno-unknown-pragmas")
      endif()
    endforeach()
  endif()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# The modules with loops over numbers or text. A release build compiles the others with -O2: they
# decide, read and write, which -O3 makes larger and not faster.
set(_modules_of_loops base comm data kernels nn optim parallel text)

# trireme_module(<name> SOURCES <files> USES <modules> [LIBRARIES <targets>])
# USES are visible to users of the module; LIBRARIES stay its own. A module without
# sources is an empty library.
function(trireme_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES;LIBRARIES")
  trireme_backend_sources(backend)
  list(APPEND arg_SOURCES ${backend})
  list(TRANSFORM arg_USES PREPEND trireme_)
  if(NOT arg_SOURCES)
    add_library(trireme_${name} INTERFACE)
    target_link_libraries(trireme_${name} INTERFACE trireme_options ${arg_USES})
    return()
  endif()
  # Only the back end sees the headers of its libraries: what includes none of them is compiled
  # alike in every build, which ccache must see from the options where headers are precompiled.
  set(cuda_libraries)
  foreach(library IN LISTS TRIREME_CUDA_LIBRARIES_${name})
    list(APPEND cuda_libraries $<LINK_ONLY:${library}>)
    set_property(SOURCE ${backend} APPEND PROPERTY INCLUDE_DIRECTORIES
                 $<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>)
  endforeach()
  add_library(trireme_${name} STATIC ${arg_SOURCES})
  target_link_libraries(trireme_${name} PUBLIC trireme_options ${arg_USES}
    PRIVATE trireme_module_options trireme_hardening ${arg_LIBRARIES}
            ${cuda_libraries})
  if(NOT name IN_LIST _modules_of_loops)
    target_compile_options(trireme_${name} PRIVATE "$<$<CONFIG:Release>:-O2>")
  endif()
  set(precompiled module)
  if(name STREQUAL "kernels")  # no trireme_assertions: a check at each index of a loop costs
    target_link_libraries(trireme_${name} PRIVATE trireme_kernel_options)
    set(precompiled kernels)
  else()
    target_link_libraries(trireme_${name} PRIVATE trireme_assertions)
    if(nlohmann_json::nlohmann_json IN_LIST arg_LIBRARIES)
      set(precompiled json)
    endif()
  endif()
  trireme_use_precompiled(trireme_${name} ${precompiled})
endfunction()
