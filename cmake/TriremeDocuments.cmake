# Installed documents: links to what is in the sources alone become plain text.
# SPDX-License-Identifier: Apache-2.0
# Run at the end of an installation with -DFOLDER=<prefix>/share/doc/trireme, which also gets
# links `inputs` and `jobs`, so that those of the pages lead where these are: in
# -DDATA=<prefix>/share/trireme.
set(absent "jobs/quickstart.sh|tests|src|cmake|spack|containers|kernels|comm|io|CMakeLists.txt|CMakePresets.json")
file(GLOB_RECURSE pages ${FOLDER}/*.md)
foreach(page IN LISTS pages)
  file(READ ${page} text)
  string(REGEX REPLACE "\\[([^]\n]*)\\]\\((\\.\\./)*(${absent})[^)\n]*\\)" "\\1" text "${text}")
  file(WRITE ${page} "${text}")
endforeach()
foreach(name inputs jobs)
  file(REMOVE ${FOLDER}/${name})
  file(RELATIVE_PATH there ${FOLDER} ${DATA}/${name})
  file(CREATE_LINK ${there} ${FOLDER}/${name} SYMBOLIC)
endforeach()
