# cmake --install: a relocatable tree with the program, the example decks and the job scripts.
# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)

if(TARGET trireme)
  install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY inputs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme/inputs)
install(DIRECTORY jobs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme/jobs
        FILES_MATCHING PATTERN "*.sbatch")
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
