# trireme_write_version(): what this build is, as a source file.
# SPDX-License-Identifier: Apache-2.0

# The commit that is checked out; "unknown" outside a git work tree. A new commit makes
# the next build configure again.
function(trireme_git_commit result)
  set(${result} unknown PARENT_SCOPE)
  find_package(Git QUIET)
  if(NOT GIT_FOUND OR NOT EXISTS ${PROJECT_SOURCE_DIR}/.git)
    return()
  endif()
  set(git ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse)
  execute_process(COMMAND ${git} --short=12 HEAD RESULT_VARIABLE status
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT status EQUAL 0)
    return()
  endif()
  execute_process(COMMAND ${git} --git-path logs/HEAD OUTPUT_VARIABLE log
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  cmake_path(ABSOLUTE_PATH log BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(EXISTS ${log})
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                 ${log})
  endif()
  set(${result} ${commit} PARENT_SCOPE)
endfunction()

function(trireme_xxhash_version result)
  file(STRINGS ${XXHASH_INCLUDE_DIR}/xxhash.h lines
       REGEX "define XXH_VERSION_(MAJOR|MINOR|RELEASE) +[0-9]+")
  list(TRANSFORM lines REPLACE "^.* " "")
  list(JOIN lines "." version)
  set(${result} ${version} PARENT_SCOPE)
endfunction()

function(trireme_write_version template output)
  trireme_git_commit(git_commit)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${TRIREME_CXX_OPTIONS}" flags)
  set(options)
  foreach(option TRIREME_NATIVE TRIREME_CUDA TRIREME_NCCL TRIREME_SANITIZE
                 TRIREME_HARDENING TRIREME_FETCH_DEPENDENCIES)
    list(APPEND options "${option}=${${option}}")
  endforeach()
  if(TRIREME_CUDA)
    list(APPEND options "CMAKE_CUDA_ARCHITECTURES=${CMAKE_CUDA_ARCHITECTURES}")
  endif()
  if(DEFINED ENV{SPACK_SHORT_SPEC})  # Spack builds it, and says as what
    string(REPLACE "\"" "'" spec "$ENV{SPACK_SHORT_SPEC}")
    list(APPEND options "Spack=${spec}")
  endif()
  list(JOIN options " " options)
  string(REPLACE ";" "," options "${options}")
  set(target "${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR}")
  set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  trireme_xxhash_version(xxhash_version)
  set(libraries "TOML++ ${tomlplusplus_VERSION}, nlohmann-json ${nlohmann_json_VERSION}")
  string(APPEND libraries ", xxHash ${xxhash_version}, OpenMP ${OpenMP_CXX_VERSION}")
  configure_file(${template} ${output} @ONLY)
endfunction()
